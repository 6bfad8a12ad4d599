"""What each part of the broker takes from the configuration: network limits, log maintenance, the store.

The parts declare settings classes of their own, below `common.config`; here they are filled in. `*_KEYS` are
the dynamic keys of each: the broker subscribes to them, so that a change builds the settings anew.
"""

from __future__ import annotations

import importlib.util
import resource
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ottla.common.config.authorization_keys import parse_super_users
from ottla.common.config.broker import BrokerConfig
from ottla.common.config.declaration import ConfigError
from ottla.common.units import MAX_INT
from ottla.log.compaction.log_cleaner import CleanerSettings
from ottla.log.file_pool import open_file_limit
from ottla.log.maintenance import MaintenanceSettings
from ottla.metadata.embedded import EmbeddedStore
from ottla.metadata.store import MetadataStore
from ottla.network.limits import NetworkLimits
from ottla.security.authorizer import Authorizer
from ottla.security.connection_rates import ConnectionRates
from ottla.security.quota_rates import QuotaWindows

NETWORK_KEYS = (BrokerConfig.max_connections, BrokerConfig.max_connections_per_ip)
RATE_KEYS = (BrokerConfig.max_connection_creation_rate,)
MAINTENANCE_KEYS = (
    BrokerConfig.producer_id_expiration_ms,
    BrokerConfig.log_cleaner_threads,
    BrokerConfig.log_cleaner_backoff_ms,
    BrokerConfig.log_cleaner_dedupe_buffer_size,
    BrokerConfig.log_cleaner_io_buffer_load_factor,
    BrokerConfig.log_cleaner_io_max_bytes_per_second,
)

OTHER_DESCRIPTORS = 64
"""For what is neither a log file nor a client's connection: listeners, ZooKeeper, connections to brokers."""
MAX_WAITING_HANDSHAKES = 1_024
"""Accepted TLS connections whose handshake has not begun: each takes a descriptor."""
MIN_RESERVE, MAX_RESERVE = 16, 1_000
"""Each broker takes about five: for fetches, calls, forwarded requests, transactions and lags."""


def authorizer(config: BrokerConfig) -> Authorizer | None:
    """Return the authorizer, if one is named."""
    if not config.authorizer_class_name:
        return None
    super_users = parse_super_users(config.super_users)
    return Authorizer(super_users, allow_if_no_acl=config.allow_everyone_if_no_acl_found)


