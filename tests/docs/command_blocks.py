"""The ```bash blocks of the documentation, as they are written there. All other fences are only shown."""

from __future__ import annotations

import re
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
PAGES = sorted([ROOT / "README.md", ROOT / "examples" / "README.md", *(ROOT / "docs").rglob("*.md")])
DEFAULT_ADDRESS = "127.0.0.1:9092"

_BLOCK = re.compile(r"^```bash\n(.*?)^```$", re.DOTALL | re.MULTILINE)


class Block(NamedTuple):
    """One block: where it is, and the commands in it."""

    page: Path
    number: int
    script: str


def blocks_of(page: Path) -> list[Block]:
    """Return the blocks of a page, in order; where Spark is not installed, the demo does without."""
    scripts = _BLOCK.findall(page.read_text())
    if find_spec("pyspark") is None or find_spec("ottla.spark") is None:
        scripts = [
            each.replace("ottla demo --seconds", "ottla demo --no-spark --seconds") for each in scripts
        ]
    return [Block(page, number, script) for number, script in enumerate(scripts, 1)]


ELSEWHERE = {"spark-cluster"}
"""Pages whose commands need more machines; tests/spark/test_standalone_cluster.py does what they say."""


def pages_with_blocks() -> list[Path]:
    """Return the pages that have any."""
    return [page for page in PAGES if page.stem not in ELSEWHERE and blocks_of(page)]
