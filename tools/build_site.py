"""Build the documentation as a static, searchable site in build/site.

The pages of docs/ stay readable in the repository; the site is made from a copy. Its menu follows
docs/README.md: each heading there is a section, each linked page an entry. Links to files outside docs/ point
to the repository. A link or anchor that leads nowhere fails the build, and so does a page that is not listed.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
SOURCE = ROOT / "build" / "site-source"
SITE = ROOT / "build" / "site"
REPOSITORY = "https://github.com/ottla/ottla/blob/main/"

_LINK = re.compile(r"(\]\()(\.\./[^)#\s]+)")
_ENTRY = re.compile(r"\[([^\]]+)\]\(([^)#]+\.md)\)")

SETTINGS: dict[str, Any] = {
    "site_name": "Ottla",
    "site_description": "An event-streaming platform in Python that speaks the Apache Kafka protocol",
    "docs_dir": str(SOURCE),
    "site_dir": str(SITE),
    "use_directory_urls": False,
    "strict": True,
    "theme": {
        "name": "material",
        "font": False,  # no request leaves the reader's host
        "palette": [
            {
                "media": "(prefers-color-scheme: light)",
                "scheme": "default",
                "primary": "teal",
                "toggle": {"icon": "material/weather-night", "name": "Dark"},
            },
            {
                "media": "(prefers-color-scheme: dark)",
                "scheme": "slate",
                "primary": "teal",
                "toggle": {"icon": "material/weather-sunny", "name": "Light"},
            },
        ],
        "features": [
            "navigation.indexes",
            "navigation.top",
            "content.code.copy",
            "search.highlight",
            "toc.follow",
        ],
    },
    "plugins": ["search"],
    "markdown_extensions": ["admonition", "tables", "toc", "pymdownx.highlight", "pymdownx.superfences"],
    "validation": {
        "nav": {"omitted_files": "warn", "not_found": "warn"},
        "links": {"not_found": "warn", "anchors": "warn", "absolute_links": "ignore"},
    },
}


def copy_pages() -> None:
    """Copy the pages; links that leave docs/ become links to the repository."""
    shutil.rmtree(SOURCE, ignore_errors=True)
    shutil.copytree(DOCS, SOURCE)
    shutil.copyfile(ROOT / "CHANGELOG.md", SOURCE / "changelog.md")
    for page in SOURCE.rglob("*.md"):
        folder = (DOCS / page.relative_to(SOURCE)).parent

        def outside(link: re.Match[str], folder: Path = folder) -> str:
            target = (folder / link[2]).resolve()
            if target.is_relative_to(DOCS):
                return link[0]
            if not target.exists():
                sys.exit(f"{folder}: {link[2]} does not exist")
            return link[1] + REPOSITORY + str(target.relative_to(ROOT))

        page.write_text(_LINK.sub(outside, page.read_text()))


def menu() -> list[Any]:
    """Return the menu: the sections of docs/README.md, decisions and the changelog."""
    entries: list[Any] = [{"Overview": "README.md"}]
    section: list[Any] = []
    listed: set[str] = set()
    for line in (DOCS / "README.md").read_text().splitlines():
        if line.startswith("## "):
            section = []
            entries.append({line.removeprefix("## "): section})
            continue
        for title, page in _ENTRY.findall(line) if line.startswith("|") else ():
            if page not in listed and not page.startswith("decisions/"):
                listed.add(page)
                section.append({title[0].upper() + title[1:]: page})
    decisions = sorted(each.name for each in (DOCS / "decisions").glob("0*.md"))
    entries.append({"Decisions": ["decisions/README.md", *(f"decisions/{name}" for name in decisions)]})
    entries.append({"Changelog": "changelog.md"})
    return entries


def main() -> None:
    """Build the site; exit with mkdocs' code."""
    copy_pages()
    SITE.parent.mkdir(exist_ok=True)
    settings = ROOT / "build" / "mkdocs.yml"
    settings.write_text(yaml.safe_dump({**SETTINGS, "nav": menu()}, sort_keys=False))
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--quiet", "--strict", "-f", str(settings)]
    )
    if done.returncode:
        sys.exit(done.returncode)
    outside = [
        f"{page.relative_to(SITE)}: {found}"
        for page in SITE.rglob("*.html")
        for found in re.findall(r'(?:src|href)="(https?://[^"]+\.(?:js|css|woff2?))"', page.read_text())
    ]
    if outside:
        sys.exit("pages load files from other hosts:\n" + "\n".join(outside))
    pages = len(list(SITE.rglob("*.html")))
    print(f"{pages} pages; to read them:  python3 -m http.server -d {SITE.relative_to(ROOT)} 8000")


if __name__ == "__main__":
    main()
