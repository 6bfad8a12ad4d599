"""Pages that are written by hand use the words that readers search for (docs/glossary.md)."""

import re
from pathlib import Path

import pytest
from tools.write_docs import PAGES as GENERATED

ROOT = Path(__file__).parents[2]
BY_HAND = {page for page in (ROOT / "docs").glob("*.md") if page.name not in GENERATED}
PAGES = [ROOT / "README.md", *sorted(BY_HAND)]
INSTEAD = {
    r"mend(s|ed|ing)?": "fix, repair",
    r"(no|every|some|any)body|whoever|who dies": "name the client, consumer, replica or operator",
    r"(go|goes|went|going) on": "continue, resume",
    r"under way": "in flight, running",
    r"is content": "exits with 0",
    r"cut(s)? off (its|the) logs?": "truncate",
    r"for ever": "forever, permanently",
    r"power cuts?": "power failure",
}
"""Habits that were edited out, and what to write instead."""


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_uses_words_that_readers_search_for(page: Path) -> None:
    text = re.sub(r"\]\([^)]*\)|`[^`\n]*`|```.*?```", "", page.read_text(), flags=re.DOTALL)
    found = {
        match[0]: instead
        for habit, instead in INSTEAD.items()
        for match in re.finditer(rf"\b({habit})\b", text, re.IGNORECASE)
    }
    assert found == {}
