from collections.abc import Sequence
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.common.config.broker import BrokerConfig
from ottla.controller import machine
from ottla.controller.machine import ConfigAlteration, ConfigChange, ConfigOperation, NewTopic
from ottla.metadata.image import EMPTY, ClusterImage
from ottla.metadata.records import BrokerRegistered, ConfigChanged, ConfigResource
from ottla.protocol.errors import InvalidConfig, InvalidRequest, KafkaError, UnknownTopicOrPartition

CONFIG = BrokerConfig({"node.id": "1"})
SET, DELETE, APPEND, SUBTRACT = ConfigOperation
TOPIC, BROKER = ConfigResource.TOPIC, ConfigResource.BROKER


def cluster() -> ClusterImage:
    image = EMPTY.apply([BrokerRegistered(1, 1, None, ()), BrokerRegistered(2, 1, None, ())])
    created = machine.create_topics(
        image,
        [
            NewTopic("orders", configs=(("retention.ms", "5"), ("segment.bytes", "2000000"))),
            NewTopic("users"),
        ],
        [UUID(int=1), UUID(int=2)],
        CONFIG,
    )
    return image.apply(created.records)


def change(key: str, value: str | None, operation: int = SET) -> ConfigChange:
    return ConfigChange(key, value, operation)


def altered(
    image: ClusterImage, *changes: ConfigChange, name: str = "orders", kind: int = TOPIC
) -> ClusterImage:
    decision = machine.alter_configs(image, [ConfigAlteration(kind, name, changes)], CONFIG)
    assert decision.results == (None,)
    return image.apply(decision.records)


def refusal(*changes: ConfigChange, name: str = "orders", kind: int = TOPIC) -> KafkaError:
    decision = machine.alter_configs(cluster(), [ConfigAlteration(kind, name, changes)], CONFIG)
    assert decision.records == ()
    (error,) = decision.results
    assert isinstance(error, KafkaError)
    return error


def test_setting_one_config_leaves_the_others() -> None:
    image = altered(cluster(), change("retention.ms", "7"))
    assert image.topic_overrides("orders") == {"retention.ms": "7", "segment.bytes": "2000000"}


def test_deleting_a_config_resets_it_and_deleting_what_is_not_set_does_nothing() -> None:
    image = altered(
        cluster(), change("retention.ms", None, DELETE), change("max.message.bytes", None, DELETE)
    )
    assert image.topic_overrides("orders") == {"segment.bytes": "2000000"}


def test_a_change_to_the_value_it_has_writes_no_record() -> None:
    alteration = ConfigAlteration(TOPIC, "orders", (change("retention.ms", "5"),))
    assert machine.alter_configs(cluster(), [alteration], CONFIG).records == ()


def test_lists_are_appended_to_and_subtracted_from() -> None:
    image = altered(cluster(), change("cleanup.policy", "compact", APPEND))
    assert image.topic_overrides("orders")["cleanup.policy"] == "delete,compact"
    image = altered(image, change("cleanup.policy", "compact,delete", APPEND))
    assert image.topic_overrides("orders")["cleanup.policy"] == "delete,compact"
    image = altered(image, change("cleanup.policy", "delete", SUBTRACT))
    assert image.topic_overrides("orders")["cleanup.policy"] == "compact"


policies = st.lists(st.sampled_from(["compact", "delete"]), min_size=1, max_size=2, unique=True)


@settings(max_examples=60, deadline=None)
@given(policies, policies)
def test_append_and_subtract_are_union_and_difference(current: list[str], operand: list[str]) -> None:
    image = altered(cluster(), change("cleanup.policy", ",".join(current)))
    grown = altered(image, change("cleanup.policy", ",".join(operand), APPEND))
    assert set(grown.topic_overrides("orders")["cleanup.policy"].split(",")) == {*current, *operand}
    left = [each for each in current if each not in operand]
    if left:
        shrunk = altered(image, change("cleanup.policy", ",".join(operand), SUBTRACT))
        assert shrunk.topic_overrides("orders")["cleanup.policy"] == ",".join(left)


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ([change("retention.mss", "5")], InvalidConfig),
        ([change("retention.ms", "soon")], InvalidConfig),
        ([change("log.retention.ms", "5")], InvalidConfig),
        ([change("retention.ms", "5", APPEND)], InvalidConfig),
        ([change("retention.ms", "5", SUBTRACT)], InvalidConfig),
        ([change("cleanup.policy", "sometimes", APPEND)], InvalidConfig),
        ([change("min.compaction.lag.ms", "5"), change("max.compaction.lag.ms", "4")], InvalidConfig),
        ([change("retention.ms", None)], InvalidRequest),
        ([change("cleanup.policy", None, APPEND)], InvalidRequest),
        ([change("retention.ms", "5", 4)], InvalidRequest),
        ([change("retention.ms", "5", -1)], InvalidRequest),
        ([change("retention.ms", "5"), change("retention.ms", "6")], InvalidRequest),
    ],
)
def test_a_change_to_a_topic_that_will_not_do_is_refused(
    changes: Sequence[ConfigChange], error: type[KafkaError]
) -> None:
    refused = refusal(*changes)
    assert type(refused) is error
    assert changes[0].key in str(refused)


