"""How long a new connection waits, by the rates of the broker and of its listener."""

from __future__ import annotations

from ottla.common.units import MAX_INT
from ottla.security.connection_rates import ConnectionRates
from ottla.security.quota_rates import QuotaWindows

ONE_WINDOW = QuotaWindows(1, 1_000)


def rates(broker: int, protected: str | None = None, **listeners: int) -> ConnectionRates:
    made = ConnectionRates(ONE_WINDOW)
    made.change_rates(broker, listeners, protected, 0)
    return made


def test_without_a_rate_nothing_waits() -> None:
    free = rates(MAX_INT, CLIENTS=MAX_INT)
    assert {free.connected("CLIENTS", 0) for _ in range(1_000)} == {0}


def test_connections_over_the_rate_wait_one_after_another() -> None:
    limited = rates(10)
    assert [limited.connected("A", 0) for _ in range(12)] == [0] * 10 + [100, 200]
    assert limited.connected("B", 200) == 100, "all listeners together"
    assert limited.connected("B", 5_000) == 0


def test_a_listener_has_a_rate_of_its_own_and_the_longer_time_counts() -> None:
    both = rates(10, CLIENTS=2)
    assert [both.connected("CLIENTS", 0) for _ in range(4)] == [0, 0, 500, 1_000]
    assert both.connected("OTHER", 0) == 0


def test_the_listener_between_brokers_does_not_wait_for_clients() -> None:
    shared = rates(1, protected="BROKERS", BROKERS=2)
    assert [shared.connected("CLIENTS", 0) for _ in range(5)][-1] == 4_000
    assert [shared.connected("BROKERS", 0) for _ in range(3)] == [0, 0, 500]


def test_a_changed_rate_keeps_what_was_measured() -> None:
    limited = rates(10)
    for _ in range(20):
        limited.connected("A", 0)
    limited.change_rates(100, {}, None, 0)
    assert limited.connected("A", 0) == 110
    limited.change_rates(MAX_INT, {}, None, 0)
    assert limited.connected("A", 0) == 0
