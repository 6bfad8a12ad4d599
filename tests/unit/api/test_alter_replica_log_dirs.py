from typing import Any

import pytest
from kio.schema.alter_replica_log_dirs.v2 import AlterReplicaLogDirsRequest
from kio.schema.alter_replica_log_dirs.v2.request import AlterReplicaLogDir, AlterReplicaLogDirTopic
from kio.schema.errors import ErrorCode


async def codes(bench: Any, path: str, version: int = 2) -> list[ErrorCode]:
    topic: Any = AlterReplicaLogDirTopic(name="orders", partitions=(0, 7))  # type: ignore[arg-type]
    request = AlterReplicaLogDirsRequest(dirs=(AlterReplicaLogDir(path=path, topics=(topic,)),))
    (found,) = (await bench.ask(request, version)).results
    return [each.error_code for each in found.partitions]


@pytest.mark.parametrize("version", [1, 2])
async def test_a_replica_may_stay_where_it_is_and_is_not_moved_to_unknown_places(
    bench: Any, version: int
) -> None:
    bench.partitions.add("orders", 0)
    here = [ErrorCode.none, ErrorCode.unknown_topic_or_partition]
    assert await codes(bench, "/tmp", version) == here
    assert await codes(bench, "/tmp/", version) == here
    for elsewhere in ("/nowhere", "tmp", ""):
        assert await codes(bench, elsewhere, version) == [ErrorCode.log_dir_not_found] * 2
    bench.services.log_directories.directories[0].storage.offline_reason = "fsync failed"
    assert await codes(bench, "/tmp", version) == [ErrorCode.kafka_storage_error] * 2
