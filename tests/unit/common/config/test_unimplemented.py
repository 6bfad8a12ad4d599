"""The list of Kafka's keys that are refused."""

import re

from ottla.common.config.broker import BrokerConfig
from ottla.common.config.topic import TopicConfig
from ottla.common.config.unimplemented import (
    KAFKA_DEFAULTS,
    UNIMPLEMENTED_BROKER_KEYS,
    UNIMPLEMENTED_PREFIXES,
    UNIMPLEMENTED_TOPIC_KEYS,
)

LISTED = {*UNIMPLEMENTED_BROKER_KEYS, *UNIMPLEMENTED_TOPIC_KEYS, *KAFKA_DEFAULTS}


def test_every_name_on_the_list_is_a_key() -> None:
    names = {*LISTED, *(prefix.rstrip(".") for prefix in UNIMPLEMENTED_PREFIXES)}
    assert [name for name in names if not re.fullmatch(r"[a-zA-Z0-9]+([.-][a-zA-Z0-9]+)*", name)] == []


def test_no_key_that_is_declared_is_on_the_list() -> None:
    assert UNIMPLEMENTED_BROKER_KEYS & BrokerConfig.KEYS.keys() == set()
    assert UNIMPLEMENTED_TOPIC_KEYS & TopicConfig.KEYS.keys() == set()
