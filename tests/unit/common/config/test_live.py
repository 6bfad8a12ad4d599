"""The configuration in force, and the parts that subscribe to it."""

from __future__ import annotations

import logging

import pytest

from ottla.common.config.broker import BrokerConfig
from ottla.common.config.live import LiveConfig


def live_config() -> LiveConfig:
    return LiveConfig(BrokerConfig({}))


def test_a_subscriber_is_called_at_once_and_on_every_change_of_its_key() -> None:
    live, values = live_config(), list[int]()
    live.subscribe(BrokerConfig.max_connections, values.append)
    live.update({}, {"max.connections": "7"})
    live.update({"max.connections": "8"}, {"max.connections": "7"})
    live.update({"max.connections": "8"}, {"max.connections": "9"})
    live.update({}, {})
    assert values == [2**31 - 1, 7, 8, 2**31 - 1]


def test_what_was_changed_before_a_part_subscribed_is_not_lost() -> None:
    live, values = live_config(), list[int]()
    live.update({}, {"max.connections": "7"})
    live.subscribe(BrokerConfig.max_connections, values.append)
    assert values == [7]


def test_a_subscriber_to_several_keys_gets_the_whole_configuration() -> None:
    live, seen = live_config(), list[tuple[int, int]]()
    keys = (BrokerConfig.max_connections, BrokerConfig.max_connections_per_ip)
    live.subscribe_to(
        keys, lambda config: seen.append((config.max_connections, config.max_connections_per_ip))
    )
    live.update({}, {"max.connections": "7", "max.connections.per.ip": "5"})
    live.update({}, {"max.connections": "7", "max.connections.per.ip": "5", "message.max.bytes": "100"})
    assert seen == [(2**31 - 1, 2**31 - 1), (7, 5)]


def test_settings_that_do_not_fit_leave_the_configuration_as_it_is(
    caplog: pytest.LogCaptureFixture,
) -> None:
    live, values = live_config(), list[int]()
    live.subscribe(BrokerConfig.max_connections, values.append)
    live.update({}, {"max.connections": "7"})
    live.update({}, {"max.connections": "8", "node.id": "3"})
    assert live.current.max_connections == 7
    assert values == [2**31 - 1, 7]
    assert "node.id" in caplog.text


def test_a_subscriber_that_fails_keeps_no_change_from_the_others(caplog: pytest.LogCaptureFixture) -> None:
    live, values = live_config(), list[int]()

    def fail(value: int) -> None:
        if value == 7:
            raise RuntimeError("out of order")

    live.subscribe(BrokerConfig.max_connections, fail)
    live.subscribe(BrokerConfig.max_connections, values.append)
    with caplog.at_level(logging.ERROR):
        live.update({}, {"max.connections": "7"})
    assert values[-1] == 7
    assert "a change of max_connections was not applied" in caplog.text


def test_there_are_no_changes_of_a_read_only_key_to_subscribe_to() -> None:
    with pytest.raises(ValueError, match=r"node\.id is read-only"):
        live_config().subscribe(BrokerConfig.node_id, print)
