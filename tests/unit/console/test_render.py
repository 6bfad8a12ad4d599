"""What templates make of values."""

from __future__ import annotations

import pytest

from ottla.console.render import PART_CHARACTERS, highlighted, parts, visible

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


@pytest.mark.parametrize(
    "text", ['{"a": [1, -2.5e3, true, null, "b\\"c"]}', '{"<b>&', '{"a\\', "[[[1 truest <script>", ""]
)
def test_marked_json_is_the_same_text_and_nothing_of_it_is_markup(text: str) -> None:
    marked = highlighted(text, "gzip json")
    assert marked.striptags().replace("\n", "") == " ".join(text.split())
    assert "<b" not in marked
    assert "<script" not in marked


def test_a_key_is_not_a_text() -> None:
    assert highlighted('{"k":"v"}', "schema") == (
        '{<span class="j-key">&#34;k&#34;</span>:<span class="j-text">&#34;v&#34;</span>}'
    )
    assert highlighted("<1>", "text") == "&lt;1&gt;"


def test_a_long_text_that_never_ends_is_marked_in_linear_time() -> None:
    assert highlighted('"' + "\\" * PART_CHARACTERS, "json").count("span") == 2
    assert len(highlighted('"' * PART_CHARACTERS, "json")) > PART_CHARACTERS
