"""docs/decisions/README.md: the decisions by number, from their own titles and status lines."""

from __future__ import annotations

import re
from pathlib import Path

DECISIONS = Path(__file__).parents[1] / "docs" / "decisions"
STATUS = re.compile(r"^Status: ((accepted|superseded|amended)\b[^\n]*)\.$", re.MULTILINE)
HEAD = """\
# Decisions

<!-- Made from the titles and status lines of the pages by: make docs -->

Each page is half a page long: context, decision, consequence. Cite a decision by its number: "decision 65".

| status | meaning |
|---|---|
| accepted | the code does this |
| amended by N | the code does this, except for the part that decision N changes |
| superseded by N | the code does what decision N says; the page is kept for the reason |

Numbers follow the order in time and are never reused. A branch reserves its numbers before the work starts.
A number that its branch did not need stays empty, which explains the gaps.

| number | decision | status |
|---:|---|---|
"""


def decisions_page() -> str:
    """Return the index."""
    return HEAD + "".join(_row(page) for page in decisions())


def decisions() -> list[Path]:
    """Return the pages, by number."""
    return sorted(DECISIONS.glob("[0-9]*.md"))


def status_of(page: Path) -> str | None:
    """Return the status of a decision, with its links; None if the page does not have one."""
    found = STATUS.search(page.read_text())
    return found[1] if found else None


def _row(page: Path) -> str:
    title = re.sub(r"^#\s*(Decision\s*)?\d*[.:]?\s*", "", page.read_text().splitlines()[0])
    return f"| {int(page.name[:4])} | [{title}]({page.name}) | {status_of(page)} |\n"
