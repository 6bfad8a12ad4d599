"""Ranges are read to their end, whoever dies meanwhile, and never end early."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

import pytest
from kio.schema.errors import ErrorCode

from ottla.client.errors import ConnectionLost
from ottla.client.offsets import EARLIEST, EARLIEST_LOCAL, LATEST
from ottla.common.ids import TopicPartition
from ottla.common.listeners import Address
from ottla.protocol.fetch_client import Fetched, FetchReply
from ottla.protocol.records.records import Record, decode_records, encode_batch
from ottla.spark.errors import DataLoss, SparkError
from ottla.spark.source.planning import OffsetRange
from ottla.spark.source.range_reader import RangeReader, ReadSettings

RECORDS = 3
END = 10
COMMITTED_ONLY = ReadSettings(isolation_level=1)
IMPATIENT = ReadSettings(isolation_level=1, poll_timeout_ms=0)
FORGIVING = ReadSettings(fails_on_data_loss=False)

Positions = Mapping[int, int]
Answer = Callable[[Positions], list[Fetched]]


class Asked(RangeReader):
    """Reads the topic `t` from one leader, which gives these answers, the last one again and again."""

    answers: Sequence[Answer] = ()
    offsets: Mapping[int, int] = {EARLIEST: 0, EARLIEST_LOCAL: 0, LATEST: END}
    """What the leader says of the partition if it is asked for its ends."""
    asked = 0

    async def _leader(self, reading: Any) -> int | None:
        return 0

    async def _ask(
        self, node_id: int, readings: Mapping[TopicPartition, Any]
    ) -> tuple[FetchReply, dict[UUID | None, str]]:
        answer = self.answers[min(self.asked, len(self.answers) - 1)]
        self.asked += 1
        await asyncio.sleep(0)
        fetched = answer({at.partition: each.position for at, each in readings.items()})
        return FetchReply(0, 0, 0, [("t", None, fetched)], []), {}

    async def _offset(self, reading: Any, timestamp: int) -> int:
        return self.offsets[timestamp]


class TwoLeaders(RangeReader):
    """Partition 0 is led by broker 0, partition 1 by broker 1; broker 1 is lost at the first question."""

    asked_of_1 = 0

    async def _leader(self, reading: Any) -> int | None:
        return cast(int, reading.range.partition)

    async def _ask(
        self, node_id: int, readings: Mapping[TopicPartition, Any]
    ) -> tuple[FetchReply, dict[UUID | None, str]]:
        if node_id == 1:
            self.asked_of_1 += 1
            if self.asked_of_1 == 1:
                raise ConnectionLost(Address("broker.example", 9092), "killed")
        await asyncio.sleep(0)  # so that the answer comes after the other connection is lost
        fetched = _sent(node_id, 0, RECORDS)
        return FetchReply(0, 0, 0, [("t", None, [fetched])], []), {}


async def test_what_one_leader_sends_is_not_lost_when_another_dies() -> None:
    reader = _reader(TwoLeaders, [(0, RECORDS), (0, RECORDS)], ReadSettings())
    assert await _read(reader) == [b"%d.%d" % (node, at) for node in range(2) for at in range(RECORDS)]


async def test_partitions_for_which_an_answer_had_no_room_are_read_after_the_others() -> None:
    def room_for_one(positions: Positions) -> list[Fetched]:
        first = min(positions)
        return [_sent(each, at, at + 1) if each == first else _empty(each) for each, at in positions.items()]

    reader = _asked([room_for_one], ranges=[(0, END)] * 5)
    assert await _read(reader) == [b"%d.%d" % (each, at) for each in range(5) for at in range(END)]


async def test_a_batch_behind_the_range_shows_that_compaction_left_nothing_before_it() -> None:
    reader = _asked([lambda _: [_sent(0, 0, 4)], lambda _: [_sent(0, END + 5, END + 6)]])
    assert await _read(reader) == [b"0.%d" % at for at in range(4)]
    assert reader.asked == 2


@pytest.mark.parametrize("settings", [ReadSettings(), COMMITTED_ONLY])
async def test_one_empty_answer_shows_that_no_record_is_left_if_all_is_committed(
    settings: ReadSettings,
) -> None:
    reader = _asked([lambda _: [_sent(0, 0, 4)], lambda _: [_empty(0)]], settings)
    assert await _read(reader) == [b"0.%d" % at for at in range(4)]
    assert reader.asked == 2


async def test_what_is_in_tiered_storage_is_waited_for() -> None:
    reader = _asked([lambda _: [_empty(0)]] * 5 + [lambda _: [_sent(0, 0, END)]])
    reader.offsets = {EARLIEST_LOCAL: 7}
    assert await _read(reader) == [b"0.%d" % at for at in range(END)]


@pytest.mark.parametrize("settings", [ReadSettings(), COMMITTED_ONLY, FORGIVING])
async def test_a_new_leader_that_does_not_know_yet_what_is_committed_is_waited_for(
    settings: ReadSettings,
) -> None:
    behind = _empty(0, high_watermark=2)
    reader = _asked([lambda _: [behind]] * 5 + [lambda _: [_sent(0, 0, END)]], settings)
    assert await _read(reader) == [b"0.%d" % at for at in range(END)]


async def test_a_leader_that_knows_and_ends_before_the_range_has_lost_records() -> None:
    reader = _asked([lambda _: [_empty(0, high_watermark=2)]])
    reader.offsets = {LATEST: 2}
    with pytest.raises(DataLoss, match="t-0 ends at offset 2, but was to be read up to 10"):
        await _read(reader)
    reader = _asked([lambda _: [_empty(0, high_watermark=2)]], FORGIVING)
    reader.offsets = {LATEST: 2}
    assert await _read(reader) == []


async def test_an_open_transaction_is_waited_for() -> None:
    held = _empty(0, last_stable_offset=2)
    reader = _asked([lambda _: [held]] * 5 + [lambda _: [_sent(0, 0, END)]], COMMITTED_ONLY)
    assert await _read(reader) == [b"0.%d" % at for at in range(END)]


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        ([{"last_stable_offset": 2}], "a transaction before it is still open"),
        ([{"high_watermark": 2}], "does not know yet that it is committed"),
        ([{"preferred_replica": 3}], "redirects to another broker"),
        ([], "its leader sent nothing"),
    ],
)
async def test_what_does_not_come_is_said_when_the_time_is_up(answer: list[dict[str, int]], why: str) -> None:
    reader = _asked([lambda _: [_empty(0, **each) for each in answer]], IMPATIENT)
    with pytest.raises(SparkError, match=rf"t-0 did not send offset 0 within 0 ms .*{why}"):
        await _read(reader)


async def test_a_broker_that_refuses_an_existing_offset_is_asked_again() -> None:
    refused = _empty(0)._replace(error_code=int(ErrorCode.offset_out_of_range))
    reader = _asked([lambda _: [refused]] * 5 + [lambda _: [_sent(0, 0, END)]])
    assert await _read(reader) == [b"0.%d" % at for at in range(END)]


async def test_offsets_that_retention_has_removed_are_lost_or_passed_over() -> None:
    refused = _empty(0)._replace(error_code=int(ErrorCode.offset_out_of_range))
    answers: list[Answer] = [lambda _: [refused], lambda _: [_sent(0, 6, END)]]
    reader = _asked(answers)
    reader.offsets = {EARLIEST: 6, LATEST: END}
    with pytest.raises(DataLoss, match="t-0 has offsets 6 to 10, but 0 was to be read next"):
        await _read(reader)
    reader = _asked(answers, FORGIVING)
    reader.offsets = {EARLIEST: 6, LATEST: END}
    assert await _read(reader) == [b"0.%d" % at for at in range(6, END)]


def _asked(
    answers: Sequence[Answer],
    settings: ReadSettings | None = None,
    ranges: Sequence[tuple[int, int]] = ((0, END),),
) -> Asked:
    reader = cast(Asked, _reader(Asked, ranges, settings or ReadSettings()))
    reader.answers = answers
    return reader


def _reader(
    kind: type[RangeReader], ranges: Sequence[tuple[int, int]], settings: ReadSettings
) -> RangeReader:
    backoff = SimpleNamespace(pause_ms=lambda failures: 0)
    cluster: Any = SimpleNamespace(backoff=backoff, forget=lambda topic: None)
    wanted = [OffsetRange("t", None, at, start, end) for at, (start, end) in enumerate(ranges)]
    return kind(cluster, wanted, settings)


async def _read(reader: RangeReader) -> list[bytes | None]:
    """Return the values of all that comes, in the order of partitions."""
    read: list[bytes | None] = []
    while pieces := await reader.next():
        for piece in pieces:
            for _, batch in piece.batches:
                read += [record.value for record in decode_records(bytes(batch), max_bytes=1 << 20)]
    return sorted(read, key=lambda value: [int(each) for each in (value or b"").split(b".")])


def _sent(partition: int, start: int, end: int) -> Fetched:
    """Return an answer with the records of these offsets in one batch."""
    values = [Record(at, 0, None, b"%d.%d" % (partition, at)) for at in range(start, end)]
    records = memoryview(bytes(encode_batch(values, base_offset=start)))
    return _empty(partition, high_watermark=max(end, END))._replace(records=records)


def _empty(
    partition: int,
    high_watermark: int = END,
    last_stable_offset: int | None = None,
    preferred_replica: int = -1,
) -> Fetched:
    stable = high_watermark if last_stable_offset is None else last_stable_offset
    return Fetched(partition, 0, high_watermark, stable, 0, (), preferred_replica, memoryview(b""), None)
