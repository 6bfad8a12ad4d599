"""Broker keys of the network: where the broker listens, and how much it takes in at once."""

from __future__ import annotations

from ottla.common.config.declaration import Config, Importance, Key, Update
from ottla.common.config.types import INT, LONG, STRING, Check, at_least
from ottla.common.units import KIB, MAX_INT, MIB, MINUTE_MS

CLUSTER_WIDE = Update.CLUSTER_WIDE
HIGH = Importance.HIGH

_SOCKET_BUFFER = Check("-1 (the system's default) or at least 1", lambda value: value == -1 or value >= 1)


class NetworkKeys(Config):
    """Listeners and limits."""

    listeners = Key(
        "listeners",
        STRING,
        "PLAINTEXT://127.0.0.1:9092",
        "Where to listen: `NAME://HOST:PORT`, several with commas. An empty host listens everywhere, "
        "port 0 takes any free port.",
        importance=HIGH,
        kafka_default="PLAINTEXT://:9092",
    )
    advertised_listeners: Key[str | None] = Key(
        "advertised.listeners",
        STRING,
        None,
        "The addresses that clients connect to, one for every listener, written like "
        "`listeners`; if unset, those of `listeners`.",
        importance=HIGH,
    )
    listener_security_protocol_map = Key(
        "listener.security.protocol.map",
        STRING,
        "SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT",
        "The security protocol of every listener name: `NAME:PROTOCOL`, several with commas; a protocol is "
        "PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL.",
        importance=Importance.LOW,
    )
    socket_send_buffer_bytes = Key(
        "socket.send.buffer.bytes",
        INT,
        100 * KIB,
        "The send buffer (SO_SNDBUF) of client sockets; -1 leaves it to the system.",
        check=_SOCKET_BUFFER,
        importance=HIGH,
    )
    socket_receive_buffer_bytes = Key(
        "socket.receive.buffer.bytes",
        INT,
        100 * KIB,
        "The receive buffer (SO_RCVBUF) of client sockets; -1 leaves it to the system.",
        check=_SOCKET_BUFFER,
        importance=HIGH,
    )
    socket_request_max_bytes = Key(
        "socket.request.max.bytes",
        INT,
        16 * MIB,
        "The largest request that is read; a connection that sends a larger one is closed.",
        check=at_least(1),
        importance=HIGH,
        kafka_default=str(100 * MIB),
    )
    queued_max_requests = Key(
        "queued.max.requests",
        INT,
        500,
        "How many requests may wait or be worked on before the broker stops reading.",
        check=at_least(1),
        importance=HIGH,
    )
    queued_max_request_bytes = Key(
        "queued.max.request.bytes",
        LONG,
        256 * MIB,
        "How many bytes of requests may be held before the broker stops reading; -1 sets no limit.",
        check=Check("-1 (no limit) or at least 1", lambda value: value == -1 or value >= 1),
        kafka_default="-1",
    )
    max_connections = Key(
        "max.connections",
        INT,
        MAX_INT,
        "How many connections of clients may be open at once; the descriptor limit bounds them, too.",
        check=at_least(0),
        update=CLUSTER_WIDE,
    )
    max_connections_per_ip = Key(
        "max.connections.per.ip",
        INT,
        MAX_INT,
        "How many connections of clients may be open at once from one address.",
        check=at_least(0),
        update=CLUSTER_WIDE,
    )
    max_connection_creation_rate = Key(
        "max.connection.creation.rate",
        INT,
        MAX_INT,
        "How many connections per second are accepted on all listeners together; more wait for their turn. "
        "`listener.name.NAME.max.connection.creation.rate` limits one listener. Where there are several "
        "listeners, only its own limit counts for the one between brokers.",
        check=at_least(1),
        update=CLUSTER_WIDE,
        per_listener=True,
    )
    connections_max_idle_ms = Key(
        "connections.max.idle.ms",
        LONG,
        10 * MINUTE_MS,
        "How long a connection may stay silent before it is closed; a negative number sets no limit.",
    )
    fetch_max_bytes = Key(
        "fetch.max.bytes",
        INT,
        55 * MIB,
        "The most bytes of records that one fetch is answered with.",
        check=at_least(1024),
    )
    max_incremental_fetch_session_cache_slots = Key(
        "max.incremental.fetch.session.cache.slots",
        INT,
        1000,
        "How many fetch sessions are remembered; 0 switches sessions off.",
        check=at_least(0),
    )
    max_request_partition_size_limit = Key(
        "max.request.partition.size.limit",
        INT,
        2000,
        "The most partitions that one DescribeTopicPartitions answer holds.",
        check=at_least(1),
    )
