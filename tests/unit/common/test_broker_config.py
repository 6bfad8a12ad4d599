"""The broker's configuration: Kafka's defaults, layers, descriptions, cross checks."""

import pytest

from ottla.common.config.broker import BrokerConfig, check_dynamic_broker_config
from ottla.common.config.declaration import ConfigEntry, ConfigError, ConfigSource, Synonym, Update

DEFAULT = ConfigSource.DEFAULT_CONFIG
STATIC = ConfigSource.STATIC_BROKER_CONFIG
DYNAMIC = ConfigSource.DYNAMIC_BROKER_CONFIG
DYNAMIC_DEFAULT = ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG

KAFKA_DEFAULTS = {
    "auto.create.topics.enable": "true",
    "compression.type": "producer",
    "connections.max.idle.ms": "600000",
    "default.replication.factor": "1",
    "delete.topic.enable": "true",
    "fetch.max.bytes": "57671680",
    "log.cleaner.backoff.ms": "15000",
    "log.cleaner.dedupe.buffer.size": "134217728",
    "log.cleaner.delete.retention.ms": "86400000",
    "log.cleaner.io.buffer.load.factor": "0.9",
    "log.cleaner.min.cleanable.ratio": "0.5",
    "log.cleanup.policy": "delete",
    "log.flush.interval.messages": "9223372036854775807",
    "log.flush.interval.ms": None,
    "log.flush.offset.checkpoint.interval.ms": "60000",
    "log.index.interval.bytes": "4096",
    "log.index.size.max.bytes": "10485760",
    "log.message.timestamp.after.max.ms": "3600000",
    "log.message.timestamp.before.max.ms": "9223372036854775807",
    "log.message.timestamp.type": "CreateTime",
    "log.retention.bytes": "-1",
    "log.retention.check.interval.ms": "300000",
    "log.retention.hours": "168",
    "log.retention.ms": None,
    "log.roll.hours": "168",
    "log.segment.bytes": "1073741824",
    "log.segment.delete.delay.ms": "60000",
    "max.incremental.fetch.session.cache.slots": "1000",
    "max.request.partition.size.limit": "2000",
    "message.max.bytes": "1048588",
    "min.insync.replicas": "1",
    "num.partitions": "1",
    "producer.id.expiration.ms": "86400000",
    "queued.max.requests": "500",
    "socket.receive.buffer.bytes": "102400",
    "socket.send.buffer.bytes": "102400",
    "unclean.leader.election.enable": "false",
}


def described(config: BrokerConfig, name: str) -> ConfigEntry:
    return next(entry for entry in config.describe() if entry.name == name)


@pytest.mark.parametrize(("name", "value"), KAFKA_DEFAULTS.items())
def test_a_default_is_that_of_kafka(name: str, value: str | None) -> None:
    assert described(BrokerConfig({}), name).value == value
    assert BrokerConfig.KEYS[name].kafka_default is None


@pytest.mark.parametrize(
    ("name", "ours", "kafkas"),
    [
        ("socket.request.max.bytes", "16777216", "104857600"),
        ("queued.max.request.bytes", "268435456", "-1"),
        ("listeners", "PLAINTEXT://127.0.0.1:9092", "PLAINTEXT://:9092"),
        ("log.dir", "./ottla-data", "/tmp/kafka-logs"),
    ],
)
def test_a_default_that_differs_from_kafkas_says_so(name: str, ours: str, kafkas: str) -> None:
    assert described(BrokerConfig({}), name).value == ours
    assert BrokerConfig.KEYS[name].kafka_default == kafkas


def test_every_default_passes_its_own_check() -> None:
    for key in BrokerConfig.KEYS.values():
        if key.default is not None:
            assert key.parse(key.kind.write(key.default)) == key.default


def test_no_key_is_both_implemented_and_not() -> None:
    assert not BrokerConfig.KEYS.keys() & BrokerConfig.UNIMPLEMENTED
    assert not [name for name in BrokerConfig.KEYS if name.startswith(BrokerConfig.UNIMPLEMENTED_PREFIXES)]


def test_values_are_typed_attributes() -> None:
    config = BrokerConfig({"message.max.bytes": "2000000", "auto.create.topics.enable": "False"})
    assert config.message_max_bytes == 2_000_000
    assert config.auto_create_topics_enable is False
    assert config.broker_rack is None


