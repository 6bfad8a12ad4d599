"""Differences of schemas."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ottla.console.views.schemas import MAX_COMPARED, difference

LINES = st.lists(st.sampled_from("abcd"), max_size=12)


def _sides(older: list[str], newer: list[str]) -> tuple[list[str], list[str], int]:
    found = difference("\n".join(older), "\n".join(newer))
    old = [each["text"] for each in found if each["kind"] != "added"]
    new = [each["text"] for each in found if each["kind"] != "removed"]
    return old, new, sum(each["kind"] == "kept" for each in found)


@given(LINES, LINES)
def test_a_difference_has_all_lines_of_both(older: list[str], newer: list[str]) -> None:
    assert _sides(older, newer)[:2] == (older, newer)
    assert _sides(older, older)[2] == len(older)


def test_what_is_the_same_at_both_ends_and_between_is_kept() -> None:
    assert _sides(["a", "b", "c", "d"], ["a", "x", "c", "d"])[2] == 3
    many = [str(each) for each in range(10 * MAX_COMPARED)]
    assert _sides(many, [*many[:5], "more", *many[5:]])[2] == len(many)
    other = [f"{each}x" for each in many]
    assert _sides(["a", *many, "z"], ["a", *other, "z"]) == (["a", *many, "z"], ["a", *other, "z"], 2)
