"""One broker, from its configuration to its listeners.

Started from the bottom up: the ports are bound, the metadata is read, the logs are opened, and only then
the first request is read. Stopped from the top down: requests in flight are answered, then the logs are
flushed and checkpointed, and last the marker of a clean stop is written.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from ottla.api.context import Services
from ottla.api.dispatcher import Dispatcher
from ottla.api.encoded_metadata import EncodedMetadata
from ottla.api.fetch_sessions import FetchSessions
from ottla.api.producer_ids import ProducerIds
from ottla.broker.settings import janitor_settings, network_limits
from ottla.broker.stray_logs import set_stray_logs_aside
from ottla.common.broker_keys import BrokerConfig
from ottla.common.clock import Clock, SystemClock
from ottla.common.config import ConfigError
from ottla.common.listeners import Address
from ottla.controller.runner import Controller
from ottla.coordinator.groups import GroupCoordinator
from ottla.log.checkpoints import META_PROPERTIES, MetaProperties
from ottla.log.disk import RealDisk
from ottla.log.flusher import Flusher
from ottla.log.janitor import Janitor
from ottla.log.log_directory import LogDirectory, LogDirectoryError
from ottla.metadata.embedded import EmbeddedStore
from ottla.metadata.image import EMPTY, ClusterImage
from ottla.metadata.records import Endpoint, MetadataError
from ottla.metadata.state import ClusterState
from ottla.network.server import Server
from ottla.protocol.errors import KafkaStorageError
from ottla.replication.purgatory import Purgatory
from ottla.replication.registry import PartitionRegistry

log = logging.getLogger(__name__)

ANSWER_GRACE_S = 5.0
METADATA_FILE = "metadata.db"


class StartError(Exception):
    """The broker cannot start; the message says why and what to do."""


@dataclass(frozen=True)
class BrokerAddresses:
    """What a broker that is ready says of itself."""

    node_id: int
    cluster_id: str
    data_directory: str
    listeners: tuple[tuple[str, Address], ...]
    """Each listener's name with the address that clients are told."""


