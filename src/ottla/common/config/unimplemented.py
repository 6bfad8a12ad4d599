"""Names of Kafka's configuration keys that Ottla does not implement.

Each is refused with that reason rather than ignored: a key that is set must have an effect. Those in
`KAFKA_DEFAULTS` may be given at Kafka's default, as files made for Kafka and its tools do.
Kafka 3.9 to 4.3; a key leaves this list when it is declared in common/config/*_keys.py.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

_GENERAL = """
    alter.config.policy.class.name background.threads broker.id.generation.enable
    controlled.shutdown.max.retries controlled.shutdown.retry.backoff.ms
    create.topic.policy.class.name num.io.threads process.roles reserved.broker.max.id
    request.timeout.ms server.max.startup.time.ms
    unstable.api.versions.enable unstable.feature.versions.enable
"""

_NETWORK = """
    control.plane.listener.name controller.listener.names
    early.start.listeners
    max.connections.per.ip.overrides num.network.threads socket.connection.setup.timeout.max.ms
    socket.connection.setup.timeout.ms socket.listen.backlog.size
"""

_LOG = """
    cordoned.log.dirs log.cleaner.io.buffer.size log.dir.failure.timeout.ms
    log.initial.task.delay.ms log.message.downconversion.enable log.message.format.version
    log.message.timestamp.difference.max.ms num.recovery.threads.per.data.dir
    num.replica.alter.log.dirs.threads producer.id.expiration.check.interval.ms
"""

_REPLICATION = """
    controller.socket.timeout.ms
    delete.records.purgatory.purge.interval.requests eligible.leader.replicas.enable
    fetch.purgatory.purge.interval.requests follower.fetch.last.tiered.offset.enable
    inter.broker.protocol.version
    num.replica.fetchers producer.purgatory.purge.interval.requests
    replica.socket.receive.buffer.bytes
    unclean.leader.election.interval.ms
"""

_GROUPS = """
    group.consumer.assignment.interval.ms group.consumer.max.assignment.interval.ms
    group.consumer.min.assignment.interval.ms group.consumer.regex.refresh.interval.ms
    group.coordinator.append.linger.ms group.coordinator.background.threads
    group.coordinator.cached.buffer.max.bytes group.coordinator.new.enable group.coordinator.threads
    group.share.assignment.interval.ms group.share.assignors group.share.delivery.count.limit
    group.share.enable group.share.heartbeat.interval.ms group.share.max.assignment.interval.ms
    group.share.max.delivery.count.limit group.share.max.groups
    group.share.max.heartbeat.interval.ms group.share.max.partition.max.record.locks
    group.share.max.record.lock.duration.ms group.share.max.session.timeout.ms
    group.share.max.share.sessions group.share.max.size group.share.min.assignment.interval.ms
    group.share.min.delivery.count.limit group.share.min.heartbeat.interval.ms
    group.share.min.partition.max.record.locks group.share.min.record.lock.duration.ms
    group.share.min.session.timeout.ms group.share.partition.max.record.locks
    group.share.record.lock.duration.ms group.share.session.timeout.ms
    group.streams.assignment.interval.ms group.streams.heartbeat.interval.ms
    group.streams.initial.rebalance.delay.ms group.streams.max.assignment.interval.ms
    group.streams.max.heartbeat.interval.ms group.streams.max.session.timeout.ms
    group.streams.max.size group.streams.max.standby.replicas
    group.streams.min.assignment.interval.ms group.streams.min.heartbeat.interval.ms
    group.streams.min.session.timeout.ms group.streams.num.standby.replicas
    group.streams.session.timeout.ms offsets.load.buffer.size share.coordinator.append.linger.ms
    share.coordinator.cached.buffer.max.bytes share.coordinator.cold.partition.snapshot.interval.ms
    share.coordinator.load.buffer.size share.coordinator.snapshot.update.records.per.snapshot
    share.coordinator.state.topic.compression.codec share.coordinator.state.topic.min.isr
    share.coordinator.state.topic.num.partitions share.coordinator.state.topic.prune.interval.ms
    share.coordinator.state.topic.replication.factor share.coordinator.state.topic.segment.bytes
    share.coordinator.threads share.coordinator.write.timeout.ms share.fetch.max.fetch.records
    share.fetch.purgatory.purge.interval.requests
"""

_TRANSACTIONS = """
    add.partitions.to.txn.retry.backoff.max.ms add.partitions.to.txn.retry.backoff.ms
    transaction.state.log.load.buffer.size
"""

_SECURITY = """
    delegation.token.master.key principal.builder.class security.providers
    sasl.client.callback.handler.class sasl.kerberos.kinit.cmd sasl.kerberos.min.time.before.relogin
    sasl.kerberos.ticket.renew.jitter sasl.kerberos.ticket.renew.window.factor
    sasl.login.class sasl.login.connect.timeout.ms
    sasl.login.read.timeout.ms sasl.login.refresh.buffer.seconds sasl.login.refresh.min.period.seconds
    sasl.login.refresh.window.factor sasl.login.refresh.window.jitter sasl.login.retry.backoff.max.ms
    sasl.login.retry.backoff.ms sasl.mechanism.controller.protocol
    sasl.oauthbearer.client.credentials.client.id sasl.oauthbearer.client.credentials.client.secret
    sasl.oauthbearer.header.urlencode sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms
    sasl.oauthbearer.jwks.endpoint.retry.backoff.ms sasl.oauthbearer.jwt.retriever.class
    sasl.oauthbearer.jwt.validator.class sasl.oauthbearer.scope
    ssl.engine.factory.class ssl.keymanager.algorithm
    ssl.provider ssl.secure.random.implementation ssl.trustmanager.algorithm