def test_one_bad_key_keeps_the_good_ones_of_its_resource_from_happening() -> None:
    decision = machine.alter_configs(
        cluster(),
        [
            ConfigAlteration(TOPIC, "orders", (change("retention.ms", "7"), change("segment.bytes", "x"))),
            ConfigAlteration(TOPIC, "users", (change("retention.ms", "8"),)),
        ],
        CONFIG,
    )
    assert isinstance(decision.results[0], InvalidConfig)
    assert decision.results[1] is None
    assert decision.records == (ConfigChanged(TOPIC, "users", "retention.ms", "8"),)


@pytest.mark.parametrize(
    ("kind", "name", "error"),
    [
        (TOPIC, "nothing", UnknownTopicOrPartition),
        (BROKER, "3", InvalidRequest),
        (BROKER, "one", InvalidRequest),
        (BROKER, "-1", InvalidRequest),
        (BROKER, "١", InvalidRequest),
        (ConfigResource.BROKER_LOGGER, "1", InvalidRequest),
        (0, "orders", InvalidRequest),
        (16, "", InvalidRequest),
        (32, "", InvalidRequest),
    ],
)
def test_a_resource_that_has_no_configs_is_refused(kind: int, name: str, error: type[KafkaError]) -> None:
    assert type(refusal(change("retention.ms", "5"), name=name, kind=kind)) is error


def test_a_resource_named_twice_is_refused_each_time() -> None:
    alterations = [ConfigAlteration(TOPIC, name, ()) for name in ("orders", "users", "orders")]
    refused = machine.check_alterations(alterations)
    assert [type(each) for each in refused] == [InvalidRequest, type(None), InvalidRequest]


def test_dynamic_broker_configs_are_set_for_one_broker_and_for_all() -> None:
    image = altered(cluster(), change("log.retention.ms", "6"), name="1", kind=BROKER)
    image = altered(image, change("log.retention.ms", "7"), name="", kind=BROKER)
    assert image.broker_overrides(1) == {"log.retention.ms": "6"}
    assert image.broker_overrides() == {"log.retention.ms": "7"}
    again = altered(image, change("log.retention.ms", "8"), name="01", kind=BROKER)
    assert again.broker_overrides(1) == {"log.retention.ms": "8"}


@pytest.mark.parametrize("name", ["", "1", "2"])
@pytest.mark.parametrize(
    "bad",
    [
        change("log.dirs", "/elsewhere"),
        change("node.id", "7"),
        change("num.partitions", "7"),
        change("log.retention.ms", "soon"),
        change("log.retention.mss", "7"),
        change("retention.ms", "7"),
    ],
)
def test_read_only_unknown_and_bad_broker_configs_are_refused(name: str, bad: ConfigChange) -> None:
    assert type(refusal(bad, name=name, kind=BROKER)) is InvalidRequest


def test_broker_configs_that_do_not_go_together_are_refused() -> None:
    bad = [change("log.cleaner.min.compaction.lag.ms", "9"), change("log.cleaner.max.compaction.lag.ms", "8")]
    assert type(refusal(*bad, name="1", kind=BROKER)) is InvalidRequest
    assert type(refusal(*bad, name="", kind=BROKER)) is InvalidRequest


def test_replacing_resets_every_config_that_is_not_named() -> None:
    alteration = ConfigAlteration(TOPIC, "orders", (change("segment.bytes", "3000000"),))
    decision = machine.replace_configs(cluster(), [alteration], CONFIG)
    assert decision.results == (None,)
    assert cluster().apply(decision.records).topic_overrides("orders") == {"segment.bytes": "3000000"}
    cleared = machine.replace_configs(cluster(), [ConfigAlteration(TOPIC, "orders", ())], CONFIG)
    assert cluster().apply(cleared.records).topic_overrides("orders") == {}


def test_replacing_with_a_bad_config_resets_nothing() -> None:
    alteration = ConfigAlteration(TOPIC, "orders", (change("segment.bytes", "x"),))
    decision = machine.replace_configs(cluster(), [alteration], CONFIG)
    assert decision.records == ()
    assert isinstance(decision.results[0], InvalidConfig)
    no_value = ConfigAlteration(TOPIC, "orders", (change("segment.bytes", None),))
    assert isinstance(machine.replace_configs(cluster(), [no_value], CONFIG).results[0], InvalidRequest)


def test_a_key_that_an_older_ottla_left_behind_can_still_be_deleted() -> None:
    image = cluster().apply([ConfigChanged(TOPIC, "orders", "old.key", "1")])
    image = altered(image, change("old.key", None, DELETE))
    assert "old.key" not in image.topic_overrides("orders")
