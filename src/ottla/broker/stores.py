"""Which metadata store the configuration asks for."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ottla.common.config.broker import BrokerConfig
from ottla.common.config.declaration import ConfigError
from ottla.metadata.embedded import EmbeddedStore
from ottla.metadata.store import MetadataStore

if TYPE_CHECKING:
    from ottla.metadata.zookeeper import ZooKeeperSettings

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
    from ottla.metadata.zookeeper import ZooKeeperStore

    return ZooKeeperStore(zookeeper_settings(config))


def zookeeper_settings(config: BrokerConfig) -> ZooKeeperSettings:
    """Return how to reach ZooKeeper."""
    from ottla.metadata.zookeeper import ZooKeeperSettings

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
