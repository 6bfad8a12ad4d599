"""The partitions of a broker follow the cluster image."""

import asyncio
import errno
from collections.abc import AsyncIterator

import pytest

from ottla.common.clock import ManualClock
from ottla.common.config.broker import BrokerConfig
from ottla.common.ids import TopicPartition, new_uuid
from ottla.log.directories.flusher import Flusher
from ottla.log.directories.log_directories import LogDirectories
from ottla.log.directories.log_directory import LogDirectory
from ottla.log.log_config import LogConfig
from ottla.metadata.image import EMPTY, ClusterImage
from ottla.metadata.records import PartitionCreated, TopicCreated, TopicDeleted
from ottla.protocol.errors import NotLeaderOrFollower, UnknownTopicOrPartition
from ottla.protocol.records.batch import check_batch
from ottla.protocol.records.records import Record, encode_batch
from ottla.replication.partition import Partition
from ottla.replication.registry import PartitionRegistry
from ottla.testing.simulation.disk import SimDisk

NODE = 1


class Bench:
    """A registry on a disk that can fail, and the image that it follows."""

    def __init__(self, **settings: str) -> None:
        self.config = BrokerConfig({"node.id": str(NODE), **settings})
        self.disk = SimDisk()
        self.clock = ManualClock()
        self.flusher = Flusher()
        self.image = EMPTY
        self.open()

    def open(self) -> None:
        only = LogDirectory("/data", self.disk, self.clock, node_id=NODE, cluster_id="cluster")
        self.directory = LogDirectories([only], self.clock)
        self.directory.open(lambda topic: LogConfig())
        self.registry = PartitionRegistry(NODE, self.directory, self.flusher, self.config, self.clock)

    async def start(self) -> None:
        await self.registry.apply(EMPTY, self.image)

    async def become(self, image: ClusterImage) -> None:
        old, self.image = self.image, image
        await self.registry.apply(old, image)

    async def create(self, *names: str) -> None:
        image = self.image
        for name in names:
            topic_id = new_uuid()
            partition = PartitionCreated(topic_id, 0, NODE, 0, (NODE,), (NODE,))
            image = image.apply([TopicCreated(name, topic_id), partition])
        await self.become(image)

    async def delete(self, *names: str) -> None:
        await self.become(
            self.image.apply([TopicDeleted(self.image.topics[name].topic_id) for name in names])
        )

    async def opened(self, name: str) -> Partition:
        """Return the partition of a topic as soon as it is served."""
        for _ in range(1000):
            if len(self.registry):
                break
            await asyncio.sleep(0.005)
        return self.registry.get(name, 0)


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    bench = Bench()
    async with bench.flusher:
        yield bench


def append(partition: Partition, count: int = 1) -> None:
    for _ in range(count):
        batch = memoryview(encode_batch([Record(0, 0, None, b"value")]))
        partition.append(batch, check_batch(batch))


async def test_a_new_topic_inherits_nothing_from_one_that_had_its_name(bench: Bench) -> None:
    await bench.create("orders")
    old = bench.registry.get("orders", 0)
    append(old, 10)
    old.delete_records(5)
    bench.directory.write_checkpoints()
    await bench.delete("orders")
    await bench.create("orders")
    append(bench.registry.get("orders", 0), 3)

    bench.disk.kill()
    bench.open()
    await bench.start()

    found = bench.registry.get("orders", 0)
    assert (found.log_start_offset, found.high_watermark) == (0, 3)


async def test_files_that_cannot_be_moved_do_not_keep_other_topics_alive(bench: Bench) -> None:
    await bench.create("first", "second")
    bench.disk.fail("rename", errno.ENOSPC, path_part="first-0")
    await bench.delete("first", "second")
    for name in ("first", "second"):
        with pytest.raises(UnknownTopicOrPartition):
            bench.registry.get(name, 0)
    assert not bench.directory.logs


async def test_a_topic_whose_log_cannot_be_opened_can_be_deleted_and_made_again(bench: Bench) -> None:
    await bench.create("orders")
    append(bench.registry.get("orders", 0))
    bench.disk.kill()
    bench.disk.fail("open", errno.EIO, path_part="orders-0")
    bench.open()
    await bench.start()
    assert TopicPartition("orders", 0) in bench.directory.failed

    await bench.delete("orders")
    await bench.create("orders")
    assert bench.registry.get("orders", 0).high_watermark == 0


async def test_a_topic_made_on_a_full_disk_is_there_when_there_is_room(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ottla.replication.registry.RETRY_OPEN_S", 0.001)
    bench.disk.capacity_bytes = bench.disk.used_bytes()
    await bench.create("orders")
    with pytest.raises(NotLeaderOrFollower):
        bench.registry.get("orders", 0)
    bench.disk.capacity_bytes = None
    append(await bench.opened("orders"))


async def test_a_log_that_could_not_be_repaired_on_a_full_disk_is_there_when_there_is_room(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ottla.replication.registry.RETRY_OPEN_S", 0.001)
    await bench.create("orders")
    append(bench.registry.get("orders", 0), 3)
    torn = f"/data/orders-0/{0:020}.log"
    bench.disk.open(torn).write_at(len(bench.disk.read_file(torn)), b"torn" * 1000)
    bench.disk.kill()
    bench.disk.capacity_bytes = bench.disk.used_bytes() + 2000
    bench.open()
    await bench.start()
    with pytest.raises(NotLeaderOrFollower):
        bench.registry.get("orders", 0)
    bench.disk.capacity_bytes = None
    assert (await bench.opened("orders")).high_watermark == 3
    kept = [each.name for each in bench.disk.list_dir("/data/orders-0") if "quarantine" in each.name]
    assert len(kept) == 1


async def test_with_flush_on_ack_nothing_is_served_that_a_crash_left_unflushed() -> None:
    bench = Bench(**{"log.flush.interval.messages": "1"})
    async with bench.flusher:
        await bench.create("orders")
        append(bench.registry.get("orders", 0), 3)
        bench.disk.kill()
        bench.open()
        await bench.start()
        partition = bench.registry.get("orders", 0)
        assert (partition.high_watermark, partition.log.log_end_offset) == (0, 3)
        await bench.registry.stop()
        assert (partition.high_watermark, partition.log.recovery_point) == (3, 3)
