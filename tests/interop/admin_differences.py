"""Where the Admin client sees a difference between Apache Kafka and Ottla, and why.

Each reason is a line of docs/migration.md (a test compares the two). A difference without a reason fails the
comparison, and so does a reason without a difference.
"""

from __future__ import annotations

from collections.abc import Iterable

from ottla.common.config.broker import BrokerConfig
from ottla.common.config.declaration import Update
from ottla.common.config.unimplemented import UNIMPLEMENTED_BROKER_KEYS, UNIMPLEMENTED_PREFIXES

BROKER_KEY = "describeConfigs broker "

# Keys that the comparison itself sets differently, because the two are started differently.
STARTED_DIFFERENTLY = {
    "advertised.listeners", "broker.id", "default.replication.factor", "listener.security.protocol.map",
    "listeners", "log.dir", "log.dirs", "node.id", "replica.fetch.wait.max.ms",
    "sasl.mechanism.inter.broker.protocol", "security.inter.broker.protocol",
}  # fmt: skip

KEY_IS_ABSENT = "missing keys of features that Ottla does not have; `ottla config validate` names them"
KEY_IS_OURS = "additional keys: Ottla's own, ZooKeeper's, and those of schema validation"
KEY_IS_FIXED = "some keys that are dynamic in Kafka are read-only in Ottla"
KEY_DEFAULT = "some defaults differ; [configuration](configuration.md) marks them"
KEY_UNSET = "keys without a value: `null` instead of an empty list or a store's type"
KEY_SHOWN = "keys whose type or value Kafka hides"
UNITS = "synonyms name the key with the larger unit from which a default comes (`log.retention.hours`)"
KRAFT = "there is no KRaft quorum: metadata is in a file or in ZooKeeper"
NO_SHARE = "share groups and streams groups are not supported, and their keys are refused"
FEATURES = "features have the levels that Ottla implements, and are not downgraded"
MIN_ISR = "Kafka stores `min.insync.replicas` as a dynamic default of the cluster when it is formatted"
LOGGERS = "not supported; set log levels with `--log-level`"
ALIVE = "live brokers cannot be unregistered"
EPOCHS = "a new consumer group begins at epoch 1, in Kafka 4.3 at epoch 2"
BATCHED = "assignments are computed immediately, not in intervals"

EXPLAINED = {
    "describeFeatures": FEATURES,
    "updateFeatures validated only": FEATURES,
    "describeMetadataQuorum": KRAFT,
    "describeConfigs topic min.insync.replicas": MIN_ISR,
    "describeConfigs broker min.insync.replicas": MIN_ISR,
    "describeConfigs changed": MIN_ISR,
    "describeConfigs topic segment.jitter.ms": UNITS,
    "describeConfigs topic flush.ms": UNITS,
    "describeConfigs topic retention.ms": UNITS,
    "describeConfigs topic segment.ms": UNITS,
    "describeConfigs group consumer.assignment.interval.ms": BATCHED,
    "describeConfigs loggers": LOGGERS,
    "incrementalAlterConfigs logger": LOGGERS,
    "incrementalAlterConfigs logger level": LOGGERS,
    "incrementalAlterConfigs group share": NO_SHARE,
    "incrementalAlterConfigs group streams": NO_SHARE,
    "describeShareGroups": NO_SHARE,
    "listShareGroupOffsets": NO_SHARE,
    "alterShareGroupOffsets": NO_SHARE,
    "deleteShareGroupOffsets": NO_SHARE,
    "describeStreamsGroups": NO_SHARE,
    "describeConsumerGroups modern": EPOCHS,
    "describeConsumerGroups empty": EPOCHS,
    "unregisterBroker alive": ALIVE,
}
UNIT_KEYS = {
    "log.flush.interval.ms", "log.retention.minutes", "log.retention.ms", "log.roll.jitter.ms", "log.roll.ms",
}  # fmt: skip
UNSET_KEYS = {
    "sasl.oauthbearer.expected.audience", "ssl.cipher.suites", "ssl.keystore.type", "ssl.truststore.type",
}  # fmt: skip
SHOWN_KEYS = {
    "listener.name.sasl_plaintext.plain.sasl.jaas.config",
    "sasl.server.callback.handler.class",
    "super.users",
}  # fmt: skip


def differing(theirs: dict[str, str], ours: dict[str, str]) -> list[str]:
    """Return the steps whose results differ, but for keys that the comparison sets differently."""
    started = {BROKER_KEY + key for key in STARTED_DIFFERENTLY}
    steps = dict.fromkeys([*theirs, *ours])
    return [each for each in steps if each not in started and theirs.get(each) != ours.get(each)]


def reason(step: str, theirs: dict[str, str], ours: dict[str, str]) -> str | None:
    """Return why a step differs, or None if it is not known."""
    if step in EXPLAINED:
        return EXPLAINED[step]
    if step.startswith("describeConfigs group ") and step.split()[-1].startswith(("share.", "streams.")):
        return NO_SHARE
    if step.startswith("describeConfigs topic ") and step not in theirs:
        return KEY_IS_OURS
    if step.startswith(BROKER_KEY):
        return _key_reason(step.removeprefix(BROKER_KEY), step in theirs, step in ours)
    return None


def _key_reason(name: str, is_theirs: bool, is_ours: bool) -> str | None:
    if not is_ours:
        is_listed = name in UNIMPLEMENTED_BROKER_KEYS or name.startswith(UNIMPLEMENTED_PREFIXES)
        return KEY_IS_ABSENT if is_listed else None
    if not is_theirs:
        return KEY_IS_OURS
    for names, why in ((UNIT_KEYS, UNITS), (UNSET_KEYS, KEY_UNSET), (SHOWN_KEYS, KEY_SHOWN)):
        if name in names:
            return why
    key = BrokerConfig.KEYS[name]
    if key.kafka_default is not None:
        return KEY_DEFAULT
    return KEY_IS_FIXED if key.update is Update.READ_ONLY else None


def reasons() -> Iterable[str]:
    """Return every reason, once."""
    keys = (KEY_IS_ABSENT, KEY_IS_OURS, KEY_IS_FIXED, KEY_DEFAULT, KEY_UNSET, KEY_SHOWN)
    return dict.fromkeys([*EXPLAINED.values(), *keys])
