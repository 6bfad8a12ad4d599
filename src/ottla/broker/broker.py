"""One broker, from its configuration to its listeners.

Started from the bottom up: the ports are bound, the metadata is read, the logs are opened, and only then
the first request is read. Stopped from the top down: requests in flight are answered, then the logs are
flushed and checkpointed, and last the marker of a clean stop is written.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from types import TracebackType
from typing import Self

from ottla import __version__
from ottla.api.dispatcher import Dispatcher
from ottla.api.support.context import EncodedMetadata, ProducerIds, Services
from ottla.api.support.fetch_sessions import FetchSessions
from ottla.api.support.recently_fenced_brokers import RecentlyFencedBrokers
from ottla.broker.addresses import BrokerAddresses, advertised, bind_listeners, bind_metrics, peer_address
from ottla.broker.data_directory import StartError, make_directory, owner_of_logs, set_stray_logs_aside
from ottla.broker.full_disk import FullDisk
from ottla.broker.settings import (
    MAINTENANCE_KEYS,
    NETWORK_KEYS,
    maintenance_settings,
    metadata_store,
    network_limits,
)
from ottla.common.clock import Clock, SystemClock
from ottla.common.config.broker import BrokerConfig
from ottla.common.config.live import DYNAMIC_KEYS, LiveConfig
from ottla.common.config.metrics_keys import OFF, metrics_place
from ottla.common.ids import TopicPartition
from ottla.controller.runner import Controller
from ottla.coordinator.groups import GroupCoordinator
from ottla.coordinator.marker_appender import MarkerAppender
from ottla.coordinator.transactions import TransactionCoordinator
from ottla.log.disk import Disk, RealDisk
from ottla.log.flusher import Flusher
from ottla.log.log_directory import LogDirectory, LogDirectoryError, lock_directory
from ottla.log.maintenance import LogMaintenance
from ottla.metadata.image import EMPTY, ClusterImage
from ottla.metadata.records import Endpoint, MetadataError
from ottla.metadata.state import ClusterState
from ottla.metadata.store import MetadataStore, StoreUnavailable
from ottla.metrics.health import STOPPING
from ottla.metrics.service import MetricsService
from ottla.metrics.view import BrokerView
from ottla.network.server import Server
from ottla.protocol.errors import KafkaStorageError
from ottla.replication.purgatory import Purgatory
from ottla.replication.registry import PartitionRegistry
from ottla.replication.replicator import Replicator
from ottla.wire.peers import Peers

log = logging.getLogger(__name__)

ANSWER_GRACE_S = 5.0


class Broker:
    """One broker. `start` returns when it accepts requests, `stop` when everything is on the disk."""

    def __init__(
        self,
        raw: Mapping[str, str],
        clock: Clock | None = None,
        *,
        store: MetadataStore | None = None,
        disk: Disk | None = None,
    ) -> None:
        """Take the configuration; simulations bring a clock, a store and a disk of their own."""
        self.live_config = LiveConfig(BrokerConfig(raw))
        self.clock = clock or SystemClock()
        self.disk: Disk = disk or RealDisk()
        self._store = store
        self.addresses: BrokerAddresses | None = None
        self.failed = asyncio.Event()
        """Set when this broker cannot write any more while others can: it had better stop."""
        self.cluster = ClusterState()
        self._is_fenced = False
        self._stack = AsyncExitStack()
        self._metrics: MetricsService | None = None

    @property
    def config(self) -> BrokerConfig:
        """The configuration in force."""
        return self.live_config.current

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
        """Start from the bottom up; what was started is pushed on the stack, which stops it top down."""
        data = Path(self.config.data_directory)
        await self._serve_metrics()
        lock = await self._join_metadata(data)
        full_disk = await self._open_logs(data, lock)
        self._make_coordinators()
        self.server = await self._bind()
        await self._join_cluster()
        await self._start_coordinators()
        await self._start_maintenance()
        self._stack.push_async_callback(self._stop_serving)
        self._stack.push_async_callback(self._leave)
        await full_disk.start()
        self._stack.push_async_callback(full_disk.stop)
        await self.server.serve()
        loading = asyncio.create_task(self.dispatcher.load_handlers(), name="load handlers")
        self._stack.callback(loading.cancel)
        self.addresses = BrokerAddresses(
            self.config.node_id,
            self.cluster.image.cluster_id,
            str(data),
            tuple(advertised(self.server).items()),
            None if self._metrics is None else self._metrics.address,
        )
        self._show_metrics(str(self.addresses.listeners[0][1]))

    async def _join_metadata(self, data: Path) -> Callable[[], None]:
        """Lock the data directory and read the cluster's metadata; return what unlocks the directory."""
        config, node_id = self.config, self.config.node_id
        try:
            make_directory(self.disk, data)
        except OSError as error:
            raise StartError(f"the data directory {data} cannot be made: {error}") from error
        self.peers = Peers(
            node_id,
            lambda other: peer_address(self.cluster.image, other, self.config.inter_broker_listener_name),
            self.clock,
        )
        self._stack.callback(self.peers.stop)
        self.controller = Controller(
            self._store or metadata_store(config, data),
            self.cluster,
            self.clock,
            node_id,
            lambda: self.config,
            self.peers,
        )
        # Whoever has the directory is this broker: a session of an earlier process can be taken over.
        lock = lock_directory(self.disk, str(data))
        self._stack.callback(lock)
        owner = owner_of_logs(self.disk, data)
        try:
            await self.controller.start(*owner)
        except StoreUnavailable:
            raise  # about ZooKeeper, not about the directory; `start` says it
        except MetadataError as error:
            raise StartError(f"data directory {data}: {error}") from error
        self._stack.push_async_callback(self.controller.stop)
        self._update_config(self.cluster.image)
        return lock

    async def _open_logs(self, data: Path, lock: Callable[[], None]) -> FullDisk:
        """Open and recover every log, with what writes and copies them; return what watches the disk."""
        node_id = self.config.node_id
        image = self.cluster.image
        known = image.brokers[node_id].directory_id if node_id in image.brokers else ""
        self.log_directory = LogDirectory(
            str(data),
            self.disk,
            self.clock,
            node_id=node_id,
            cluster_id=image.cluster_id,
            directory_id=known,
        )
        full_disk = FullDisk(self.disk, str(data), self.controller.set_draining)
        self.log_directory.storage.on_disk_full = full_disk.notice
        if self.config.zookeeper_connect is not None:
            self.log_directory.storage.on_offline = self._on_offline(asyncio.get_running_loop())
        self.flusher = Flusher()
        self.replicator = Replicator(
            node_id,
            self.peers,
            self.controller,
            self.cluster,
            self.log_directory,
            self.flusher,
            lambda: self.config,
            self.clock,
        )
        self.partitions = PartitionRegistry(
            node_id, self.log_directory, self.flusher, self.config, self.clock, self.replicator
        )
        self.live_config.subscribe_to(DYNAMIC_KEYS, self.partitions.replace_config)
        self.live_config.subscribe(
            BrokerConfig.ottla_producer_ids_max, self.log_directory.producer_limit.change_limit
        )
        self.log_directory.open(
            lambda topic: self.partitions.log_config(self.cluster.image, topic), lock, self._has_copies
        )
        if known and self.log_directory.directory_id != known:
            log.warning(
                "%s is not the log directory that broker %d had before (%s): its replicas are copied from "
                "other brokers. Is a disk not mounted? Then stop this broker, mount it, and start again",
                data, node_id, known,
            )  # fmt: skip
        self._stack.push_async_callback(self._close_logs)
        await self._stack.enter_async_context(self.flusher)
        return full_disk

    def _make_coordinators(self) -> None:
        """Make what answers for groups and transactions; it starts when the partitions are there."""
        node_id = self.config.node_id
        self.purgatory = Purgatory()
        self.groups = GroupCoordinator(
            node_id, self.cluster, self.controller, self.partitions, lambda: self.config, self.clock
        )
        self.producer_ids = ProducerIds(self.controller.allocate_producer_ids)
        self._stack.callback(self.producer_ids.stop)
        self.transactions = TransactionCoordinator(
            node_id,
            self.cluster,
            self.controller,
            self.partitions,
            lambda: self.config,
            self.clock,
            self.producer_ids.try_next,
            MarkerAppender(self.partitions, self.groups),
            self.peers,
        )

    async def _join_cluster(self) -> None:
        """Register with what is known of the logs, and follow the metadata from then on."""
        await self.controller.register_broker(
            [Endpoint(name, address.host, address.port) for name, address in advertised(self.server).items()],
            self.config.broker_rack,
            directory_id=self.log_directory.directory_id,
            after_unclean_stop=not self.log_directory.was_clean or self.log_directory.may_have_lost_records,
            may_have_lost_records=self.log_directory.may_have_lost_records,
            seems_whole=self.log_directory.seems_whole,
        )
        self._stack.push_async_callback(self.replicator.stop)
        await self.replicator.start()
        self.controller.on_session_lost = self._fence
        self._stack.callback(await self.controller.follow(self._on_change))
        self.log_directory.write_boot_id()
        await (
            self.partitions.wait_for_flushes()
        )  # or clients would see high watermarks below those of before the crash
        # A change that is under way is finished before the logs are closed: it may be opening some.
        self._stack.push_async_callback(self.controller.stop)
        self._stack.push_async_callback(self.partitions.stop)

    async def _start_coordinators(self) -> None:
        await self.groups.start()
        self._stack.push_async_callback(self.groups.stop)
        await self.transactions.start()
        self._stack.push_async_callback(self.transactions.stop)

    async def _start_maintenance(self) -> None:
        self.maintenance = LogMaintenance(
            self.log_directory,
            self.flusher,
            self.clock,
            maintenance_settings(self.config),
            high_watermark=lambda log: self.partitions.high_watermark(log.topic_partition),
        )
        self.live_config.subscribe_to(
            MAINTENANCE_KEYS, lambda config: self.maintenance.change_settings(maintenance_settings(config))
        )
        await self._stack.enter_async_context(self.maintenance)

    async def _serve_metrics(self) -> None:
        """Tell about this broker from now on, if it is to: that it starts, for now."""
        config = self.config
        place = metrics_place(config.ottla_metrics_listen or OFF, config.listener_list[0].host)
        if place is None:
            return
        host, port, is_required = place
        self._metrics = MetricsService()
        self._stack.push_async_callback(self._metrics.stop)
        await bind_metrics(self._metrics, host, port, is_required=is_required)

    def _show_metrics(self, address: str) -> None:
        """Tell everything, now that there is everything."""
        metrics = self._metrics
        if metrics is not None:
            metrics.publish(
                BrokerView(self.services, self.server, self.dispatcher, self.flusher, __version__, address)
            )
            self._stack.callback(setattr, metrics, "phase", STOPPING)

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
            recently_fenced_brokers=RecentlyFencedBrokers(self.clock),
            fetch_sessions=FetchSessions(self.config.max_incremental_fetch_session_cache_slots, self.clock),
            purgatory=self.purgatory,
            producer_ids=self.producer_ids,
            config=self.config,
            groups=self.groups,
            transactions=self.transactions,
            replicator=self.replicator,
            peers=self.peers,
        )
        self.services = services
        self.live_config.subscribe_to(DYNAMIC_KEYS, lambda config: setattr(services, "config", config))
        self.dispatcher = Dispatcher(services)
        self.live_config.subscribe(BrokerConfig.ottla_slow_request_ms, self.dispatcher.slow.set_limit)
        server = Server(self.dispatcher, network_limits(self.config), self.clock)
        self.live_config.subscribe_to(
            NETWORK_KEYS, lambda config: server.change_limits(network_limits(config))
        )
        await bind_listeners(server, self.config.listener_list)
        self._stack.push_async_callback(server.stop, 0)
        return server

    def _on_offline(self, loop: asyncio.AbstractEventLoop) -> Callable[[], None]:
        def failed() -> None:
            loop.call_soon_threadsafe(self.failed.set)

        return failed

    def _has_copies(self, partition: TopicPartition) -> bool:
        """Return whether other brokers have all that is committed of a partition, so that we can fetch it."""
        known = self.cluster.image.partition(partition.topic, partition.partition)
        if known is None:
            return False
        others = set(known.replicas) - {self.config.node_id}
        return bool(others & {*known.isr, *known.elr})

    async def _on_change(self, old: ClusterImage, new: ClusterImage) -> None:
        if old.configs is not new.configs:
            self._update_config(new)
        if old.brokers is not new.brokers:
            self.peers.refresh()
            self.services.recently_fenced_brokers.note(new)
        if old is EMPTY:
            set_stray_logs_aside(self.log_directory, new, self.config.node_id)
        if not self.controller.is_registered:
            self._fence()
        await self.partitions.apply(old, new)
        if self._is_fenced and self.controller.is_registered:
            self._is_fenced = False
            await self.partitions.unfence(new)

    def _fence(self) -> None:
        """Lead nothing: as far as others know, this broker is dead, and they may lead instead."""
        if not self._is_fenced:
            self._is_fenced = True
            self.partitions.fence()

    async def _leave(self) -> None:
        """Let others lead before this broker stops; from then on its leaders are found elsewhere."""
        if self.config.controlled_shutdown_enable:
            await self.controller.move_leaders_away()

    def _update_config(self, image: ClusterImage) -> None:
        """Put the dynamic configuration of `image` into force; every part has subscribed to what it uses."""
        self.live_config.update(image.broker_overrides(self.config.node_id), image.broker_overrides())

    async def _stop_serving(self) -> None:
        """Answer everything that waits or runs, and close the connections."""
        self.purgatory.stop()
        await self.groups.stop()
        await self.transactions.stop()
        await self.server.stop(ANSWER_GRACE_S)

    async def _close_logs(self) -> None:
        high_watermarks = {each.topic_partition: each.high_watermark for each in self.partitions}
        clean = await asyncio.get_running_loop().run_in_executor(
            None, lambda: self.log_directory.close(high_watermarks=high_watermarks)
        )
        if not clean:
            log.warning("not everything could be written: the next start will check the logs")