class Broker:
    """One broker. `start` returns when it accepts requests, `stop` when everything is on the disk."""

    def __init__(self, raw: Mapping[str, str], clock: Clock | None = None) -> None:
        self.config = BrokerConfig(raw)
        self.clock = clock or SystemClock()
        self.addresses: BrokerAddresses | None = None
        self.cluster = ClusterState()
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    async def start(self) -> None:
        """Start every part; StartError or ConfigError if one cannot."""
        try:
            await self._start()
        except (MetadataError, LogDirectoryError, KafkaStorageError) as error:
            await self._stack.aclose()
            raise StartError(str(error)) from error
        except BaseException:
            await self._stack.aclose()
            raise

    async def stop(self) -> None:
        """Answer what is in flight, flush, checkpoint, close."""
        await self._stack.aclose()

    async def _start(self) -> None:
        config, node_id = self.config, self.config.node_id
        data = Path(config.data_directory)
        try:
            data.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StartError(f"the data directory {data} cannot be made: {error}") from error

        self.controller = Controller(
            EmbeddedStore(data / METADATA_FILE), self.cluster, self.clock, node_id, lambda: self.config
        )
        try:
            await self.controller.start(_cluster_of_logs(data))
        except MetadataError as error:
            raise StartError(f"data directory {data}: {error}") from error
        self._stack.push_async_callback(self.controller.stop)
        self._take_over_dynamic_config(self.cluster.image)

        self.log_directory = LogDirectory(
            str(data), RealDisk(), self.clock, node_id=node_id, cluster_id=self.cluster.image.cluster_id
        )
        self.flusher = Flusher()
        self.partitions = PartitionRegistry(
            node_id, self.log_directory, self.flusher, self.config, self.clock
        )
        self.log_directory.open(lambda topic: self.partitions.log_config(self.cluster.image, topic))
        self._stack.push_async_callback(self._close_logs)
        await self._stack.enter_async_context(self.flusher)

        self.purgatory = Purgatory()
        self.groups = GroupCoordinator(
            node_id, self.cluster, self.controller, self.partitions, lambda: self.config, self.clock
        )
        self.server = await self._bind()
        await self.controller.register_broker(
            [
                Endpoint(name, address.host, address.port)
                for name, address in self._advertised(self.server).items()
            ],
            self.config.broker_rack,
            after_unclean_stop=not self.log_directory.was_clean,
        )
        set_stray_logs_aside(self.log_directory, self.cluster.image)
        await self.partitions.apply(EMPTY, self.cluster.image)
        await self.partitions.settle()  # or clients would see high watermarks below those of before the crash
        self._stack.callback(self.cluster.subscribe(self._on_change))
        # A change that is under way is finished before the logs are closed: it may be opening some.
        self._stack.push_async_callback(self.controller.stop)
        self._stack.push_async_callback(self.partitions.stop)
        await self.groups.start()
        self._stack.push_async_callback(self.groups.stop)
        self.janitor = Janitor(
            self.log_directory,
            self.flusher,
            self.clock,
            janitor_settings(self.config),
            high_watermark=lambda log: self.partitions.high_watermark(log.topic_partition),
        )
        await self._stack.enter_async_context(self.janitor)
        self._stack.push_async_callback(self._stop_serving)
        await self.server.serve()
        loading = asyncio.create_task(self.dispatcher.load_handlers(), name="load handlers")
        self._stack.callback(loading.cancel)
        self.addresses = BrokerAddresses(
            node_id, self.cluster.image.cluster_id, str(data), tuple(self._advertised(self.server).items())
        )

    async def _bind(self) -> Server:
        """Take the ports, so that a second broker fails before it touches anything else."""
        services = Services(
            node_id=self.config.node_id,
            clock=self.clock,
            cluster=self.cluster,
            controller=self.controller,
            partitions=self.partitions,
            log_directory=self.log_directory,
            encoded_metadata=EncodedMetadata(),
            fetch_sessions=FetchSessions(self.config.max_incremental_fetch_session_cache_slots, self.clock),
            purgatory=self.purgatory,
            producer_ids=ProducerIds(self.controller.allocate_producer_ids),
            config=self.config,
            groups=self.groups,
        )
        self.services = services
        self.dispatcher = Dispatcher(services)
        server = Server(self.dispatcher, network_limits(self.config), self.clock)
        for listener in self.config.listener_list:
            try:
                await server.bind(listener)
            except OSError as error:
                await server.stop(0)
                raise StartError(
                    f"cannot listen on {listener}: {error.strerror or error}. "
                    f"Is another broker running there? Choose another port with --listen HOST:PORT"
                ) from error
        self._stack.push_async_callback(server.stop, 0)
        return server

    def _advertised(self, server: Server) -> dict[str, Address]:
        return {listener.name: listener.advertised_at(listener.port) for listener in server.listeners}

    async def _on_change(self, old: ClusterImage, new: ClusterImage) -> None:
        if old.configs is not new.configs:
            self._take_over_dynamic_config(new)
        await self.partitions.apply(old, new)

    def _take_over_dynamic_config(self, image: ClusterImage) -> None:
        dynamic = image.broker_overrides(self.config.node_id), image.broker_overrides()
        if dynamic == (self.config.layers[0][1], self.config.layers[1][1]):
            return
        try:
            self.config = self.config.with_dynamic(*dynamic)
        except ConfigError as error:
            log.error("the stored dynamic configuration cannot be used, the static one stays: %s", error)
            return
        if self.addresses is not None:
            self.services.config = self.config
            self.server.change_limits(network_limits(self.config))
            self.partitions.replace_config(self.config)
            self.janitor.settings = janitor_settings(self.config)

    async def _stop_serving(self) -> None:
        """Answer everything that waits or runs, and close the connections."""
        self.purgatory.stop()
        await self.groups.stop()
        await self.server.stop(ANSWER_GRACE_S)

    async def _close_logs(self) -> None:
        high_watermarks = {each.topic_partition: each.high_watermark for each in self.partitions}
        clean = await asyncio.get_running_loop().run_in_executor(
            None, lambda: self.log_directory.close(high_watermarks=high_watermarks)
        )
        if not clean:
            log.warning("not everything could be written: the next start will check the logs")


def _cluster_of_logs(data: Path) -> str | None:
    """Return the cluster whose logs are in `data`; None if there are none, or it cannot be told."""
    try:
        return MetaProperties.decode((data / META_PROPERTIES).read_bytes()).cluster_id
    except (FileNotFoundError, ValueError):
        return None  # opening the log directory says what is wrong with the file
