from typing import Any

import pytest
from kio.schema.describe_log_dirs.v5 import DescribeLogDirsRequest
from kio.schema.describe_log_dirs.v5.request import DescribableLogDirTopic
from kio.schema.errors import ErrorCode


def request(**topics: tuple[int, ...]) -> DescribeLogDirsRequest:
    wanted: Any = tuple(
        DescribableLogDirTopic(topic=name, partitions=partitions)  # type: ignore[arg-type]
        for name, partitions in topics.items()
    )
    return DescribeLogDirsRequest(topics=wanted or None)


@pytest.mark.parametrize("version", range(1, 6))
async def test_every_partition_is_listed_with_its_size_in_every_version(bench: Any, version: int) -> None:
    for topic, index in (("orders", 0), ("orders", 1), ("users", 0)):
        bench.partitions.add(topic, index)
    response = await bench.ask(request(), version)
    (directory,) = response.results
    assert (directory.error_code, directory.log_dir) == (ErrorCode.none, "/tmp")
    assert [(each.name, [p.partition_index for p in each.partitions]) for each in directory.topics] == [
        ("orders", [0, 1]),
        ("users", [0]),
    ]
    partition = directory.topics[0].partitions[0]
    assert (partition.partition_size, partition.offset_lag, partition.is_future_key) == (1234, 0, False)
    if version >= 3:
        assert response.error_code == ErrorCode.none
    if version >= 4:
        assert 0 < directory.usable_bytes <= directory.total_bytes


async def test_only_what_is_asked_for_and_here_is_listed(bench: Any) -> None:
    bench.partitions.add("orders", 0)
    bench.partitions.add("orders", 1)
    response = await bench.ask(request(orders=(1, 1, 7), nothing=(0,)))
    (directory,) = response.results
    assert [(each.name, [p.partition_index for p in each.partitions]) for each in directory.topics] == [
        ("orders", [1])
    ]


async def test_a_directory_that_went_offline_says_so(bench: Any) -> None:
    bench.partitions.add("orders", 0)
    bench.services.log_directories.directories[0].storage.offline_reason = "fsync failed"
    (directory,) = (await bench.ask(request())).results
    assert (directory.error_code, directory.topics) == (ErrorCode.kafka_storage_error, ())


async def test_a_volume_that_cannot_be_measured_has_unknown_sizes(bench: Any) -> None:
    bench.services.log_directories.directories[0].storage.path = "/nowhere/at/all"
    (directory,) = (await bench.ask(request())).results
    assert (directory.total_bytes, directory.usable_bytes) == (-1, -1)