def network_limits(config: BrokerConfig) -> NetworkLimits:
    """Return the network's share of the configuration."""
    is_alone = config.zookeeper_connect is None
    clients, brokers = connection_places(most_descriptors() - open_file_limit(), is_alone=is_alone)
    waiting = 0
    if any(each.uses_tls for each in config.listener_list):
        waiting = min(MAX_WAITING_HANDSHAKES, clients // 8 + 1)
    return NetworkLimits(
        waiting_handshakes=waiting,
        max_connections=config.max_connections,
        descriptor_connections=clients - waiting,
        broker_reserve=brokers,
        max_connections_per_ip=config.max_connections_per_ip,
        max_idle_ms=config.connections_max_idle_ms,
        queued_requests=config.queued_max_requests,
        queued_request_bytes=config.queued_max_request_bytes,
        send_buffer_bytes=config.socket_send_buffer_bytes,
        receive_buffer_bytes=config.socket_receive_buffer_bytes,
    )


def change_connection_rates(rates: ConnectionRates, config: BrokerConfig, now_ms: int) -> None:
    """Put the rates of new connections into force. As in Kafka, a listener has only a rate of its own."""
    key = BrokerConfig.max_connection_creation_rate
    names = [each.name for each in config.listener_list]
    listeners = {name: config.for_listener(name).own(key) or MAX_INT for name in names}
    protected = config.inter_broker_listener.name if len(names) > 1 else None
    rates.change_rates(config.max_connection_creation_rate, listeners, protected, now_ms)


def quota_windows(config: BrokerConfig) -> tuple[QuotaWindows, QuotaWindows]:
    """Return the windows of the quotas, and those of the quotas of changes to partitions."""
    return (
        QuotaWindows(config.quota_window_num, config.quota_window_size_seconds * 1000),
        QuotaWindows(config.controller_quota_window_num, config.controller_quota_window_size_seconds * 1000),
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


def maintenance_settings(config: BrokerConfig) -> MaintenanceSettings:
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


if TYPE_CHECKING:
    from ottla.metadata.zookeeper.store import ZooKeeperSettings

METADATA_FILE = "metadata.db"
_PURE_SASL = {"puresasl": "pip install 'kazoo[sasl]'"}
SASL_MECHANISMS = {
    "DIGEST-MD5": _PURE_SASL,
    "GSSAPI": {**_PURE_SASL, "kerberos": "pip install kerberos"},
}
"""How to authenticate with ZooKeeper, and the packages that it takes."""


def metadata_store(config: BrokerConfig, data: Path) -> MetadataStore:
    """Return the store: ZooKeeper where it is named, otherwise a file beside the logs."""
    if config.zookeeper_connect is None:
        return EmbeddedStore(data / METADATA_FILE)
    # Imported only here: a broker that stands alone needs no kazoo.
    from ottla.metadata.zookeeper.store import ZooKeeperStore

    return ZooKeeperStore(zookeeper_settings(config))


def zookeeper_settings(config: BrokerConfig) -> ZooKeeperSettings:
    """Return how to reach ZooKeeper."""
    from ottla.metadata.zookeeper.store import ZooKeeperSettings

    assert config.zookeeper_connect is not None
    return ZooKeeperSettings(
        connect=config.zookeeper_connect,
        session_timeout_ms=config.zookeeper_session_timeout_ms,
        connection_timeout_ms=config.connection_timeout_ms,
        options={**_tls(config), **_sasl(config), **_acl(config)},
    )


def _tls(config: BrokerConfig) -> dict[str, Any]:
    if not config.zookeeper_ssl_client_enable:
        return {}
    return {
        "use_ssl": True,
        "ca": config.zookeeper_ssl_truststore_location,
        "certfile": config.zookeeper_ssl_keystore_location,
        "keyfile": config.zookeeper_ssl_keystore_location,
        "keyfile_password": config.zookeeper_ssl_keystore_password,
        "verify_certs": True,
        "check_hostname": config.zookeeper_ssl_endpoint_identification_algorithm != "",
    }


def _sasl(config: BrokerConfig) -> dict[str, Any]:
    mechanism, user = config.zookeeper_sasl_mechanism, config.zookeeper_sasl_username
    password = config.zookeeper_sasl_password
    if mechanism is None:
        if user is not None or password is not None:
            raise ConfigError("zookeeper.sasl.mechanism", "is missing: DIGEST-MD5 is the one with passwords")
        return {}
    if mechanism not in SASL_MECHANISMS:
        raise ConfigError("zookeeper.sasl.mechanism", f"is {' or '.join(SASL_MECHANISMS)}, not {mechanism!r}")
    for package, install in SASL_MECHANISMS[mechanism].items():
        if importlib.util.find_spec(package) is None:
            raise ConfigError("zookeeper.sasl.mechanism", f"{mechanism} needs a package: {install}")
    if mechanism != "DIGEST-MD5":
        return {"sasl_options": {"mechanism": mechanism}}
    if not user:
        raise ConfigError("zookeeper.sasl.username", "is missing: DIGEST-MD5 needs it")
    if not password:
        raise ConfigError("zookeeper.sasl.password", "is missing: DIGEST-MD5 needs it")
    return {"sasl_options": {"mechanism": mechanism, "username": user, "password": password}}


def _acl(config: BrokerConfig) -> dict[str, Any]:
    if not config.zookeeper_set_acl:
        return {}
    from kazoo.security import CREATOR_ALL_ACL

    return {"default_acl": CREATOR_ALL_ACL}
