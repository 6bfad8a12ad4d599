"""What templates make of values."""

from __future__ import annotations

import pytest

from ottla.console.render import PART_CHARACTERS, parts, visible

LINES = "a line\n" * PART_CHARACTERS


@pytest.mark.parametrize(
    "text", ["", "short", "x" * PART_CHARACTERS * 3, LINES, LINES + "x" * PART_CHARACTERS * 2]
)
def test_long_texts_are_cut_at_ends_of_lines_and_lose_nothing(text: str) -> None:
    found = parts(text)
    assert "".join(found) == text
    assert max(map(len, found)) <= PART_CHARACTERS
    assert len(found) <= 1 + len(text) // (PART_CHARACTERS // 2)
    if text == LINES:
        assert all(each.endswith("\n") for each in found)


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("orders-größe 1", "orders-größe 1"),
        ("\u202egnp.exe", "\\u202egnp.exe"),
        ("a\x00\n", "a\\u0000\\u000a"),
    ],
)
def test_characters_that_cannot_be_seen_are_written_out(name: str, shown: str) -> None:
    assert visible(name) == shown
