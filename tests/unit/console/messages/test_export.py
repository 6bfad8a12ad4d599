"""Cells of CSV files."""

from __future__ import annotations

import pytest

from ottla.console.messages.export import _inert


@pytest.mark.parametrize("start", ["=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠"])
def test_no_spreadsheet_takes_a_cell_for_a_formula(start: str) -> None:
    cell = f"{start}HYPERLINK(...)"
    assert _inert(cell) == f"'{cell}"
    assert _inert("a" + cell) == "a" + cell
