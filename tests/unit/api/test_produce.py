"""Produce: what is answered when records are committed later than they are appended."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from inspect import isawaitable
from types import SimpleNamespace
from typing import Any, cast

from kio.schema.errors import ErrorCode
from kio.schema.produce.v8.request import PartitionProduceData, ProduceRequest, TopicProduceData

from ottla.api.produce import produce
from ottla.api.support.context import RequestContext
from ottla.api.support.produce_scheduler import ProduceScheduler
from ottla.log.log_types import AppendResult
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.errors import InvalidRecord, KafkaStorageError, UnknownTopicOrPartition
from ottla.protocol.records.records import Record, encode_batch
from ottla.protocol.schema.messages import request_encoder, response_decoder
from ottla.protocol.types import TopicName, i16, i32
from ottla.replication.backlog import PARTITION_BYTES, Backlog, BacklogSum
from ottla.replication.counters import TopicTraffic

VERSION = 8
SIZE_AND_HEADER_BYTES = 8


class PretendedLeader:
    """Has a backlog that is full."""

    def __init__(self) -> None:
        self.acks_all_backlog = Backlog(BacklogSum())
        self.acks_all_backlog.add(40, PARTITION_BYTES)

    def full_backlog(self, acks: int) -> Backlog | None:
        assert acks == -1
        return self.acks_all_backlog if self.acks_all_backlog.is_full else None


class Connection:
    """Knows whether it is held."""

    def __init__(self) -> None:
        self.holds = 0

    def hold(self) -> None:
        self.holds += 1

    def release(self) -> None:
        self.holds -= 1


class PretendedPartition:
    """Takes what is appended, and commits it when the test says so."""

    def __init__(self, index: int, *, commits_immediately: bool = False) -> None:
        self.topic_partition = SimpleNamespace(topic="orders", partition=index)
        self.log = SimpleNamespace(validates_records=False)
        self.leader_state: PretendedLeader | None = None
        self.appends = 0
        self.is_committed: asyncio.Future[None] | None = None
        if not commits_immediately:
            self.is_committed = asyncio.get_running_loop().create_future()

    def append(self, _batch: memoryview, _header: object, _is_inspected: bool) -> AppendResult:
        self.appends += 1
        return AppendResult(40, 40, -1, 0, False)

    def check_in_sync(self) -> None:
        """Always in sync."""

    def when_committed(self, offset: int) -> asyncio.Future[None] | None:
        assert offset == 41
        return self.is_committed


class Bench:
    """Some partitions, and one request to all of them."""

    def __init__(self, *partitions: PretendedPartition) -> None:
        self._partitions = dict(enumerate(partitions))
        self.connection = Connection()
        self.traffic = TopicTraffic()

    def traffic_of(self, _topic: object) -> TopicTraffic:
        return self.traffic

    def get(self, topic: str, index: int) -> PretendedPartition:
        if topic != "orders" or index not in self._partitions:
            raise UnknownTopicOrPartition(f"{topic}-{index}")
        return self._partitions[index]

    async def send(self, *indexes: int, timeout_ms: int = 60_000) -> list[tuple[ErrorCode, int]]:
        """Return the error and the base offset of each partition."""
        answers = await self.ask(*indexes, timeout_ms=timeout_ms)
        return [(each.error_code, each.base_offset) for each in answers]

    async def ask(self, *indexes: int, timeout_ms: int = 60_000) -> Any:
        """Return the answer for each partition."""
        records = cast(Any, bytes(encode_batch([Record(0, 0, None, b"value")])))
        data = tuple(PartitionProduceData(index=i32(index), records=records) for index in indexes)
        request = ProduceRequest(
            transactional_id=None,
            acks=i16(-1),
            timeout=cast(Any, timedelta(milliseconds=timeout_ms)),
            topic_data=(TopicProduceData(name=TopicName("orders"), partition_data=data),),
        )
        frame = bytearray(request_encoder(ApiKey.PRODUCE, VERSION, VERSION)(request))
        services = cast(
            Any,
            SimpleNamespace(
                partitions=self, produce_scheduler=ProduceScheduler(), quotas=None, authorizer=None
            ),
        )
        ctx = RequestContext(services, cast(Any, self.connection), ApiKey.PRODUCE, VERSION, 7, "test")
        reply = produce(memoryview(frame), 0, ctx)
        decode = response_decoder(ApiKey.PRODUCE, VERSION, VERSION)
        frame_of_reply = cast(bytes, await reply if isawaitable(reply) else reply)
        response: Any = decode(frame_of_reply, SIZE_AND_HEADER_BYTES)
        (topic,) = response.responses
        return topic.partition_responses


async def test_one_partition_that_fails_does_not_fail_the_others() -> None:
    at_once, later, never = PretendedPartition(0, commits_immediately=True), *map(PretendedPartition, (1, 2))
    answer = asyncio.create_task(Bench(at_once, later, never).send(0, 1, 2, 9))
    await asyncio.sleep(0)
    assert later.is_committed is not None
    assert never.is_committed is not None
    later.is_committed.set_result(None)
    never.is_committed.set_exception(KafkaStorageError("the disk failed"))
    assert await answer == [
        (ErrorCode.none, 40),
        (ErrorCode.none, 40),
        (ErrorCode.kafka_storage_error, -1),
        (ErrorCode.unknown_topic_or_partition, -1),
    ]


async def test_only_what_is_not_committed_in_time_has_timed_out() -> None:
    at_once, never = PretendedPartition(0, commits_immediately=True), PretendedPartition(1)
    assert await Bench(at_once, never).send(0, 1, timeout_ms=1) == [
        (ErrorCode.none, 40),
        (ErrorCode.request_timed_out, -1),
    ]


async def test_the_answer_names_the_records_at_fault() -> None:
    partition = PretendedPartition(0)

    def refuse(*_: object) -> AppendResult:
        error = InvalidRecord("2 records were refused")
        error.record_errors = [(1, "no key"), (4, None)]
        raise error

    partition.append = refuse  # type: ignore[method-assign]
    (answer,) = await Bench(partition).ask(0)
    assert answer.error_code is ErrorCode.invalid_record
    assert [(each.batch_index, each.batch_index_error_message) for each in answer.record_errors] == [
        (1, "no key"),
        (4, None),
    ]


async def test_nothing_is_appended_and_the_connection_is_held_while_followers_are_too_far_behind() -> None:
    partition = PretendedPartition(0, commits_immediately=True)
    partition.leader_state = leader = PretendedLeader()
    bench = Bench(partition)
    answer = asyncio.create_task(bench.send(0))
    await asyncio.sleep(0.001)
    assert (partition.appends, bench.connection.holds) == (0, 1)
    leader.acks_all_backlog.commit(40)
    assert await answer == [(ErrorCode.none, 40)]
    assert (partition.appends, bench.connection.holds) == (1, 0)


async def test_a_request_that_waited_for_too_long_is_not_appended() -> None:
    """It may be sent again, and is not in the log twice then."""
    partition = PretendedPartition(0)
    partition.leader_state = PretendedLeader()
    bench = Bench(partition)
    assert await bench.send(0, timeout_ms=2) == [(ErrorCode.request_timed_out, -1)]
    assert (partition.appends, bench.connection.holds) == (0, 0)


async def test_what_a_producer_waits_for_is_counted() -> None:
    partition = PretendedPartition(0)
    partition.leader_state = leader = PretendedLeader()
    leader.acks_all_backlog.commit(40)
    answer = asyncio.create_task(Bench(partition).send(0))
    await asyncio.sleep(0)
    assert leader.acks_all_backlog.size_bytes > 0
    leader.acks_all_backlog.commit(41)
    assert leader.acks_all_backlog.size_bytes == 0
    assert partition.is_committed is not None
    partition.is_committed.set_result(None)
    assert await answer == [(ErrorCode.none, 40)]