def test_a_config_never_changes() -> None:
    with pytest.raises(AttributeError, match="build a new one"):
        BrokerConfig({}).num_partitions = 3  # type: ignore[assignment]


def test_a_value_is_read_from_the_instance_without_resolving_it_again() -> None:
    config = BrokerConfig({"num.partitions": "6"})
    assert vars(config)["num_partitions"] == 6


def test_the_strongest_layer_wins() -> None:
    static = {"message.max.bytes": "1"}
    assert BrokerConfig(static).message_max_bytes == 1
    assert BrokerConfig(static, {}, {"message.max.bytes": "2"}).message_max_bytes == 2
    both = BrokerConfig(static, {"message.max.bytes": "3"}, {"message.max.bytes": "2"})
    assert both.message_max_bytes == 3
    assert both.with_dynamic({}, {}).message_max_bytes == 1


def test_a_description_lists_every_layer_the_winner_first() -> None:
    config = BrokerConfig({"message.max.bytes": "1"}, {"message.max.bytes": "3"}, {"message.max.bytes": "2"})
    entry = described(config, "message.max.bytes")
    assert (entry.value, entry.source, entry.read_only, entry.type_code) == ("3", DYNAMIC, False, 3)
    assert entry.synonyms == (
        Synonym("message.max.bytes", "3", DYNAMIC),
        Synonym("message.max.bytes", "2", DYNAMIC_DEFAULT),
        Synonym("message.max.bytes", "1", STATIC),
        Synonym("message.max.bytes", "1048588", DEFAULT),
    )


def test_a_key_that_cannot_change_at_run_time_is_described_as_read_only() -> None:
    assert described(BrokerConfig({}), "num.partitions").read_only
    assert not described(BrokerConfig({}), "log.retention.ms").read_only


def test_hours_are_a_synonym_of_milliseconds_but_not_the_reverse() -> None:
    config = BrokerConfig({"log.retention.hours": "24"})
    by_ms = described(config, "log.retention.ms")
    assert (by_ms.value, by_ms.source) == (None, DEFAULT)
    assert [each.name for each in by_ms.synonyms] == ["log.retention.hours"] * 2
    by_hours = described(BrokerConfig({"log.retention.ms": "5"}), "log.retention.hours")
    assert (by_hours.value, by_hours.source) == ("168", DEFAULT)


def test_the_clusters_description_holds_only_what_is_set_for_the_cluster() -> None:
    config = BrokerConfig({"num.partitions": "3"}, {"log.segment.bytes": "99"}, {"log.retention.ms": "5"})
    (entry,) = config.describe_cluster_defaults()
    assert (entry.name, entry.value, entry.source) == ("log.retention.ms", "5", DYNAMIC_DEFAULT)


def test_every_key_is_described_once_with_its_meaning() -> None:
    entries = BrokerConfig({}).describe()
    assert [entry.name for entry in entries] == list(BrokerConfig.KEYS)
    assert all(entry.documentation.endswith(".") for entry in entries)


@pytest.mark.parametrize("name", ["node.id", "broker.id"])
def test_either_id_sets_both(name: str) -> None:
    config = BrokerConfig({name: "7"})
    assert (config.node_id, config.broker_id) == (7, 7)


def test_ids_that_disagree_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"node\.id: is 1, but broker\.id is 2"):
        BrokerConfig({"node.id": "1", "broker.id": "2"})


