"""The topic's configuration: its settings over the broker's, through synonyms in several units."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.common.config.broker import BrokerConfig
from ottla.common.config.declaration import ConfigEntry, ConfigError, ConfigSource, Synonym
from ottla.common.config.schema_keys import TOPIC_NAME
from ottla.common.config.topic import TopicConfig, TopicKey

BROKER = BrokerConfig({})
HOUR_MS = 3_600_000

KAFKA_DEFAULTS = {
    "cleanup.policy": "delete",
    "compression.gzip.level": "-1",
    "compression.lz4.level": "9",
    "compression.type": "producer",
    "compression.zstd.level": "3",
    "delete.retention.ms": "86400000",
    "file.delete.delay.ms": "60000",
    "flush.messages": "9223372036854775807",
    "flush.ms": "9223372036854775807",
    "follower.replication.throttled.replicas": "",
    "index.interval.bytes": "4096",
    "leader.replication.throttled.replicas": "",
    "local.retention.bytes": "-2",
    "local.retention.ms": "-2",
    "max.compaction.lag.ms": "9223372036854775807",
    "max.message.bytes": "1048588",
    "message.timestamp.after.max.ms": "3600000",
    "message.timestamp.before.max.ms": "9223372036854775807",
    "message.timestamp.type": "CreateTime",
    "min.cleanable.dirty.ratio": "0.5",
    "min.compaction.lag.ms": "0",
    "min.insync.replicas": "1",
    "preallocate": "false",
    "remote.log.copy.disable": "false",
    "remote.log.delete.on.disable": "false",
    "remote.storage.enable": "false",
    "retention.bytes": "-1",
    "retention.ms": "604800000",
    "segment.bytes": "1073741824",
    "segment.index.bytes": "10485760",
    "segment.jitter.ms": "0",
    "segment.ms": "604800000",
    "unclean.leader.election.enable": "false",
}


ADDED = ("confluent.", "ottla.")


def described(config: TopicConfig, name: str) -> ConfigEntry:
    return next(entry for entry in config.describe() if entry.name == name)


def test_every_key_and_its_default_are_those_of_kafka() -> None:
    entries = {entry.name: entry.value for entry in TopicConfig({}, BROKER).describe()}
    assert {name: entries[name] for name in entries if not name.startswith(ADDED)} == KAFKA_DEFAULTS
    assert {entries[name] for name in entries if name.startswith(ADDED)} == {"false", TOPIC_NAME}


def test_the_default_that_the_docs_show_is_the_one_that_counts() -> None:
    plain = TopicConfig({}, BROKER)
    for key in TopicConfig.KEYS.values():
        assert getattr(plain, key.attribute) == key.default


def test_every_topic_key_stands_for_broker_keys_that_say_so() -> None:
    for key in TopicConfig.KEYS.values():
        assert isinstance(key, TopicKey)
        assert [broker_key.topic for broker_key, _ in key.broker_keys] == [key.name] * len(key.broker_keys)
    stood_for = {broker_key.name for key in TopicConfig.KEYS.values() for broker_key, _ in key.broker_keys}
    assert stood_for == {name for name, key in BrokerConfig.KEYS.items() if key.topic is not None}


def test_a_topics_own_setting_wins() -> None:
    broker = BrokerConfig({"log.retention.ms": "5"}, {"log.segment.bytes": "50"})
    config = TopicConfig(
        {"retention.ms": "7", "segment.bytes": "70", "cleanup.policy": "compact,delete"}, broker
    )
    assert (config.retention_ms, config.segment_bytes) == (7, 70)
    assert config.cleanup_policy == ("compact", "delete")


@pytest.mark.parametrize(
    ("static", "retention_ms"),
    [
        ({}, 168 * HOUR_MS),
        ({"log.retention.hours": "2"}, 2 * HOUR_MS),
        ({"log.retention.hours": "2", "log.retention.minutes": "3"}, 180_000),
        ({"log.retention.hours": "2", "log.retention.minutes": "3", "log.retention.ms": "4"}, 4),
        ({"log.retention.hours": "-1"}, -1),
        ({"log.retention.minutes": "-3"}, -1),
        ({"log.retention.ms": "-9"}, -1),
    ],
)
def test_retention_comes_from_the_finest_unit_that_is_set(static: dict[str, str], retention_ms: int) -> None:
    assert TopicConfig({}, BrokerConfig(static)).retention_ms == retention_ms


@pytest.mark.parametrize(
    ("static", "attribute", "value"),
    [
        ({"log.roll.hours": "1"}, "segment_ms", HOUR_MS),
        ({"log.roll.hours": "1", "log.roll.ms": "9"}, "segment_ms", 9),
        ({"log.roll.jitter.hours": "1"}, "segment_jitter_ms", HOUR_MS),
        ({"log.roll.jitter.ms": "8"}, "segment_jitter_ms", 8),
        ({"log.flush.scheduler.interval.ms": "7"}, "flush_ms", 7),
        ({"log.flush.scheduler.interval.ms": "7", "log.flush.interval.ms": "6"}, "flush_ms", 6),
        ({"message.max.bytes": "5"}, "max_message_bytes", 5),
        ({"log.index.size.max.bytes": "64"}, "segment_index_bytes", 64),
    ],
)
def test_a_default_comes_from_the_brokers_synonym(static: dict[str, str], attribute: str, value: int) -> None:
    assert getattr(TopicConfig({}, BrokerConfig(static)), attribute) == value


@settings(max_examples=50)
@given(
    st.fixed_dictionaries(
        {},
        optional={
            "log.retention.hours": st.integers(1, 1000).map(str),
            "log.retention.minutes": st.integers(1, 1000).map(str),
            "log.retention.ms": st.integers(1, 1000).map(str),
        },
    ),
    st.none() | st.integers(1, 1000).map(str),
    st.none() | st.integers(0, 1000).map(str),
)
def test_the_first_synonym_described_gives_the_value(
    static: dict[str, str], dynamic: str | None, own: str | None
) -> None:
    broker = BrokerConfig(static, {} if dynamic is None else {"log.retention.ms": dynamic})
    entry = described(TopicConfig({} if own is None else {"retention.ms": own}, broker), "retention.ms")
    winner = entry.synonyms[0]
    unit = {"log.retention.hours": HOUR_MS, "log.retention.minutes": 60_000}.get(winner.name, 1)
    assert entry.source == winner.source
    assert winner.value is not None
    assert entry.value == str(int(winner.value) * unit)


def test_a_description_lists_all_places_a_value_could_come_from() -> None:
    broker = BrokerConfig({"log.retention.hours": "2"}, {"log.retention.ms": "5"})
    entry = described(TopicConfig({"retention.ms": "7"}, broker), "retention.ms")
    assert (entry.value, entry.source, entry.type_code) == ("7", ConfigSource.DYNAMIC_TOPIC_CONFIG, 5)
    assert entry.synonyms == (
        Synonym("retention.ms", "7", ConfigSource.DYNAMIC_TOPIC_CONFIG),
        Synonym("log.retention.ms", "5", ConfigSource.DYNAMIC_BROKER_CONFIG),
        Synonym("log.retention.hours", "2", ConfigSource.STATIC_BROKER_CONFIG),
        Synonym("log.retention.hours", "168", ConfigSource.DEFAULT_CONFIG),
    )
    assert not entry.read_only
    assert not entry.sensitive


def test_a_dynamic_change_of_the_broker_reaches_a_topic_that_sets_nothing() -> None:
    changed = BROKER.with_dynamic({}, {"log.retention.ms": "5"})
    assert TopicConfig({}, changed).retention_ms == 5
    assert described(TopicConfig({}, changed), "retention.ms").source is (
        ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG
    )


@pytest.mark.parametrize(
    ("overrides", "reason"),
    [
        ({"retention.ms": "-2"}, "at least -1"),
        ({"retention.ms": "soon"}, "must be a whole number, not 'soon'"),
        ({"segment.ms": "0"}, "at least 1"),
        ({"segment.bytes": "13"}, "at least 14"),
        ({"cleanup.policy": "shred"}, "a comma-separated list of compact, delete"),
        ({"compression.type": "zip"}, "one of uncompressed"),
        ({"min.insync.replicas": "0"}, "at least 1"),
        (
            {"retention.m": "1"},
            r"^Unknown topic config name: retention\.m \(.* did you mean retention\.ms\?\)",
        ),
        ({"remote.storage.enable": "true"}, r"must be false \(there is no remote storage\)"),
        ({"local.retention.ms": "5"}, r"must be -2 \(there is no remote storage\)"),
        ({"preallocate": "true"}, "must be false"),
        ({"compression.zstd.level": "23"}, "between -131072 and 22"),
        ({"compression.gzip.level": "0"}, "-1, or between 1 and 9"),
        ({"message.format.version": "3.0"}, "Kafka key not implemented by Ottla yet"),
        ({"log.roll.hours": "1"}, r"a broker key, not a topic key; a topic sets segment\.ms"),
        ({"num.partitions": "1"}, r"a broker key, not a topic key\)$"),
    ],
)
def test_what_will_not_do_is_refused_with_the_reason(overrides: dict[str, str], reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        TopicConfig(overrides, BROKER)


def test_compaction_lags_that_contradict_each_other_are_refused_on_their_way_in() -> None:
    overrides = {"min.compaction.lag.ms": "9", "max.compaction.lag.ms": "8"}
    with pytest.raises(ConfigError, match=r"is 9, more than max\.compaction\.lag\.ms \(8\)"):
        TopicConfig.checked(overrides, BROKER)


def test_a_topic_stays_readable_when_the_brokers_defaults_come_to_contradict_it() -> None:
    broker = BrokerConfig({}, {"log.cleaner.max.compaction.lag.ms": "8"})
    assert TopicConfig({"min.compaction.lag.ms": "9"}, broker).min_compaction_lag_ms == 9


def test_no_key_is_both_implemented_and_not() -> None:
    assert not TopicConfig.KEYS.keys() & TopicConfig.UNIMPLEMENTED


def test_what_has_no_effect_is_taken_at_kafkas_default() -> None:
    defaults = {
        "preallocate": "false",
        "remote.storage.enable": "false",
        "remote.log.copy.disable": "false",
        "remote.log.delete.on.disable": "false",
        "local.retention.ms": "-2",
        "local.retention.bytes": "-2",
        "compression.gzip.level": "-1",
        "compression.lz4.level": "9",
        "compression.zstd.level": "3",
    }
    config = TopicConfig.checked(defaults, BROKER)
    described = {each.name: each.value for each in config.describe()}
    assert {name: described[name] for name in defaults} == defaults
