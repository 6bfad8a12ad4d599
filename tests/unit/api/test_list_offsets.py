from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from kio.schema.errors import ErrorCode
from kio.schema.list_offsets.v11 import ListOffsetsRequest
from kio.schema.list_offsets.v11.request import ListOffsetsPartition, ListOffsetsTopic

from ottla.api.list_offsets import list_offsets
from ottla.api.support.context import RequestContext
from ottla.log.log_types import TimestampOffset
from ottla.protocol.errors import KafkaStorageError


def request(*timestamps: int, isolation_level: int = 0) -> ListOffsetsRequest:
    """Ask for one partition after the other."""
    wanted: Any = tuple(
        ListOffsetsPartition(partition_index=index, current_leader_epoch=-1, timestamp=timestamp)  # type: ignore[arg-type]
        for index, timestamp in enumerate(timestamps)
    )
    topics: Any = (ListOffsetsTopic(name="orders", partitions=wanted),)  # type: ignore[arg-type]
    timeout: Any = timedelta(0)
    return ListOffsetsRequest(
        replica_id=-1,  # type: ignore[arg-type]
        isolation_level=isolation_level,  # type: ignore[arg-type]
        topics=topics,
        timeout=timeout,
    )


class SearchedLog:
    """A log that finds the same record always, and fails if it is told to."""

    error: Exception | None = None

    def timestamp_lookup(self, timestamp: int) -> Any:
        return lambda: self._find(timestamp)

    def max_timestamp_lookup(self) -> Any:
        return lambda: self._find(99)

    def _find(self, timestamp: int) -> TimestampOffset | None:
        if self.error is not None:
            raise self.error
        return TimestampOffset(timestamp, timestamp + 1, 4) if timestamp < 1000 else None


@pytest.fixture
def logs(bench: Any) -> list[SearchedLog]:
    made = []
    for index in range(4):
        partition = bench.partitions.add("orders", index)
        partition.log = SearchedLog()
        partition.leader_epoch = partition.last_stable_offset = 5
        partition.is_high_watermark_valid = True
        partition.check_leader_epoch = lambda _epoch: None
        partition.epoch_for_offset = lambda _offset: 3
        made.append(partition.log)
    return made


async def answers(bench: Any, *timestamps: int) -> list[tuple[int, int, int, ErrorCode]]:
    (topic,) = (await bench.ask(request(*timestamps))).topics
    return [(each.timestamp, each.offset, each.leader_epoch, each.error_code) for each in topic.partitions]


@pytest.mark.usefixtures("logs")
async def test_either_end_is_answered_at_once(bench: Any) -> None:
    ctx: Any = RequestContext(bench.services, SimpleNamespace(), 2, 11, 7, "test")
    response: Any = list_offsets(request(-1, -2, -4), ctx)
    assert [each.offset for each in response.topics[0].partitions] == [100, 0, 0]


@pytest.mark.usefixtures("logs")
async def test_a_search_and_either_end_can_be_asked_for_together(bench: Any) -> None:
    assert await answers(bench, -1, 50, -3, 2000) == [
        (-1, 100, 5, ErrorCode.none),
        (51, 50, 4, ErrorCode.none),
        (100, 99, 4, ErrorCode.none),
        (-1, -1, -1, ErrorCode.none),
    ]


@pytest.mark.usefixtures("logs")
async def test_a_record_that_is_not_committed_is_not_found(bench: Any) -> None:
    assert await answers(bench, 100) == [(-1, -1, -1, ErrorCode.none)]


async def test_a_search_that_fails_does_not_fail_the_others(bench: Any, logs: list[SearchedLog]) -> None:
    logs[0].error = KafkaStorageError("the disk is gone")
    codes = [code for *_, code in await answers(bench, 50, 50, -1)]
    assert codes == [ErrorCode.kafka_storage_error, ErrorCode.none, ErrorCode.none]


@pytest.mark.usefixtures("logs")
async def test_for_readers_of_committed_records_the_end_is_the_last_stable_offset(bench: Any) -> None:
    (topic,) = (await bench.ask(request(-1, 4, 5, isolation_level=1))).topics
    assert [each.offset for each in topic.partitions] == [5, 4, -1]


@pytest.mark.usefixtures("logs")
async def test_an_isolation_level_that_does_not_exist_is_refused(bench: Any) -> None:
    (topic,) = (await bench.ask(request(-1, isolation_level=7))).topics
    assert [each.error_code for each in topic.partitions] == [ErrorCode.invalid_request]


@pytest.mark.usefixtures("logs")
@pytest.mark.parametrize(
    ("version", "code"), [(4, ErrorCode.leader_not_available), (5, ErrorCode.offset_not_available)]
)
async def test_a_new_leader_does_not_tell_an_end_that_may_be_before_the_last_ones(
    bench: Any, version: int, code: ErrorCode
) -> None:
    for index in range(4):
        bench.partitions.get("orders", index).is_high_watermark_valid = False
    (topic,) = (await bench.ask(request(-1, 50, 2000, -2), version)).topics
    assert [each.error_code for each in topic.partitions] == [code, ErrorCode.none, code, ErrorCode.none]
