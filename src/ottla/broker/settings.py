"""The configuration as each part of the broker takes it."""

from __future__ import annotations

import resource

from ottla.common.config.broker import BrokerConfig
from ottla.common.units import MAX_INT
from ottla.log.compaction.log_cleaner import CleanerSettings
from ottla.log.file_pool import most_open_files
from ottla.log.maintenance import MaintenanceSettings
from ottla.network.limits import NetworkLimits

OTHER_DESCRIPTORS = 64
"""For what is neither a log file nor a client's connection: listeners, ZooKeeper, connections to brokers."""
MIN_RESERVE, MAX_RESERVE = 16, 1_000
"""Each broker takes about five: for fetches, calls, forwarded requests, transactions and lags."""


def network_limits(config: BrokerConfig) -> NetworkLimits:
    """Return the network's share of the configuration."""
    is_alone = config.zookeeper_connect is None
    clients, brokers = connection_places(most_descriptors() - most_open_files(), is_alone=is_alone)
    return NetworkLimits(
        max_connections=config.max_connections,
        descriptor_connections=clients,
        broker_reserve=brokers,
        max_connections_per_ip=config.max_connections_per_ip,
        max_idle_ms=config.connections_max_idle_ms,
        queued_requests=config.queued_max_requests,
        queued_request_bytes=config.queued_max_request_bytes,
        send_buffer_bytes=config.socket_send_buffer_bytes,
        receive_buffer_bytes=config.socket_receive_buffer_bytes,
    )


def most_descriptors() -> int:
    """Return how many descriptors this process may have open."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return MAX_INT if soft == resource.RLIM_INFINITY else soft


def connection_places(descriptors: int, *, is_alone: bool) -> tuple[int, int]:
    """Return how many connections clients may have, and how many more are reserved for brokers.

    `descriptors` are those that the log files leave.
    """
    places = max(2, descriptors - OTHER_DESCRIPTORS)
    reserve = 0 if is_alone else min(MAX_RESERVE, max(places // 8, min(MIN_RESERVE, places // 2)))
    return places - reserve, reserve


def janitor_settings(config: BrokerConfig) -> MaintenanceSettings:
    """Return the share of the log's background work."""
    threads = max(1, config.log_cleaner_threads)
    return MaintenanceSettings(
        retention_check_interval_ms=config.log_retention_check_interval_ms,
        checkpoint_interval_ms=min(
            config.log_flush_offset_checkpoint_interval_ms,
            config.log_flush_start_offset_checkpoint_interval_ms,
        ),
        producer_expiration_ms=config.producer_id_expiration_ms,
        cleaner_enabled=config.log_cleaner_enable,
        cleaner_threads=threads,
        cleaner_backoff_ms=config.log_cleaner_backoff_ms,
        cleaner=CleanerSettings(
            dedupe_buffer_bytes=config.log_cleaner_dedupe_buffer_size // threads,
            load_factor=config.log_cleaner_io_buffer_load_factor,
            max_bytes_per_second=config.log_cleaner_io_max_bytes_per_second,
        ),
    )
