"""The keys of the group coordinator."""

import pytest

from ottla.common.config.broker import BrokerConfig
from ottla.common.config.declaration import ConfigError


def test_the_defaults_are_kafkas_except_for_the_size_of_a_group() -> None:
    config = BrokerConfig({})
    assert (config.offsets_topic_num_partitions, config.offsets_topic_replication_factor) == (50, 3)
    assert config.offsets_retention_minutes == 7 * 24 * 60
    assert config.group_initial_rebalance_delay_ms == 3000
    assert (config.group_min_session_timeout_ms, config.group_max_session_timeout_ms) == (6000, 1_800_000)
    assert config.group_consumer_assignors == ("uniform", "range")
    assert (config.group_max_size, config.group_consumer_max_size) == (1000, 1000)


@pytest.mark.parametrize(
    ("settings", "key"),
    [
        (
            {"group.min.session.timeout.ms": "10", "group.max.session.timeout.ms": "9"},
            "group.min.session.timeout.ms",
        ),
        ({"group.consumer.session.timeout.ms": "44999"}, "group.consumer.min.session.timeout.ms"),
        ({"group.consumer.session.timeout.ms": "60001"}, "group.consumer.session.timeout.ms"),
        ({"group.consumer.heartbeat.interval.ms": "20000"}, "group.consumer.heartbeat.interval.ms"),
        ({"offsets.topic.compression.codec": "5"}, "offsets.topic.compression.codec"),
        ({"group.consumer.assignors": "uniform,mine"}, "group.consumer.assignors"),
        ({"group.consumer.migration.policy": "sideways"}, "group.consumer.migration.policy"),
    ],
)
def test_values_that_contradict_each_other_are_refused(settings: dict[str, str], key: str) -> None:
    with pytest.raises(ConfigError) as refused:
        BrokerConfig(settings)
    assert refused.value.key == key