"""

_QUOTAS_AND_METRICS = """
    alter.log.dirs.replication.quota.window.num
    alter.log.dirs.replication.quota.window.size.seconds auto.include.jmx.reporter
    client.quota.callback.class
    kafka.metrics.polling.interval.secs kafka.metrics.reporters metric.reporters metrics.num.samples
    metrics.recording.level metrics.sample.window.ms
    replication.quota.window.num replication.quota.window.size.seconds telemetry.max.bytes
"""

_METADATA = """
    broker.heartbeat.interval.ms broker.session.timeout.ms
    controller.performance.always.log.threshold.ms controller.performance.sample.period.ms
    initial.broker.registration.timeout.ms metadata.log.dir
    metadata.log.max.record.bytes.between.snapshots metadata.log.max.snapshot.interval.ms
    metadata.log.segment.bytes metadata.log.segment.min.bytes metadata.log.segment.ms
    metadata.max.idle.interval.ms metadata.max.retention.bytes metadata.max.retention.ms
    zookeeper.clientCnxnSocket zookeeper.max.in.flight.requests zookeeper.ssl.cipher.suites
    zookeeper.ssl.crl.enable zookeeper.ssl.enabled.protocols zookeeper.ssl.keystore.type
    zookeeper.ssl.ocsp.enable zookeeper.ssl.protocol zookeeper.ssl.truststore.password
    zookeeper.ssl.truststore.type zookeeper.sync.time.ms
"""

_TOPIC = """
    message.downconversion.enable message.format.version message.timestamp.difference.max.ms
"""

UNIMPLEMENTED_BROKER_KEYS: Final = frozenset(
    " ".join(
        (
            _GENERAL,
            _NETWORK,
            _LOG,
            _REPLICATION,
            _GROUPS,
            _TRANSACTIONS,
            _SECURITY,
            _QUOTAS_AND_METRICS,
            _METADATA,
        )
    ).split()
)

UNIMPLEMENTED_PREFIXES: Final = (
    "config.providers",
    "controller.quorum.",
    "password.encoder.",
    "remote.fetch.",
    "remote.list.",
    "remote.log.",
    "rlmm.config.",
    "rsm.config.",
    "sasl.oauthbearer.assertion.",
)
"""Families of broker keys of which Ottla implements none."""

KAFKA_DEFAULTS: Final = MappingProxyType(
    {
        "alter.log.dirs.replication.quota.window.num": "11",
        "alter.log.dirs.replication.quota.window.size.seconds": "1",
        "auto.include.jmx.reporter": "true",
        "background.threads": "10",
        "broker.heartbeat.interval.ms": "2000",
        "broker.id.generation.enable": "true",
        "broker.session.timeout.ms": "9000",
        "controlled.shutdown.max.retries": "3",
        "controlled.shutdown.retry.backoff.ms": "5000",
        "controller.socket.timeout.ms": "30000",
        "delete.records.purgatory.purge.interval.requests": "1",
        "fetch.purgatory.purge.interval.requests": "1000",
        "log.cleaner.io.buffer.size": "524288",
        "log.dir.failure.timeout.ms": "30000",
        "log.initial.task.delay.ms": "30000",
        "log.message.downconversion.enable": "true",
        "metrics.num.samples": "2",
        "metrics.recording.level": "INFO",
        "metrics.sample.window.ms": "30000",
        "num.io.threads": "8",
        "num.network.threads": "3",
        "num.recovery.threads.per.data.dir": "2",
        "num.replica.fetchers": "1",
        "offsets.load.buffer.size": "5242880",
        "producer.id.expiration.check.interval.ms": "600000",
        "producer.purgatory.purge.interval.requests": "1000",
        "replica.socket.receive.buffer.bytes": "65536",
        "replication.quota.window.num": "11",
        "replication.quota.window.size.seconds": "1",
        "request.timeout.ms": "30000",
        "reserved.broker.max.id": "1000",
        "sasl.kerberos.kinit.cmd": "/usr/bin/kinit",
        "sasl.kerberos.min.time.before.relogin": "60000",
        "sasl.kerberos.ticket.renew.jitter": "0.05",
        "sasl.kerberos.ticket.renew.window.factor": "0.8",
        "sasl.login.refresh.buffer.seconds": "300",
        "sasl.login.refresh.min.period.seconds": "60",
        "sasl.login.refresh.window.factor": "0.8",
        "sasl.login.refresh.window.jitter": "0.05",
        "sasl.login.retry.backoff.max.ms": "10000",
        "sasl.login.retry.backoff.ms": "100",
        "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms": "10000",
        "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms": "100",
        "socket.connection.setup.timeout.max.ms": "30000",
        "socket.connection.setup.timeout.ms": "10000",
        "socket.listen.backlog.size": "50",
        "telemetry.max.bytes": "1048576",
        "transaction.state.log.load.buffer.size": "5242880",
        "unclean.leader.election.interval.ms": "300000",
    }
)
"""Broker keys without effect that may be given at these values, which are Kafka's defaults."""

UNIMPLEMENTED_TOPIC_KEYS: Final = frozenset(_TOPIC.split())
