from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.protocol.errors import InvalidRequest, KafkaError, UnsupportedVersion
from ottla.security.quota_entities import (
    CLIENT_ID,
    IP,
    MATCH_ANY,
    MATCH_DEFAULT,
    MATCH_EXACT,
    PRODUCER_BYTE_RATE,
    USER,
    FilterComponent,
    QuotaEntity,
    QuotaTable,
    address_quota,
    check_quota,
    entity_filter,
    quota_entity,
)

KEY = PRODUCER_BYTE_RATE.name
LEVELS: list[tuple[QuotaEntity, tuple[str | None, str | None]]] = [
    (((USER, "alice"), (CLIENT_ID, "app")), ("alice", "app")),
    (((USER, "alice"), (CLIENT_ID, None)), ("alice", "app")),
    (((USER, "alice"),), ("alice", None)),
    (((USER, None), (CLIENT_ID, "app")), ("alice", "app")),
    (((USER, None), (CLIENT_ID, None)), ("alice", "app")),
    (((USER, None),), ("alice", None)),
    (((CLIENT_ID, "app"),), (None, "app")),
    (((CLIENT_ID, None),), (None, "app")),
]
"""Kafka's order, the strongest first: the entity, and who shares its quota for alice's client app."""


@given(st.sets(st.integers(0, 7), min_size=1))
def test_the_strongest_of_the_eight_levels_decides(present: set[int]) -> None:
    quotas = {LEVELS[level][0]: {KEY: float(level + 1)} for level in present}
    strongest = min(present)
    assert QuotaTable(quotas, PRODUCER_BYTE_RATE).find("alice", "app") == (
        float(strongest + 1),
        LEVELS[strongest][1],
    )


def test_quotas_of_others_do_not_apply() -> None:
    quotas: dict[QuotaEntity, dict[str, float]] = {
        ((USER, "bob"),): {KEY: 1.0},
        ((CLIENT_ID, "other"),): {KEY: 2.0},
        ((USER, "alice"), (CLIENT_ID, "other")): {KEY: 3.0},
        ((USER, "alice"),): {"consumer_byte_rate": 4.0},
        ((IP, "10.0.0.1"),): {"connection_creation_rate": 5.0},
    }
    table = QuotaTable(quotas, PRODUCER_BYTE_RATE)
    assert table.find("alice", "app") is None
    assert table.find("bob", "app") == (1.0, ("bob", None))


def test_a_user_with_the_name_of_a_default_is_not_the_default() -> None:
    table = QuotaTable({((USER, None),): {KEY: 1.0}, ((USER, ""),): {KEY: 2.0}}, PRODUCER_BYTE_RATE)
    assert table.find("", "") == (2.0, ("", None))
    assert table.find("alice", "") == (1.0, ("alice", None))


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ([], "empty"),
        ([("group", "a")], "Unhandled client quota entity type"),
        ([(USER, "")], "Empty user"),
        ([(USER, "a"), (USER, "b")], "duplicate type user"),
        ([(IP, "10.0.0.1"), (USER, "a")], "IP entity should not be combined"),
        ([(IP, "not an address")], "not a valid IP"),
    ],
)
def test_entities_that_cannot_be(parts: list[tuple[str, str | None]], message: str) -> None:
    with pytest.raises(InvalidRequest, match=message):
        quota_entity(parts)


def test_an_entity_has_one_spelling() -> None:
    assert quota_entity([(CLIENT_ID, "app"), (USER, None)]) == ((USER, None), (CLIENT_ID, "app"))
    assert quota_entity([(IP, "2001:DB8:0::1")]) == ((IP, "2001:db8::1"),)


@pytest.mark.parametrize(
    ("kind", "key", "value", "message"),
    [
        (USER, "producer_rate", 1, "Invalid configuration key producer_rate"),
        (USER, "connection_creation_rate", 1, "Invalid configuration key"),
        (IP, "producer_byte_rate", 1, "Invalid configuration key"),
        (USER, "producer_byte_rate", 0, "greater than 0"),
        (USER, "producer_byte_rate", float("nan"), "greater than 0"),
        (USER, "producer_byte_rate", 1.5, "fractional"),
        (USER, "consumer_byte_rate", 1e30, "too large"),
        (IP, "connection_creation_rate", 2**31, "too large"),
    ],
)
def test_quotas_that_cannot_be(kind: str, key: str, value: float, message: str) -> None:
    with pytest.raises(InvalidRequest, match=message):
        check_quota(((kind, None),), key, value)


def test_percentages_and_change_rates_may_be_fractional() -> None:
    check_quota(((USER, "alice"),), "request_percentage", 12.5)
    check_quota(((USER, "alice"), (CLIENT_ID, None)), "controller_mutation_rate", 0.1)


ENTITIES: list[QuotaEntity] = [
    ((USER, "alice"),),
    ((USER, None),),
    ((CLIENT_ID, "app"),),
    ((USER, "alice"), (CLIENT_ID, "app")),
    ((USER, "alice"), (CLIENT_ID, None)),
    ((IP, "10.0.0.1"),),
]


@pytest.mark.parametrize(
    ("components", "strict", "found"),
    [
        ([], False, [0, 1, 2, 3, 4, 5]),
        ([], True, []),
        ([(USER, MATCH_EXACT, "alice")], False, [0, 3, 4]),
        ([(USER, MATCH_EXACT, "alice")], True, [0]),
        ([(USER, MATCH_DEFAULT, None)], False, [1]),
        ([(USER, MATCH_ANY, None)], True, [0, 1]),
        ([(USER, MATCH_ANY, None), (CLIENT_ID, MATCH_DEFAULT, None)], True, [4]),
        ([(IP, MATCH_ANY, None)], True, [5]),
    ],
)
def test_a_filter_finds_entities(
    components: list[tuple[str, int, str | None]], strict: bool, found: list[int]
) -> None:
    matches = entity_filter([FilterComponent(*each) for each in components], strict=strict)
    assert [index for index, entity in enumerate(ENTITIES) if matches(entity)] == found


@pytest.mark.parametrize(
    ("components", "error"),
    [
        ([("", MATCH_ANY, None)], InvalidRequest),
        ([("group", MATCH_ANY, None)], UnsupportedVersion),
        ([(USER, 3, None)], InvalidRequest),
        ([(USER, MATCH_EXACT, None)], InvalidRequest),
        ([(USER, MATCH_ANY, "alice")], InvalidRequest),
        ([(USER, MATCH_ANY, None), (USER, MATCH_DEFAULT, None)], InvalidRequest),
        ([(USER, MATCH_ANY, None), (IP, MATCH_ANY, None)], InvalidRequest),
    ],
)
def test_filters_that_cannot_be(
    components: list[tuple[str, int, str | None]], error: type[KafkaError]
) -> None:
    with pytest.raises(error):
        entity_filter([FilterComponent(*each) for each in components], strict=False)


def test_an_address_has_its_own_quota_or_the_default() -> None:
    rate = "connection_creation_rate"
    quotas: dict[QuotaEntity, dict[str, float]] = {
        ((IP, "10.0.0.1"),): {rate: 5.0},
        ((IP, None),): {rate: 50.0},
    }
    assert address_quota(quotas, "10.0.0.1") == 5
    assert address_quota(quotas, "10.0.0.2") == 50
    assert address_quota({}, "10.0.0.1") is None
