"""Topic names."""

import pytest

from ottla.common.topic_names import (
    INTERNAL_TOPICS,
    collision_key,
    is_internal,
    is_legal,
    why_illegal,
)


@pytest.mark.parametrize("name", ["a", "A-z_0.9", "...", "x" * 249, *sorted(INTERNAL_TOPICS)])
def test_a_legal_name(name: str) -> None:
    assert is_legal(name)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("", "empty"),
        (".", "cannot be '.'"),
        ("..", "cannot be '..'"),
        ("x" * 250, "at most 249 characters, not 250"),
        ("a b", "characters other than"),
        ("a/b", "characters other than"),
        ("é", "characters other than"),
        ("a\n", "characters other than"),
    ],
)
def test_an_illegal_name_and_why(name: str, reason: str) -> None:
    assert reason in (why_illegal(name) or "")


def test_names_that_differ_only_in_dots_and_underscores_collide() -> None:
    assert collision_key("a.b") == collision_key("a_b")
    assert collision_key("a_b.c") == collision_key("a.b_c")
    assert len({collision_key(name) for name in ("a.b", "a-b", "ab")}) == 3


def test_the_brokers_own_topics_are_internal() -> None:
    assert is_internal("__consumer_offsets")
    assert not is_internal("orders")
