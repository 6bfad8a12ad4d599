"""What a scan looks at, and what it holds of it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.console.messages.making import TOPIC

from ottla.common.clock import SystemClock
from ottla.common.ids import TopicPartition
from ottla.console.messages import search
from ottla.console.messages.decoding import MessageDecoder, TruncatedBytes
from ottla.console.messages.expression import everything, parse
from ottla.console.messages.masking import Mask, Masking
from ottla.console.messages.message import Message, Reading
from ottla.console.messages.positions import Offsets
from ottla.console.messages.reader import Chunk, records_of, shortened
from ottla.console.messages.tail import SHOWN, TailUpdate
from ottla.protocol.records.batch import iter_batches
from ottla.protocol.records.records import Record, encode_batch

GZIP, PER_BATCH = 1, 3


def chunk_of(batches: int, value: bytes = b"{}", *, codec: int = 0) -> Chunk:
    """Return a chunk of batches of three records each."""
    data = b"".join(
        encode_batch(
            [Record(base + each, base, b"k", value, ()) for each in range(PER_BATCH)],
            base_offset=base,
            codec=codec,
        )
        for base in range(0, batches * PER_BATCH, PER_BATCH)
    )
    end = batches * PER_BATCH
    return Chunk(TopicPartition(TOPIC, 0), list(iter_batches(data)), 0, end, end)


def test_large_hits_are_handed_out_before_more_is_unpacked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "HELD_BYTES", 5_000_000)
    chunk: Chunk | None = chunk_of(7, b"x" * 1_000_000, codec=GZIP)  # 21 MB in 21 KB
    parts = []
    while chunk is not None:
        found = search.matches(chunk, Reading(TOPIC), everything())
        parts.append([each.record.offset for each in found.hits])
        chunk = found.left
    assert [len(each) for each in parts] == [6, 6, 6, 3]
    assert [offset for each in parts for offset in each] == list(range(21))


@pytest.mark.parametrize("where", ["offset >= 4", "value CONTAINS 'abcd'", "key = 'k' AND value LIKE '%bc%'"])
def test_each_record_is_looked_at_once(where: str) -> None:
    chunk = chunk_of(4, b"abcd")._replace(end=10)
    found = search.matches(chunk, Reading(TOPIC), parse(where))
    assert [each.record.offset for each in found.hits] == list(range(4 if "offset" in where else 0, 10))
    assert found.left is None


def test_of_large_values_a_list_keeps_the_beginning() -> None:
    records = records_of(chunk_of(1, b"x" * 1_000_000, codec=GZIP), keep=5_000)
    assert {len(each.value) for each in records} == {5_000}
    found = MessageDecoder().decode(records[0].value)
    assert (found.is_cut, found.size, len(found.text)) == (True, 1_000_000, 5_000)
    assert shortened(records[0], 10_000) is records[0]
    assert not isinstance(shortened(records_of(chunk_of(1))[0], 10).value, TruncatedBytes)


def test_an_update_has_the_newest_messages() -> None:
    update = TailUpdate(skipped=3)
    records = records_of(chunk_of(30))
    for begin in (0, 45):
        update.add([Message(each, Reading(TOPIC)) for each in records[begin : begin + 45]])
    assert [each.record.offset for each in update.messages] == list(range(90 - SHOWN, 90))
    assert update.skipped == 3 + 90 - SHOWN


Times = list[list[int]]
"""The timestamps of the records of each partition; a negative one does not match."""


def _reader(times: Times) -> Any:
    """Return what reads a topic with these records, a few offsets at a time."""

    async def read(
        cluster: object, topic: str, positions: Mapping[int, int], ends: Mapping[int, int]
    ) -> AsyncIterator[Chunk]:
        for index, begin in positions.items():
            for at in range(begin, ends[index], 4):
                end = min(at + 4, ends[index])
                records = [
                    Record(offset, abs(times[index][offset]), b"k", _value(times[index][offset]), ())
                    for offset in range(at, end)
                ]
                batches = list(iter_batches(encode_batch(records, base_offset=at)))
                yield Chunk(TopicPartition(TOPIC, index), batches, at, end, ends[index])

    return read


def _value(time: int) -> bytes:
    return b"no" if time < 0 else b"x" * 200


async def _pages_back(times: Times, limit: int) -> list[list[tuple[int, int]]]:
    """Search from the newest back, page by page; return what each found."""
    ranges = {index: (0, len(each)) for index, each in enumerate(times)}
    before: Offsets = {index: end for index, (_, end) in ranges.items()}
    pages = []
    while before:
        found: list[tuple[int, int]] = []
        async for progress in search.search_back(
            None,  # type: ignore[arg-type]
            Reading(TOPIC), parse("value CONTAINS 'xxx'"), before, ranges, SystemClock(), limit=limit,
        ):  # fmt: skip
            found += [(each.record.partition, each.record.offset) for each in progress.hits]
        assert progress.is_done
        assert progress.found == len(found) <= limit
        before = progress.cursor
        pages.append(found)
    return pages


@given(st.lists(st.lists(st.integers(-50, 50), max_size=40), min_size=1, max_size=4), st.integers(1, 12))
async def test_a_search_back_finds_each_match_once_the_newest_of_a_partition_first(
    times: Times, limit: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(search, "read", _reader(times))
        patch.setattr(search, "INITIAL_WINDOW", 6)
        patch.setattr(search, "HELD_BYTES", 1_000)
        found = [each for page in await _pages_back(times, limit) for each in page]
    matching = {
        (index, offset) for index, each in enumerate(times) for offset, time in enumerate(each) if time >= 0
    }
    assert len(found) == len(set(found))
    assert set(found) == matching
    for index in range(len(times)):
        offsets = [offset for at, offset in found if at == index]
        assert offsets == sorted(offsets, reverse=True)


async def test_a_search_back_shows_the_newest_first(monkeypatch: pytest.MonkeyPatch) -> None:
    times = [[10, 30, 50], [20, 40, 60]]
    monkeypatch.setattr(search, "read", _reader(times))
    pages = await _pages_back(times, 4)
    assert pages[:2] == [[(1, 2), (0, 2), (1, 1), (0, 1)], [(1, 0), (0, 0)]]


def test_a_search_of_masked_values_takes_as_long_whether_a_hidden_text_exists_or_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looked_at: list[int] = []
    monkeypatch.setattr(
        search, "Message", lambda record, reading: looked_at.append(record.offset) or Message(record, reading)
    )
    masking = Masking((Mask.parse(f"{TOPIC}:$.card"),))
    for text in ("4111-1111", "4222-2222"):
        chunk = chunk_of(2, b'{"card": "4111-1111"}')
        found = search.matches(chunk, Reading(TOPIC, masking=masking), parse(f"value CONTAINS '{text}'"))
        assert found.hits == []
        assert looked_at == list(range(6))
        looked_at.clear()
