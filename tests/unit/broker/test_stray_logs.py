"""Logs that no topic owns."""

from ottla.broker.data_directory import set_stray_logs_aside
from ottla.common.clock import ManualClock
from ottla.common.ids import TopicPartition, new_uuid
from ottla.log.checkpoints import LOG_STARTS, decode_offsets
from ottla.log.directories.log_directories import LogDirectories
from ottla.log.directories.log_directory import LogDirectory
from ottla.log.log_config import LogConfig
from ottla.metadata.image import EMPTY
from ottla.protocol.records.batch import check_batch
from ottla.protocol.records.records import Record, encode_batch
from ottla.testing.simulation.disk import SimDisk


def test_the_checkpoints_forget_a_log_that_is_set_aside() -> None:
    disk, clock = SimDisk(), ManualClock()
    only = LogDirectory("/data", disk, clock, node_id=1, cluster_id="cluster")
    directory = LogDirectories([only], clock)
    directory.open(lambda topic: LogConfig())
    log = directory.create(TopicPartition("orders", 0), new_uuid(), LogConfig())
    for _ in range(3):
        batch = memoryview(encode_batch([Record(0, 0, None, b"value")]))
        log.append(batch, check_batch(batch), 0, clock.wall_ms())
    log.delete_records_before(2)
    directory.write_checkpoints()
    assert decode_offsets(disk.read_file(f"/data/{LOG_STARTS}")) == {log.topic_partition: 2}

    set_stray_logs_aside(directory, EMPTY, 1)

    assert not directory.logs
    assert decode_offsets(disk.read_file(f"/data/{LOG_STARTS}")) == {}
