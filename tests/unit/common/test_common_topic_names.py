"""Topic names."""

import pytest

from ottla.common.topic_names import (
    INTERNAL_TOPICS,
    find_collision,
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
    assert find_collision("a.b", ["x", "a_b"]) == "a_b"
    assert find_collision("a_b.c", ["a.b_c"]) == "a.b_c"


def test_a_name_does_not_collide_with_itself_or_with_others() -> None:
    assert find_collision("a.b", ["a.b", "a-b", "ab"]) is None
    assert find_collision("ab", ["a.b"]) is None


def test_the_brokers_own_topics_are_internal() -> None:
    assert is_internal("__consumer_offsets")
    assert not is_internal("orders")
