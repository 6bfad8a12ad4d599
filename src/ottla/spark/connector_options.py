"""The options of Spark's Kafka connector (spark-sql-kafka-0-10), one by one: how each is treated here.

docs/spark-connector.md is made from these tables; tests/interop/test_spark_options.py compares them with the
connector's own list, and with the names of Kafka's Java clients.
"""

from __future__ import annotations

from typing import NamedTuple

SAME, BETTER, DIFFERENT, REFUSED = "same", "better", "different", "refused"


class OptionSupport(NamedTuple):
    """How an option is treated."""

    verdict: str
    note: str = ""


CONNECTOR = {
    "subscribe": OptionSupport(SAME),
    "subscribePattern": OptionSupport(
        DIFFERENT, "Python's regular expressions; Ottla's internal topics never match"
    ),
    "assign": OptionSupport(SAME),
    "startingOffsets": OptionSupport(SAME),
    "startingOffsetsByTimestamp": OptionSupport(SAME),
    "startingTimestamp": OptionSupport(SAME),
    "startingOffsetsByTimestampStrategy": OptionSupport(SAME),
    "endingOffsets": OptionSupport(SAME),
    "endingOffsetsByTimestamp": OptionSupport(SAME),
    "endingTimestamp": OptionSupport(SAME),
    "failOnDataLoss": OptionSupport(BETTER, "a topic that was deleted and recreated is found by its id"),
    "minPartitions": OptionSupport(SAME),
    "maxRecordsPerPartition": OptionSupport(SAME),
    "maxOffsetsPerTrigger": OptionSupport(SAME),
    "minOffsetsPerTrigger": OptionSupport(SAME),
    "maxTriggerDelay": OptionSupport(BETTER, "`15m` and `15 minutes`"),
    "includeHeaders": OptionSupport(SAME, "when writing, a column `headers` is used unless it is false"),
    "groupIdPrefix": OptionSupport(
        DIFFERENT, "the prefix of the group that progress is committed to; `spark-ottla`"
    ),
    "kafkaConsumer.pollTimeoutMs": OptionSupport(SAME, "120000, as `spark.network.timeout`"),
    "fetchOffset.numRetries": OptionSupport(
        BETTER, "retried until `kafka.default.api.timeout.ms`, at least so often"
    ),
    "fetchOffset.retryIntervalMs": OptionSupport(BETTER, "the pauses grow from `kafka.retry.backoff.ms`"),
    "topic": OptionSupport(SAME),
    "kafka.bootstrap.servers": OptionSupport(SAME),
    "kafka.group.id": OptionSupport(
        BETTER, "progress is committed to it; readers of the same group do not interfere"
    ),
    "_mockSystemTime": OptionSupport(REFUSED, "for the connector's own tests"),
}
"""The options of the connector itself."""

NO_EFFECT = {
    "auto.include.jmx.reporter": "JMX",
    "metrics.num.samples": "JMX",
    "metrics.recording.level": "JMX",
    "metrics.sample.window.ms": "JMX",
    "enable.metrics.push": "clients send no telemetry",
    "metadata.max.idle.ms": "metadata of unused topics is not kept",
    "socket.connection.setup.timeout.max.ms": "the timeout to connect does not grow",
    "partitioner.adaptive.partitioning.enable": "batches without a key follow the queue of each broker",
    "partitioner.availability.timeout.ms": "batches without a key follow the queue of each broker",
    "exclude.internal.topics": "patterns never match internal topics",
    "auto.commit.interval.ms": "nothing is committed by time",
    "ssl.keymanager.algorithm": "of Java",
    "ssl.trustmanager.algorithm": "of Java",
    "ssl.secure.random.implementation": "of Java",
    "ssl.protocol": "TLS 1.2 or 1.3, as both sides can",
    "metadata.recovery.strategy": "the bootstrap servers are tried again if no broker answers",
    "metadata.recovery.rebootstrap.trigger.ms": "the bootstrap servers are tried again if no broker answers",
}
"""Options of Java's clients that are accepted, and why they change nothing."""

_NO_CLASS = "names a class of Java"
_KERBEROS = "Kerberos (GSSAPI) is not supported"
_OAUTH = "in Spark, OAUTHBEARER is not supported: a token provider is a Python function"
REFUSED_JAVA = {
    "metric.reporters": _NO_CLASS,
    "security.providers": _NO_CLASS,
    "partitioner.class": _NO_CLASS + ": use a column `partition`",
    "ssl.engine.factory.class": _NO_CLASS,
    "ssl.provider": "is of Java",
    "sasl.client.callback.handler.class": _NO_CLASS,
    "sasl.login.class": _NO_CLASS,
    "sasl.login.callback.handler.class": _NO_CLASS,
    "config.providers": _NO_CLASS,
    "partition.assignment.strategy": "Spark distributes the partitions",
    "sasl.kerberos.service.name": _KERBEROS,
    "sasl.kerberos.kinit.cmd": _KERBEROS,
    "sasl.kerberos.ticket.renew.window.factor": _KERBEROS,
    "sasl.kerberos.ticket.renew.jitter": _KERBEROS,
    "sasl.kerberos.min.time.before.relogin": _KERBEROS,
    "sasl.login.refresh.window.factor": _OAUTH,
    "sasl.login.refresh.window.jitter": _OAUTH,
    "sasl.login.refresh.min.period.seconds": _OAUTH,
    "sasl.login.refresh.buffer.seconds": _OAUTH,
    "sasl.login.connect.timeout.ms": _OAUTH,
    "sasl.login.read.timeout.ms": _OAUTH,
    "sasl.login.retry.backoff.max.ms": _OAUTH,
    "sasl.login.retry.backoff.ms": _OAUTH,
}
"""Options of Java's clients that are refused, and why; `sasl.oauthbearer.*` is refused as a whole."""
OAUTH_PREFIX = "sasl.oauthbearer."

ALREADY_SO = {
    "acks": ("all", "-1"),
    "enable.idempotence": ("true",),
    "partitioner.ignore.keys": ("false",),
    "ssl.enabled.protocols": ("tlsv1.2,tlsv1.3", "tlsv1.3,tlsv1.2"),
    "compression.gzip.level": ("-1",),
    "compression.lz4.level": ("9",),
    "compression.zstd.level": ("3",),
}
"""Options that are fixed: the values that say the same are accepted, others are refused."""


def why_refused(name: str) -> str | None:
    """Return why an option of Java's clients is refused; None if it is not."""
    if name.startswith(OAUTH_PREFIX):
        return _OAUTH
    if name in ALREADY_SO:
        return f"can only be {' or '.join(ALREADY_SO[name])}"
    return REFUSED_JAVA.get(name)
