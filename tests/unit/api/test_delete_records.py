from datetime import timedelta
from typing import Any

import pytest
from kio.schema.delete_records.v2 import DeleteRecordsRequest
from kio.schema.delete_records.v2.request import DeleteRecordsPartition, DeleteRecordsTopic
from kio.schema.errors import ErrorCode


def request(**topics: dict[int, int]) -> DeleteRecordsRequest:
    timeout: Any = timedelta(seconds=30)
    wanted: Any = tuple(
        DeleteRecordsTopic(
            name=name,  # type: ignore[arg-type]
            partitions=tuple(
                DeleteRecordsPartition(partition_index=index, offset=offset)  # type: ignore[arg-type]
                for index, offset in offsets.items()
            ),
        )
        for name, offsets in topics.items()
    )
    return DeleteRecordsRequest(topics=wanted, timeout=timeout)


@pytest.mark.parametrize("version", range(3))
async def test_the_log_start_moves_in_every_version(bench: Any, version: int) -> None:
    for index in range(5):
        bench.partitions.add("orders", index)
    response = await bench.ask(request(orders={0: 30, 1: -1, 2: 101, 3: -2, 9: 0}), version)
    (topic,) = response.topics
    assert [(each.partition_index, each.low_watermark, each.error_code) for each in topic.partitions] == [
        (0, 30, ErrorCode.none),
        (1, 100, ErrorCode.none),
        (2, -1, ErrorCode.offset_out_of_range),
        (3, -1, ErrorCode.offset_out_of_range),
        (9, -1, ErrorCode.unknown_topic_or_partition),
    ]
    assert [each.log_start_offset for each in bench.partitions] == [30, 100, 0, 0, 0]
    assert bench.checkpoints_written == 1, "the answer must wait until the log starts are on the disk"


async def test_an_offset_before_the_log_start_moves_nothing(bench: Any) -> None:
    bench.partitions.add("orders", 0).log_start_offset = 50
    (topic,) = (await bench.ask(request(orders={0: 20}))).topics
    assert topic.partitions[0].low_watermark == 50


async def test_compacted_and_internal_topics_keep_their_records(bench: Any) -> None:
    bench.partitions.add("table", 0).log.config.cleanup_policy = frozenset({"compact"})
    bench.partitions.add("both", 0).log.config.cleanup_policy = frozenset({"compact", "delete"})
    bench.partitions.add("__consumer_offsets", 0)
    response = await bench.ask(request(table={0: 20}, both={0: 20}, __consumer_offsets={0: 20}))
    assert [(each.name, each.partitions[0].error_code) for each in response.topics] == [
        ("table", ErrorCode.policy_violation),
        ("both", ErrorCode.none),
        ("__consumer_offsets", ErrorCode.invalid_topic_exception),
    ]


async def test_log_starts_that_cannot_be_written_are_a_storage_error(bench: Any) -> None:
    bench.partitions.add("orders", 0)
    bench.disk_error = OSError(28, "No space left on device")
    response = await bench.ask(request(orders={0: 30, 9: 0}))
    codes = [each.error_code for each in response.topics[0].partitions]
    assert codes == [ErrorCode.kafka_storage_error, ErrorCode.unknown_topic_or_partition]
