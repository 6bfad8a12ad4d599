"""Pages written by hand, and the source, use words that readers search for (docs/glossary.md)."""

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
    r"(to )?be had": "available, fetched, collected",
    r"held up": "failed, blocked",
}
"""Habits that were edited out, and what to write instead."""


PATTERNS = {re.compile(rf"\b({habit})\b", re.IGNORECASE): instead for habit, instead in INSTEAD.items()}
LINK_OR_CODE = re.compile(r"\]\([^)]*\)|`[^`\n]*`|```.*?```", re.DOTALL)


def habits_in(text: str) -> dict[str, str]:
    text = LINK_OR_CODE.sub("", text)
    return {match[0]: instead for pattern, instead in PATTERNS.items() for match in pattern.finditer(text)}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_uses_words_that_readers_search_for(page: Path) -> None:
    assert habits_in(page.read_text()) == {}


def test_the_source_uses_words_that_readers_search_for() -> None:
    found = {
        str(path.relative_to(ROOT)): habits
        for path in sorted((ROOT / "src").rglob("*.py"))
        if (habits := habits_in(path.read_text()))
    }
    assert found == {}
