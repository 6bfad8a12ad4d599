"""The configuration as each part of the broker takes it."""

from __future__ import annotations

from ottla.common.broker_keys import BrokerConfig
from ottla.log.compactor import CleanerSettings
from ottla.log.janitor import JanitorSettings
from ottla.network.limits import NetworkLimits


def network_limits(config: BrokerConfig) -> NetworkLimits:
    """Return the network's share of the configuration."""
    return NetworkLimits(
        max_connections=config.max_connections,
        max_connections_per_ip=config.max_connections_per_ip,
        max_idle_ms=config.connections_max_idle_ms,
        queued_requests=config.queued_max_requests,
        queued_request_bytes=config.queued_max_request_bytes,
        send_buffer_bytes=config.socket_send_buffer_bytes,
        receive_buffer_bytes=config.socket_receive_buffer_bytes,
    )


def janitor_settings(config: BrokerConfig) -> JanitorSettings:
    """Return the share of the log's background work."""
    threads = max(1, config.log_cleaner_threads)
    return JanitorSettings(
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
