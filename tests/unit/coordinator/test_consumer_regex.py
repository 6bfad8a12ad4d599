"""Regular expressions over topic names: what Python's own engine says is right, and nothing is slow."""

import random
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.coordinator.group.regex import matching
from ottla.protocol.errors import InvalidRegularExpression

names = st.text(st.sampled_from("ab1_-."), min_size=1, max_size=8)


def joined(parts: list[str]) -> str:
    return "".join(parts)


atoms = st.one_of(
    st.sampled_from(["a", "b", "1", "_", "-", r"\.", ".", r"\d", r"\w", r"\W", r"\b", r"\B", "^", "$"]),
    st.sampled_from(["[ab]", "[^a]", "[a-b1]", "[-a]", r"[\d_]", r"[^\w]", "(?i:A)", "(?:)", "x{0}"]),
)
patterns = st.recursive(
    atoms,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3).map(joined),
        st.lists(inner, min_size=2, max_size=3).map("|".join).map("({})".format),
        st.tuples(inner, st.sampled_from(["*", "+", "?", "*?", "{2}", "{0,2}", "{1,}"])).map(
            lambda each: f"(?:{each[0]}){each[1]}"
        ),
    ),
    max_leaves=6,
)


@given(patterns, st.lists(names, max_size=6))
@settings(max_examples=400)
def test_the_same_names_match_as_with_pythons_engine(pattern: str, topics: list[str]) -> None:
    expected = {name for name in topics if re.fullmatch(pattern, name)}
    assert matching(pattern, topics) == expected


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("orders", {"orders"}),
        ("orders.*", {"orders", "orders-eu", "orders.us"}),
        ("^orders.*$", {"orders", "orders-eu", "orders.us"}),
        (r"\Aorders\z", {"orders"}),
        (r"orders\..+", {"orders.us"}),
        ("(?i)ORDERS", {"orders"}),
        ("(?i)o(?-i)RDERS", set()),
        ("(?i:O)rders", {"orders"}),
        ("(?P<name>orders)", {"orders"}),
        ("(?<name>orders)", {"orders"}),
        ("(?s).*eu", {"orders-eu"}),
        (r"\Qorders.us\E", {"orders.us"}),
        (r"\Qorders.us", {"orders.us"}),
        ("[[:alpha:]]+", {"orders", "payments"}),
        ("[^[:lower:]]+", set()),
        ("[[:^punct:]]+", {"orders", "payments"}),
        (r"\p{Ll}+", {"orders", "payments"}),
        (r"\pL+", {"orders", "payments"}),
        (r"\PP+", {"orders", "payments"}),
        (r"\x6frders", {"orders"}),
        (r"\x{6f}rders", {"orders"}),
        ("orders|payments", {"orders", "payments"}),
        ("", set()),
        ("a{,2}", set()),
        ("[]a]rders", set()),
        (r"orders\b.+", {"orders-eu", "orders.us"}),
        ("käse", set()),
    ],
)
def test_what_re2_accepts_is_accepted(pattern: str, expected: set[str]) -> None:
    topics = ["orders", "orders-eu", "orders.us", "payments"]
    assert matching(pattern, topics) == expected


@pytest.mark.parametrize(
    "pattern",
    [
        "(",
        ")",
        "a)",
        "(a",
        "[a",
        "[b-a]",
        r"[\d-z]",
        "*",
        "a**",
        "a+*",
        "a{2}{3}",
        "a{2,1}",
        "a{1001}",
        "a" + "\\",
        r"(a)\1",
        "a(?=b)",
        "a(?!b)",
        "(?<=a)b",
        "(?<!a)b",
        "(?>a)",
        "(?P<1>a)",
        "(?x)a",
        "(?P=name)",
        r"\p{Klingon}",
        r"\xZZ",
        r"\x{110000}",
        r"\y",
        "[[:what:]]",
        "(" * 101 + ")" * 101,
        "a" * 10_001,
        "((a{0,100}){0,100}){0,100}",
        "(((){1000}){1000}){1000}",
    ],
)
def test_what_re2_refuses_and_what_is_too_large_is_refused(pattern: str) -> None:
    with pytest.raises(InvalidRegularExpression):
        matching(pattern, ["a"])


@pytest.mark.timeout(10)
@pytest.mark.parametrize("pattern", ["(a*)*b", "(a|a)*b", "(.*a){30}", "(a?){60}a{60}", "(.*.*.*){40}x"])
def test_patterns_that_stop_a_backtracking_engine_do_not_stop_this_one(pattern: str) -> None:
    topics = ["a" * 249] + [f"{'a' * 40}{i}" for i in range(500)]
    assert matching(pattern, topics) <= set(topics)


def test_a_pattern_that_needs_ever_new_states_is_refused_after_a_limited_amount_of_work() -> None:
    # After every name the last 60 characters matter: more states than anybody could make.
    dice = random.Random(1)
    topics = ["".join(dice.choices("ab", k=240)) for _ in range(2000)]
    with pytest.raises(InvalidRegularExpression, match="too expensive"):
        matching("[ab]*a[ab]{60}x", topics)


@given(st.text(st.sampled_from(r"ab()[]{}|*+?^$\.-,:123dwQEpLxP<>=!iU"), max_size=24))
@settings(max_examples=400)
def test_anything_is_either_understood_or_refused(pattern: str) -> None:
    names = {"a", "ab", "b.1"}
    try:
        matched = matching(pattern, names)
    except InvalidRegularExpression:
        return
    assert matched <= names
