"""Names of Kafka's configuration keys that Ottla does not implement.

Each is refused with that reason rather than ignored: whoever sets a key expects it to do something.
Kafka 3.9 to 4.1; a key leaves this list when it is declared in *_keys.py.
"""

from __future__ import annotations

from typing import Final

_GENERAL = """
    alter.config.policy.class.name background.threads broker.id.generation.enable
    controlled.shutdown.max.retries controlled.shutdown.retry.backoff.ms
    create.topic.policy.class.name num.io.threads process.roles reserved.broker.max.id
    request.timeout.ms server.max.startup.time.ms
    unstable.api.versions.enable unstable.feature.versions.enable
"""

_NETWORK = """
    connection.failed.authentication.delay.ms control.plane.listener.name controller.listener.names
    early.start.listeners max.connection.creation.rate
    max.connections.per.ip.overrides num.network.threads socket.connection.setup.timeout.max.ms
    socket.connection.setup.timeout.ms socket.listen.backlog.size
"""

_LOG = """
    compression.gzip.level compression.lz4.level compression.zstd.level log.dir.failure.timeout.ms
    log.cleaner.io.buffer.size log.initial.task.delay.ms log.local.retention.bytes log.local.retention.ms
    log.message.downconversion.enable log.message.format.version
    log.message.timestamp.difference.max.ms log.preallocate num.recovery.threads.per.data.dir
    num.replica.alter.log.dirs.threads
    producer.id.expiration.check.interval.ms
"""

_REPLICATION = """
    controller.socket.timeout.ms
    delete.records.purgatory.purge.interval.requests eligible.leader.replicas.enable
    fetch.purgatory.purge.interval.requests follower.fetch.last.tiered.offset.enable
    inter.broker.protocol.version
    num.replica.fetchers producer.purgatory.purge.interval.requests
    replica.alter.log.dirs.io.max.bytes.per.second
    replica.socket.receive.buffer.bytes
    unclean.leader.election.interval.ms
"""

_GROUPS = """
    " group.consumer.regex.refresh.interval.ms group.coordinator.append.linger.ms
    group.coordinator.background.threads group.coordinator.new.enable group.coordinator.threads
    group.share.assignors group.share.delivery.count.limit group.share.enable
    group.share.heartbeat.interval.ms group.share.max.groups group.share.max.heartbeat.interval.ms
    group.share.max.record.lock.duration.ms group.share.max.session.timeout.ms
    group.share.max.share.sessions group.share.max.size group.share.min.heartbeat.interval.ms
    group.share.min.record.lock.duration.ms group.share.min.session.timeout.ms
    group.share.partition.max.record.locks group.share.record.lock.duration.ms
    group.share.session.timeout.ms group.streams.heartbeat.interval.ms
    group.streams.max.heartbeat.interval.ms group.streams.max.session.timeout.ms
    group.streams.max.size group.streams.max.standby.replicas
    group.streams.min.heartbeat.interval.ms group.streams.min.session.timeout.ms
    group.streams.num.standby.replicas group.streams.session.timeout.ms offsets.load.buffer.size
    share.coordinator.append.linger.ms share.coordinator.cold.partition.snapshot.interval.ms
    share.coordinator.load.buffer.size share.coordinator.snapshot.update.records.per.snapshot
    share.coordinator.state.topic.compression.codec share.coordinator.state.topic.min.isr
    share.coordinator.state.topic.num.partitions share.coordinator.state.topic.prune.interval.ms
    share.coordinator.state.topic.replication.factor share.coordinator.state.topic.segment.bytes
    share.coordinator.threads share.coordinator.write.timeout.ms share.fetch.max.fetch.records
    share.fetch.purgatory.purge.interval.requests
"""

_TRANSACTIONS = """
    transaction.state.log.load.buffer.size
"""

_SECURITY = """
    authorizer.class.name connections.max.reauth.ms delegation.token.expiry.check.interval.ms
    delegation.token.expiry.time.ms delegation.token.master.key delegation.token.max.lifetime.ms
    delegation.token.secret.key allow.everyone.if.no.acl.found principal.builder.class
    security.inter.broker.protocol security.providers super.users
"""

_QUOTAS_AND_METRICS = """
    alter.log.dirs.replication.quota.window.num
    alter.log.dirs.replication.quota.window.size.seconds auto.include.jmx.reporter
    client.quota.callback.class controller.quota.window.num controller.quota.window.size.seconds
    kafka.metrics.polling.interval.secs kafka.metrics.reporters metric.reporters metrics.num.samples
    metrics.recording.level metrics.sample.window.ms quota.window.num quota.window.size.seconds
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
    compression.gzip.level compression.lz4.level compression.zstd.level
    local.retention.bytes local.retention.ms message.downconversion.enable message.format.version
    message.timestamp.difference.max.ms preallocate remote.log.copy.disable
    remote.log.delete.on.disable remote.storage.enable
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
    "listener.name.",
    "password.encoder.",
    "remote.fetch.",
    "remote.list.",
    "remote.log.",
    "rlmm.config.",
    "rsm.config.",
    "sasl.",
    "ssl.",
)
"""Families of broker keys of which Ottla implements none."""

UNIMPLEMENTED_TOPIC_KEYS: Final = frozenset(_TOPIC.split())
