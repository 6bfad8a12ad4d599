"""Each package says in its description what its modules are, in the order in which to read them."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src" / "ottla"
PACKAGES = sorted(
    each.parent for each in SOURCE.rglob("__init__.py") if len(list(each.parent.glob("*.py"))) > 2
)
ONE_FILE_PER_API = SOURCE / "api"
"""Its files are named by the table of APIs; see test_api_table.py."""


def parts_of(package: Path) -> set[str]:
    modules = {each.stem for each in package.glob("*.py")} - {"__init__", "__main__", "_version"}
    return modules | {each.name for each in package.iterdir() if each.is_dir() and each.name != "__pycache__"}


def description_of(package: Path) -> str:
    return ast.get_docstring(ast.parse((package / "__init__.py").read_text())) or ""


@pytest.mark.parametrize("package", PACKAGES, ids=lambda each: str(each.relative_to(SOURCE)))
def test_a_package_names_its_modules(package: Path) -> None:
    if package == SOURCE:
        return
    description, parts = description_of(package), parts_of(package)
    if package != ONE_FILE_PER_API:
        assert sorted(each for each in parts if not re.search(rf"\b{each}\b", description)) == []
    column = [re.split(r"  +", line.strip())[0] for line in description.split("\n") if "  " in line.strip()]
    named = {each.strip(" /`") for line in column for each in line.split(",")}
    assert sorted(each for each in named if re.fullmatch(r"[a-z_]+", each) and each not in parts) == []
