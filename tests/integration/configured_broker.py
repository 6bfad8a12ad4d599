"""A running broker whose configs a test alters over the admin protocol, with a clock that it can advance."""

from __future__ import annotations

import asyncio
import re
from itertools import count
from typing import Any

from tests.waiting import until

from ottla.broker.broker import Broker
from ottla.client import AsyncAdmin
from ottla.common.clock import SystemClock
from ottla.common.config.broker import BrokerConfig
from ottla.common.config.declaration import Update
from ottla.log.log import Log
from ottla.metadata.memory import MemoryServer, MemoryStore
from ottla.protocol.records.batch import check_batch, iter_batches
from ottla.protocol.records.records import Record, encode_batch
from ottla.replication.partition import Partition
from ottla.testing.local_cluster import NoSyncDisk

MINUTE_MS, HOUR_MS = 60_000, 3_600_000
SETTINGS = {
    "listeners": "PLAINTEXT://127.0.0.1:0",
    "ottla.metrics.listen": "127.0.0.1:0",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    "log.cleaner.backoff.ms": str(HOUR_MS),
    "replica.fetch.wait.max.ms": "50",
}


class ShiftedClock(SystemClock):
    """The machine's clocks, moved forward by a test."""

    shift_ms = 0

    def wall_ms(self) -> int:
        return super().wall_ms() + self.shift_ms

    def mono_ms(self) -> int:
        return super().mono_ms() + self.shift_ms

    def advance(self, by_ms: int) -> None:
        self.shift_ms += by_ms


class ConfiguredBroker:
    """A running broker and an admin client."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self.clock = ShiftedClock()
        self.server = MemoryServer()
        self.names = (f"topic-{number}" for number in count())
        self.key = ""
        self.cleans_in_background = False
        """Whether the cleaner tasks do anything: most tests compact by themselves, when they are ready."""

    async def start(self) -> None:
        self.broker = await self.start_broker(1)
        self.compact = self.broker.maintenance[0].compact
        self.broker.maintenance[0].compact = self._compact_in_background  # type: ignore[method-assign]
        self.admin = AsyncAdmin(self.address)
        await self.admin.start()

    async def _compact_in_background(self) -> None:
        if self.cleans_in_background:
            await self.compact()

    async def started(self, key: str) -> ConfiguredBroker:
        self.key = key
        await self.start()
        return self

    async def stop(self) -> None:
        await self.admin.close()
        await self.broker.stop()

    async def start_broker(self, node_id: int) -> Broker:
        raw = {**SETTINGS, "node.id": str(node_id), "log.dirs": f"{self.folder}/{node_id}"}
        broker = Broker(raw, self.clock, store=MemoryStore(self.server, node_id), disk=NoSyncDisk())
        await broker.start()
        return broker

    @property
    def address(self) -> str:
        assert self.broker.addresses is not None
        return str(self.broker.addresses.listeners[0][1])

    async def alter(self, value: str, key: str = "") -> None:
        """Alter the key of this test, or another that it needs, and wait until it is in force."""
        name = key or self.key
        declared = BrokerConfig.KEYS[name]
        node_id = 1 if declared.update is Update.PER_BROKER else None
        await self.admin.alter_broker_configs(node_id, set_to={name: value})
        wanted = declared.parse(value)
        await until(lambda: getattr(self.broker.config, declared.attribute) == wanted)

    async def reset(self) -> None:
        for node_id, source in ((1, 0), (None, 1)):
            keys = list(self.broker.config.layers[source][1])
            await self.admin.alter_broker_configs(node_id, unset=keys)
        await until(lambda: not any(texts for _, texts in self.broker.config.layers[:2]))

    async def topic(self, **configs: str) -> Partition:
        name = next(self.names)
        settings = {key.replace("_", "."): value for key, value in configs.items()}
        await self.admin.create_topic(name, partitions=1, replication_factor=1, configs=settings)
        await until(lambda: name in {each.topic_partition.topic for each in self.broker.partitions})
        return self.broker.partitions.get(name, 0)

    def append(
        self,
        partition: Partition,
        value: bytes = b"value",
        *,
        key: bytes = b"key",
        ago_ms: int = 0,
        records: int = 1,
        **fields: Any,
    ) -> None:
        time_ms = self.clock.wall_ms() - ago_ms
        batch = memoryview(encode_batch([Record(i, time_ms, key, value) for i in range(records)], **fields))
        partition.append(batch, check_batch(batch))

    async def compacted(self, **configs: str) -> Partition:
        """Return a compacted partition with ten sealed segments, flushed."""
        partition = await self.topic(cleanup_policy="compact", segment_bytes="300", **configs)
        for _ in range(11):
            self.append(partition, b"v" * 150)
        await self.broker.flusher.flush_up_to(partition.log, partition.log.log_end_offset)
        return partition

    def cleaned_to(self, partition: Partition) -> int:
        return self.broker.log_directories.directories[0].checkpoints.cleaned_to.get(
            partition.topic_partition, 0
        )

    async def metrics(self) -> str:
        assert self.broker.addresses is not None
        address = self.broker.addresses.metrics
        assert address is not None
        reader, writer = await asyncio.open_connection(address.host, address.port)
        writer.write(b"GET /metrics HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
        text = (await reader.read()).decode()
        writer.close()
        return text

    async def left_out(self, kind: str) -> int:
        found = re.search(rf'ottla_metrics_left_out{{what="{kind}"}} (\d+)', await self.metrics())
        assert found is not None
        return int(found[1])


def stored(log: Log) -> list[tuple[int, int, bool]]:
    """Return codec, size and whether it has the broker's time, of each batch in the log."""
    found = log.read(log.log_start_offset, 1 << 24, log.log_end_offset)
    data = found.records if isinstance(found.records, bytes) else found.records.read()
    return [(header.codec, len(batch), header.is_log_append_time) for header, batch in iter_batches(data)]


def segments_of(partition: Partition) -> int:
    return len(partition.log.segments)
