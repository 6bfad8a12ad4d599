"""Broker keys of ZooKeeper: where the metadata of a cluster of several brokers is kept.

The names are those that Kafka used while it kept its metadata there. Keys and certificates are PEM files.
"""

from __future__ import annotations

from ottla.common.config.declaration import Config, Importance, Key
from ottla.common.config.types import BOOLEAN, INT, PASSWORD, STRING, at_least

HIGH = Importance.HIGH
CONNECTION_TIMEOUT_MS = 18_000
"""Kafka's default timeout for ZooKeeper."""


class ZooKeeperKeys(Config):
    """The connection to ZooKeeper."""

    zookeeper_connect: Key[str | None] = Key(
        "zookeeper.connect",
        STRING,
        None,
        "The ZooKeeper ensemble that keeps the cluster's metadata: `HOST:PORT`, several with commas, and at "
        "the end a path (`/prod`) where several clusters share it. Without it the broker stands alone.",
        importance=HIGH,
    )
    zookeeper_session_timeout_ms = Key(
        "zookeeper.session.timeout.ms",
        INT,
        6_000,
        "A broker that sends no heartbeat to ZooKeeper for this long loses its session, and other brokers "
        "lead its partitions. ZooKeeper itself sets bounds: 2 to 20 of its ticks.",
        check=at_least(100),
        importance=HIGH,
        kafka_default="18000",
    )
    zookeeper_connection_timeout_ms: Key[int | None] = Key(
        "zookeeper.connection.timeout.ms",
        INT,
        None,
        "How long to wait for ZooKeeper at the start; if unset, 18 seconds, or a session if that is longer.",
        check=at_least(100),
        importance=HIGH,
    )
    zookeeper_set_acl = Key(
        "zookeeper.set.acl",
        BOOLEAN,
        False,
        "Whether only clients authenticated as this broker may change its znodes in ZooKeeper.",
        importance=HIGH,
    )
    zookeeper_ssl_client_enable = Key(
        "zookeeper.ssl.client.enable",
        BOOLEAN,
        False,
        "Whether to speak TLS with ZooKeeper.",
    )
    zookeeper_ssl_keystore_location: Key[str | None] = Key(
        "zookeeper.ssl.keystore.location",
        STRING,
        None,
        "A PEM file with the certificate of this broker and its key, if ZooKeeper asks for one.",
    )
    zookeeper_ssl_keystore_password: Key[str | None] = Key(
        "zookeeper.ssl.keystore.password",
        PASSWORD,
        None,
        "The password of the key in `zookeeper.ssl.keystore.location`.",
    )
    zookeeper_ssl_truststore_location: Key[str | None] = Key(
        "zookeeper.ssl.truststore.location",
        STRING,
        None,
        "A PEM file with the authorities that may sign ZooKeeper's certificate; if unset, the system's.",
    )
    zookeeper_ssl_endpoint_identification_algorithm = Key(
        "zookeeper.ssl.endpoint.identification.algorithm",
        STRING,
        "HTTPS",
        "`HTTPS`: the certificate must name the host that we connect to. Empty: it need not.",
        importance=Importance.LOW,
    )
    zookeeper_sasl_mechanism: Key[str | None] = Key(
        "zookeeper.sasl.mechanism",
        STRING,
        None,
        "How to authenticate with ZooKeeper: `DIGEST-MD5` (or `GSSAPI`). Kafka takes this from a JAAS file.",
    )
    zookeeper_sasl_username: Key[str | None] = Key(
        "zookeeper.sasl.username", STRING, None, "The user for `DIGEST-MD5`."
    )
    zookeeper_sasl_password: Key[str | None] = Key(
        "zookeeper.sasl.password", PASSWORD, None, "The password of `zookeeper.sasl.username`."
    )

    @property
    def connection_timeout_ms(self) -> int:
        """Return how long to wait for ZooKeeper at the start."""
        return self.zookeeper_connection_timeout_ms or max(
            self.zookeeper_session_timeout_ms, CONNECTION_TIMEOUT_MS
        )
