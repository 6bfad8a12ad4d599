"""docs/decisions/README.md: the decisions by number, from their own titles."""

from __future__ import annotations

import re
from pathlib import Path

DECISIONS = Path(__file__).parents[1] / "docs" / "decisions"


def decisions_page() -> str:
    """Return the index."""
    lines = [
        "# Decisions",
        "",
        "<!-- Made from the titles of the pages by: make docs -->",
        "",
        "What was decided, and why; half a page each. Numbers are in order of time, and never reused.",
        "",
    ]
    for page in sorted(DECISIONS.glob("[0-9]*.md")):
        title = re.sub(r"^#\s*(Decision\s*)?\d*[.:]?\s*", "", page.read_text().splitlines()[0])
        lines.append(f"- {page.name[:4]} [{title}]({page.name})")
    return "\n".join(lines) + "\n"
