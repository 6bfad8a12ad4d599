"""One broker: construct, start and stop its parts.

Start, from the bottom up: metrics, metadata and controller, logs, coordinators, ports; the first request is
read last. Each part subscribes to its dynamic keys when it is built (common/config/live.py). Stop, from the
top down: requests in flight are answered, the logs are flushed and checkpointed, and the marker of a clean
stop is written last.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from types import TracebackType
from typing import Self

from ottla import __version__
from ottla.api.dispatcher import Dispatcher
from ottla.api.schema_validation.validator import SchemaValidator
from ottla.api.support.audit_log import AuditFile, AuditLog, Sink, to_logger
from ottla.api.support.client_quotas import ClientQuotas
from ottla.api.support.context import EncodedMetadata, ProducerIds, Services
from ottla.api.support.fetch_sessions import FetchSessions
from ottla.api.support.recently_fenced_brokers import RecentlyFencedBrokers
from ottla.broker.addresses import (
    BrokerAddresses,
    advertised,
    bind_listeners,
    bind_metrics,
    endpoints,
    peer_address,
)
from ottla.broker.audit_topic import AuditTopic
from ottla.broker.data_directory import (
    PreparedDirectories,
    StartError,
    prepare_directories,
    set_stray_logs_aside,
    warn_of_other_directories,
)
from ottla.broker.full_disk import FullDisks
from ottla.broker.offline_directories import OfflineDirectories, expected_replicas, topic_ids_of
from ottla.broker.security import SECURITY_KEYS, BrokerSecurity
from ottla.broker.settings import (
    MAINTENANCE_KEYS,
    NETWORK_KEYS,
    RATE_KEYS,
    authorizer,
    change_connection_rates,
    maintenance_settings,
    metadata_store,
    network_limits,
    quota_windows,
)
from ottla.common.clock import Clock, SystemClock
from ottla.common.config.broker import BrokerConfig
from ottla.common.config.live import DYNAMIC_KEYS, LiveConfig
from ottla.common.config.metrics_keys import OFF, automatic_host, metrics_place
from ottla.common.ids import TopicPartition
from ottla.controller.runner import Controller
from ottla.coordinator.groups import GroupCoordinator
from ottla.coordinator.marker_appender import MarkerAppender
from ottla.coordinator.transactions import TransactionCoordinator
from ottla.log.directories.flusher import Flusher
from ottla.log.directories.log_directory import LogDirectoryError
from ottla.log.disk import Disk, RealDisk
from ottla.log.maintenance import LogMaintenance
from ottla.metadata.backup_file import Backup
from ottla.metadata.image import EMPTY, ClusterImage
from ottla.metadata.local_copy import MetadataCopy, read_copy
from ottla.metadata.records import MetadataError
from ottla.metadata.registration import group_replicas
from ottla.metadata.state import ClusterState
from ottla.metadata.store import MetadataStore, StoreUnavailable
from ottla.metrics.health import STOPPING
from ottla.metrics.service import MetricsService
from ottla.metrics.view import BrokerView
from ottla.network.server import Server
from ottla.protocol.errors import KafkaStorageError
from ottla.replication.directory_moves import DirectoryMoves
from ottla.replication.purgatory import Purgatory
from ottla.replication.registry import PartitionRegistry
from ottla.replication.replicator import Replicator
from ottla.replication.throttle import Rate
from ottla.security.address_quotas import AddressQuotas
from ottla.security.connection_rates import ConnectionRates
from ottla.security.quota_entities import IP
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
        """Set when all log directories failed and other brokers can lead: the process should stop."""
        self.cluster = ClusterState()
        self.authorizer = authorizer(self.config)
        self._is_fenced = False
        self._stack = AsyncExitStack()
        self._metrics: MetricsService | None = None
        self._audit_topic: AuditTopic | None = None

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
        await self._serve_metrics()
        await self._open_logs(await self._join_metadata())
        self._make_coordinators()
        self.server = await self._bind()
        await self._join_cluster()
        await self._start_coordinators()
        await self._start_maintenance()
        self._stack.push_async_callback(self._stop_serving)
        if self._audit_topic is not None:
            self._audit_topic.start()
            self._stack.push_async_callback(self._audit_topic.stop)
        self._stack.push_async_callback(self._leave)
        await self._full_disks.start()
        self._stack.push_async_callback(self._full_disks.stop)
        await self.server.serve()
        loading = asyncio.create_task(self.dispatcher.load_handlers(), name="load handlers")
        self._stack.callback(loading.cancel)
        self.addresses = BrokerAddresses(
            self.config.node_id,
            self.cluster.image.cluster_id,
            ",".join(self.config.data_directories),
            tuple(advertised(self.server).items()),
            None if self._metrics is None else self._metrics.address,
        )
        self._show_metrics(str(self.addresses.listeners[0][1]))

    async def _join_metadata(self) -> PreparedDirectories:
        """Lock the data directories and read the cluster's metadata; return the directories."""
        config, node_id = self.config, self.config.node_id
        # The owner of the directories is this broker: it can take over a session of an earlier process.
        prepared = prepare_directories(self.disk, config.data_directories)
        self._stack.callback(prepared.unlock)
        stands_alone, data = not self._is_in_cluster, config.data_directory
        if stands_alone and (reason := prepared.unusable.get(os.path.abspath(data))) is not None:
            raise StartError(f"{reason}; the cluster's metadata is in it")
        self.security = BrokerSecurity(config, self.cluster, self.clock, stands_alone=stands_alone)
        self.live_config.subscribe_to(SECURITY_KEYS, self.security.change_config)
        self._stack.callback(self.security.stop)
        self.peers = Peers(
            node_id,
            lambda other: peer_address(self.cluster.image, other, config.inter_broker_listener.name),
            self.clock,
            self.security.between_brokers,
        )
        self._stack.callback(self.peers.stop)
        self.controller = Controller(
            self._store or metadata_store(config, Path(data)),
            self.cluster,
            self.clock,
            node_id,
            lambda: self.config,
            self.peers,
        )
        applied = self._applied(prepared)
        try:
            await self.controller.start(
                prepared.cluster_id, list(prepared.ids.values()), applied.image.version, applied.term
            )
        except StoreUnavailable:
            raise  # about ZooKeeper, not about the directory; `start` says it
        except MetadataError as error:
            raise StartError(f"data directory {data}: {error}") from error
        self._stack.push_async_callback(self.controller.stop)
        self._update_config(self.cluster.image)
        return prepared

    @property
    def _is_in_cluster(self) -> bool:
        """Return whether the metadata is elsewhere than in this broker's own directory."""
        return self.config.zookeeper_connect is not None or self._store is not None

    def _applied(self, prepared: PreparedDirectories) -> Backup:
        """Return the newest copy of the metadata that this broker had before it stopped."""
        found = [read_copy(self.disk, path) for path in prepared.locks] if self._is_in_cluster else []
        ours = (each for each in found if each is not None and each.image.cluster_id == prepared.cluster_id)
        return max(ours, key=lambda each: each.image.version, default=Backup(EMPTY))

    async def _open_logs(self, prepared: PreparedDirectories) -> None:
        """Open and recover every log, with what writes and copies them."""
        node_id, image = self.config.node_id, self.cluster.image
        known = image.brokers[node_id].directories if node_id in image.brokers else frozenset[str]()
        self.log_directories = prepared.log_directories(
            self.disk, self.clock, node_id, image.cluster_id, known
        )
        self._full_disks = FullDisks(self.disk, self.log_directories, self.cluster, self.controller.set_full)
        self.flusher = Flusher()
        self.replicator = Replicator(
            node_id,
            self.peers,
            self.controller,
            self.cluster,
            self.log_directories,
            self.flusher,
            lambda: self.config,
            self.clock,
        )
        self.partitions = PartitionRegistry(
            node_id, self.log_directories, self.flusher, self.config, self.clock, self.replicator
        )
        self.live_config.subscribe_to(DYNAMIC_KEYS, self.partitions.replace_config)
        self.live_config.subscribe(
            BrokerConfig.ottla_producer_ids_max, self.log_directories.producer_limit.change_limit
        )
        self._offline_directories = OfflineDirectories(
            self.log_directories, self.partitions, self.controller, self.cluster, self._on_all_offline
        )
        self._offline_directories.start()
        self.directory_moves = DirectoryMoves(
            self.log_directories,
            self.partitions,
            self._is_compacted_now,
            self._offline_directories.take_offline,
            Rate(lambda: self.config.replica_alter_log_dirs_io_max_bytes_per_second, self.clock),
        )
        self.log_directories.open(
            lambda topic: self.partitions.log_config(self.cluster.image, topic),
            prepared.locks,
            self._has_copies,
        )
        self.log_directories.compare(known, expected_replicas(image, node_id))
        warn_of_other_directories(self.log_directories, known, node_id)
        self._stack.push_async_callback(self._close_logs)
        self._stack.push_async_callback(self._offline_directories.stop)
        await self._stack.enter_async_context(self.flusher)

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
        found = self.log_directories
        await self.controller.register_broker(
            endpoints(self.server),
            self.config.broker_rack,
            directory_ids=found.directory_ids,
            after_unclean_stop=not found.was_clean or found.may_have_lost_records,
            may_have_lost_records=found.may_have_lost_records,
            seems_whole=found.seems_whole,
            lost_replicas=group_replicas(topic_ids_of(self.cluster.image, found.lost)),
            offline_replicas=group_replicas(topic_ids_of(self.cluster.image, found.offline)),
        )
        self._stack.push_async_callback(self.replicator.stop)
        await self.replicator.start()
        self.controller.on_session_lost = self._fence
        self._stack.callback(await self.controller.follow(self._on_change))
        if self._is_in_cluster:
            copy = MetadataCopy(
                self.disk, Path(found.directories[0].path), self.clock, self.controller.term_at
            )
            self._stack.callback(await self.controller.follow(copy.note))
            copy.start()
            self._stack.push_async_callback(copy.stop)
        found.write_boot_id()
        await (
            self.partitions.wait_for_flushes()
        )  # or clients would see high watermarks below those of before the crash
        # A change in progress is finished before the logs are closed: it may be opening some.
        self._stack.push_async_callback(self.controller.stop)
        self._stack.push_async_callback(self.partitions.stop)

    async def _start_coordinators(self) -> None:
        await self.groups.start()
        self._stack.push_async_callback(self.groups.stop)
        await self.transactions.start()
        self._stack.push_async_callback(self.transactions.stop)

    async def _start_maintenance(self) -> None:
        self.maintenance = [
            LogMaintenance(
                each,
                self.flusher,
                self.clock,
                maintenance_settings(self.config),
                high_watermark=lambda log: self.partitions.high_watermark(log.topic_partition),
                is_replicated=lambda log: self.partitions.is_replicated(log.topic_partition),
            )
            for each in self.log_directories.directories
        ]
        self.live_config.subscribe_to(MAINTENANCE_KEYS, self._change_maintenance)
        for each in self.maintenance:
            await self._stack.enter_async_context(each)

        self.directory_moves.resume()
        self._stack.push_async_callback(self.directory_moves.stop)

    def _is_compacted_now(self, partition: TopicPartition) -> bool:
        return any(partition in each.cleaner.in_progress for each in self.maintenance)

    def _change_maintenance(self, config: BrokerConfig) -> None:
        for each in self.maintenance:
            each.change_settings(maintenance_settings(config))

    async def _serve_metrics(self) -> None:
        """Serve metrics and health, if they are on: that the broker is starting, for now."""
        config = self.config
        has_authorizer = self.authorizer is not None
        host = automatic_host(config.listener_list[0], has_authorizer=has_authorizer)
        place = metrics_place(config.ottla_metrics_listen or OFF, host)
        if place is None:
            return
        host, port, is_required = place
        self._metrics = MetricsService()
        self._stack.push_async_callback(self._metrics.stop)
        await bind_metrics(self._metrics, host, port, is_required=is_required)

    def _show_metrics(self, address: str) -> None:
        """Serve all metrics, now that all parts exist."""
        metrics = self._metrics
        if metrics is not None:
            metrics.publish(
                BrokerView(self.services, self.server, self.dispatcher, self.flusher, __version__, address)
            )
            self._stack.callback(setattr, metrics, "phase", STOPPING)

    async def _bind(self) -> Server:
        """Take the ports, so that a second broker fails before it touches anything else."""
        schema_validator = SchemaValidator(self.config, self.clock.mono_ms)
        self._stack.callback(schema_validator.stop)
        services = Services(
            node_id=self.config.node_id,
            clock=self.clock,
            cluster=self.cluster,
            controller=self.controller,
            partitions=self.partitions,
            log_directories=self.log_directories,
            directory_moves=self.directory_moves,
            encoded_metadata=EncodedMetadata(),
            recently_fenced_brokers=RecentlyFencedBrokers(self.clock),
            fetch_sessions=FetchSessions(self.config.max_incremental_fetch_session_cache_slots, self.clock),
            purgatory=self.purgatory,
            producer_ids=self.producer_ids,
            config=self.config,
            groups=self.groups,
            transactions=self.transactions,
            replicator=self.replicator,
            schema_validator=schema_validator,
            peers=self.peers,
            authorizer=self.authorizer,
            audit=self._open_audit_log(),
            is_broker=self.security.is_broker,
            check_config=self.security.check_change,
        )
        self.services = services
        if services.audit is not None and self.config.ottla_audit_topic:
            self._audit_topic = AuditTopic(services)
            services.audit.sinks.append(self._audit_topic.write)
        self.client_quotas = ClientQuotas(self.clock, *quota_windows(self.config))
        self.live_config.subscribe_to(DYNAMIC_KEYS, lambda config: setattr(services, "config", config))
        self.dispatcher = Dispatcher(services)
        self.live_config.subscribe(BrokerConfig.ottla_slow_request_ms, self.dispatcher.slow.set_limit)
        server = Server(self.dispatcher, network_limits(self.config), self.clock)
        self.live_config.subscribe_to(
            NETWORK_KEYS, lambda config: server.change_limits(network_limits(config))
        )
        rates = server.connection_rates = ConnectionRates(quota_windows(self.config)[0])
        self.live_config.subscribe_to(
            RATE_KEYS, lambda config: change_connection_rates(rates, config, self.clock.mono_ms())
        )
        await bind_listeners(server, self.config.listener_list, self.security.listeners)
        self.security.start()
        self._stack.push_async_callback(server.stop, 0)
        return server

    def _on_all_offline(self) -> None:
        """Stop if others can lead; a broker alone refuses writes, and can still be read."""
        if self.config.zookeeper_connect is not None:
            self.failed.set()

    def _has_copies(self, partition: TopicPartition) -> bool:
        """Return whether other brokers have all that is committed of a partition, so that we can fetch it."""
        known = self.cluster.image.partition(partition.topic, partition.partition)
        if known is None:
            return False
        others = set(known.replicas) - {self.config.node_id}
        return bool(others & {*known.isr, *known.elr})

    def _open_audit_log(self) -> AuditLog | None:
        """Return the audit log, if it is on; its file is closed last."""
        config = self.config
        is_wanted = self.authorizer is not None or config.ottla_audit_file or config.ottla_audit_topic
        if not config.ottla_audit_enable or not is_wanted:
            return None
        sinks: list[Sink] = [to_logger]
        if config.ottla_audit_file is not None:
            try:
                file = AuditFile(config.ottla_audit_file)
            except OSError as error:
                raise StartError(f"ottla.audit.file cannot be opened: {error}") from error
            self._stack.callback(file.close)
            sinks = [file.write]
        return AuditLog(config.node_id, self.clock, sinks, config.ottla_audit_denials_per_second)

    async def _on_change(self, old: ClusterImage, new: ClusterImage) -> None:
        if self.authorizer is not None:
            self.authorizer.update(new.acls)
        if old.configs is not new.configs:
            self._update_config(new)
        if old.client_quotas is not new.client_quotas:
            self._update_quotas(new)
        if old.brokers is not new.brokers:
            self.peers.refresh()
            self.services.recently_fenced_brokers.note(new)
        if old is EMPTY:
            set_stray_logs_aside(self.log_directories, new, self.config.node_id)
        if not self.controller.is_registered:
            self._fence()
        await self.partitions.apply(old, new)
        if self._is_fenced and self.controller.is_registered:
            self._is_fenced = False
            await self.partitions.unfence(new)
        self._offline_directories.refresh()

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

    def _update_quotas(self, image: ClusterImage) -> None:
        """Put the client quotas of `image` into force."""
        quotas = image.client_quotas
        self.services.quotas = self.client_quotas.apply(quotas)
        if self.server.address_quotas is not None:
            self.server.address_quotas.change_quotas(quotas)
        elif any(IP in dict(entity) for entity in quotas):
            self.server.address_quotas = AddressQuotas(quotas, quota_windows(self.config)[0])

    async def _stop_serving(self) -> None:
        """Answer everything that waits or runs, and close the connections."""
        self.purgatory.stop()
        await self.groups.stop()
        await self.transactions.stop()
        await self.server.stop(ANSWER_GRACE_S)

    async def _close_logs(self) -> None:
        high_watermarks = {each.topic_partition: each.high_watermark for each in self.partitions}
        clean = await asyncio.get_running_loop().run_in_executor(
            None, lambda: self.log_directories.close(high_watermarks=high_watermarks)
        )
        if not clean:
            log.warning("not everything could be written: the next start will check the logs")
