"""The documentation says what the code does."""

import re
import tomllib
from pathlib import Path

import pytest
from tools.cli_reference import missing_examples
from tools.decisions_index import decisions, status_of
from tools.write_docs import PAGES

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"


@pytest.mark.parametrize("page", PAGES)
def test_a_generated_page_is_up_to_date(page: str) -> None:
    assert (DOCS / page).read_text() == PAGES[page](), f"run: make docs   (docs/{page} is out of date)"


def test_every_command_has_an_example() -> None:
    assert missing_examples() == [], "add one to the command's help, or to tools/cli_reference.py"


def test_every_class_of_the_glossary_exists() -> None:
    named = set(re.findall(r"^\| `([A-Z]\w+)` \|", (DOCS / "glossary.md").read_text(), re.MULTILINE))
    source = "\n".join(each.read_text() for each in (ROOT / "src").rglob("*.py"))
    defined = set(re.findall(r"^class (\w+)", source, re.MULTILINE))
    assert len(named) > 50
    assert sorted(named - defined) == []


@pytest.mark.parametrize("page", decisions(), ids=lambda page: page.name[:4])
def test_a_decision_has_a_status(page: Path) -> None:
    assert status_of(page), f"add `Status: accepted.` below the title of docs/decisions/{page.name}"


def test_decisions_are_cited_in_one_form() -> None:
    found = []
    for page in [ROOT / "README.md", *DOCS.rglob("*.md")]:
        text = page.read_text() if page.parent.name != "decisions" or page.name != "README.md" else ""
        found += [f"{page.name}: {each}" for each in re.findall(r"\b[Dd]ecisions? 0\d+", text)]
        for label, number in re.findall(r"\[([^\]]*)\]\((?:decisions/)?(0\d{3})-[^)]*\.md\)", text):
            if label != f"decision {int(number)}":
                found.append(f"{page.name}: [{label}] is decision {int(number)}")
    assert found == []


def test_every_module_of_the_architecture_page_exists() -> None:
    named = set(re.findall(r"`([a-z_]+/[a-z_/]+(?:\.py|/))`", (DOCS / "architecture.md").read_text()))
    assert sorted(each for each in named if not (ROOT / "src" / "ottla" / each).exists()) == []


def test_the_table_of_packages_lists_them_all_in_the_order_of_their_layers() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    layers, *_ = settings["tool"]["importlinter"]["contracts"]
    in_order = [name for layer in layers["layers"] for name in re.findall(r"\w+", layer)]
    table = next(
        block
        for block in re.findall(r"```\n(.*?)```", (DOCS / "architecture.md").read_text(), re.DOTALL)
        if block.startswith("cli ")
    )
    listed = [line.split()[0] for line in table.splitlines()]
    assert listed == in_order
    packages = {path.parent.name for path in (ROOT / "src/ottla").glob("*/__init__.py")}
    assert packages == set(listed)
