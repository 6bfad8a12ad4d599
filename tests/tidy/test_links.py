"""Links inside the documentation lead somewhere."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    [
        ROOT / "README.md",
        ROOT / "CHANGELOG.md",
        ROOT / "examples" / "README.md",
        *(ROOT / "docs").rglob("*.md"),
    ]
)
LINK = re.compile(r"\]\(([^)#\s]*)(?:#([^)\s]*))?\)")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_internal_link_leads_to_a_file_and_a_heading_of_it(page: Path) -> None:
    missing = []
    for path, heading in LINK.findall(page.read_text()):
        target = page.parent / path if path else page
        if "://" in path:
            continue
        if not target.exists() or (heading and heading not in _headings(target)):
            missing.append(f"{path}#{heading}")
    assert missing == []


def _headings(page: Path) -> set[str]:
    """Return the headings of a page, as links name them."""
    found = re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", each.lower()).replace(" ", "-") for each in found}
