"""The descriptor limit, divided among log files, clients and brokers."""

from __future__ import annotations

import pytest

from ottla.broker.settings import OTHER_DESCRIPTORS, connection_places, network_limits
from ottla.common.config.broker import BrokerConfig
from ottla.common.units import MAX_INT


@pytest.mark.parametrize(
    ("descriptors", "clients", "brokers"),
    [
        (113, 33, 16),
        (768, 616, 88),
        (100_000, 98_936, 1_000),
        (MAX_INT, MAX_INT - 1_064, 1_000),
        (10, 1, 1),
    ],
)
def test_brokers_have_a_reserve_within_the_descriptor_limit(
    descriptors: int, clients: int, brokers: int
) -> None:
    assert connection_places(descriptors, is_alone=False) == (clients, brokers)
    assert clients + brokers == max(2, descriptors - OTHER_DESCRIPTORS)


def test_a_broker_alone_needs_no_reserve() -> None:
    assert connection_places(768, is_alone=True) == (704, 0)
    assert network_limits(BrokerConfig({"zookeeper.connect": "z:2181"})).broker_reserve > 0
    limits = network_limits(BrokerConfig({"max.connections": "7"}))
    assert (limits.max_connections, limits.broker_reserve) == (7, 0)
    assert limits.max_connections_per_ip == MAX_INT