def test_log_dirs_wins_over_log_dir() -> None:
    assert BrokerConfig({}).data_directory == "./ottla-data"
    assert BrokerConfig({"log.dir": "/a"}).data_directory == "/a"
    assert BrokerConfig({"log.dir": "/a", "log.dirs": "/b"}).data_directory == "/b"


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"log.dirs": "/a,/b,/a/"}, "names a directory twice"),
        ({"log.dirs": ""}, "names no directory"),
        ({"log.dir": " "}, "names no directory"),
        ({"log.cleaner.dedupe.buffer.size": "1048576"}, "more than 1 MiB per cleaner thread"),
        ({"log.cleaner.dedupe.buffer.size": "9000000", "log.cleaner.threads": "9"}, "per cleaner thread"),
        (
            {"log.cleaner.min.compaction.lag.ms": "2", "log.cleaner.max.compaction.lag.ms": "1"},
            r"must not exceed log\.cleaner\.max\.compaction\.lag\.ms",
        ),
        ({"log.retention.ms": "0"}, "negative .no limit. or at least 1"),
        ({"log.segment.bytes": "13"}, "at least 14"),
        ({"log.cleanup.policy": "delete,shred"}, "a comma-separated list of compact, delete"),
        ({"compression.type": "zip"}, "one of uncompressed, zstd, lz4, snappy, gzip, producer"),
        ({"log.message.timestamp.type": "createtime"}, "one of CreateTime, LogAppendTime"),
        ({"log.cleaner.min.cleanable.ratio": "1.1"}, "between 0 and 1"),
        ({"fetch.max.bytes": "1023"}, "at least 1024"),
        ({"node.id": "-1"}, "at least 0"),
        ({"num.io.threads": "9"}, "Kafka key not implemented by Ottla yet; only '8' is accepted"),
        ({"sasl.kerberos.kinit.cmd": "/bin/x"}, "Kafka key not implemented by Ottla yet"),
        ({"zookeeper.max.in.flight.requests": "9"}, "Kafka key not implemented by Ottla yet"),
        ({"listener.name.internal.ssl.keystore.location": "x"}, "no listener is called INTERNAL; there is"),
        ({"listener.name.plaintext.ssl.keystor.location": "x"}, r"did you mean ssl\.keystore\.location\?"),
        ({"listener.name.plaintext.num.partitions": "3"}, "cannot be set for one listener"),
        (
            {"listener.name.plaintext.sasl.jaas.config": "x"},
            r"is set for one mechanism, such as listener\.name\.plaintext\.scram-sha-512\.sasl\.jaas\.config",
        ),
        ({"log.retention.msec": "1"}, r"did you mean log\.retention\.ms\?"),
        ({"segment.ms": "1"}, r"a topic key, not a broker key; a broker sets its default with log\.roll\.ms"),
    ],
)
def test_what_will_not_do_is_refused_with_the_reason(settings: dict[str, str], reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        BrokerConfig(settings)


def test_listeners_are_parsed_with_the_config() -> None:
    (listener,) = BrokerConfig({"listeners": "PLAINTEXT://localhost:0"}).listener_list
    assert (listener.name, listener.host, listener.port) == ("PLAINTEXT", "localhost", 0)


def test_a_read_only_key_cannot_be_set_dynamically() -> None:
    with pytest.raises(ConfigError, match="cannot be changed while the broker runs"):
        check_dynamic_broker_config({"num.partitions": "3"}, per_broker=True)
    with pytest.raises(ConfigError, match="cannot be changed while the broker runs"):
        BrokerConfig({}, {}, {"listeners": "PLAINTEXT://:1"})


def test_a_dynamic_value_is_checked_like_a_static_one() -> None:
    with pytest.raises(ConfigError, match="at least 14"):
        check_dynamic_broker_config({"log.segment.bytes": "1"}, per_broker=False)


def test_what_can_change_at_run_time_is_what_kafka_lets_change() -> None:
    read_only = {name for name, key in BrokerConfig.KEYS.items() if key.update is Update.READ_ONLY}
    assert {"log.retention.hours", "log.retention.minutes", "log.roll.hours", "num.partitions"} <= read_only
    assert (
        not {"log.retention.ms", "min.insync.replicas", "max.connections", "log.cleaner.threads"} & read_only
    )


def test_keys_without_effect_are_taken_at_kafkas_default_everywhere() -> None:
    some = {"background.threads": "10", "sasl.kerberos.ticket.renew.jitter": " 0.05 "}
    config = BrokerConfig({**BrokerConfig.KAFKA_DEFAULTS}, some, some)
    assert config.describe_cluster_defaults() == []
    assert not BrokerConfig.KEYS.keys() & BrokerConfig.KAFKA_DEFAULTS.keys()
    prefixes = BrokerConfig.UNIMPLEMENTED_PREFIXES
    for name in BrokerConfig.KAFKA_DEFAULTS:
        assert name in BrokerConfig.UNIMPLEMENTED or name.startswith(prefixes)
