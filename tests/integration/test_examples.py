"""The examples do what they say."""

from __future__ import annotations

import runpy
import shutil
from collections import Counter
from pathlib import Path

import pytest
from tests.integration.plugin_runs import run_pytest

from ottla.testing.local_broker import OttlaBroker

EXAMPLES = Path(__file__).parents[2] / "examples"

LAST_LINES = {
    "producer": "orders-0 offset 9",
    "consumer": "once more: 5 records",
    "async_pipeline": "the average of 20 readings is 20.95",
    "transactions": "3 lines counted",
    "arrow": "10000 in all",
    "admin": "bytes",
}


@pytest.mark.parametrize("name", LAST_LINES)
def test_an_example_runs(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    example = runpy.run_path(str(EXAMPLES / f"{name}.py"))
    with OttlaBroker() as broker:
        example["main"](broker.bootstrap_servers)
        assert capsys.readouterr().out.splitlines()[-1].endswith(LAST_LINES[name])
        if name == "transactions":
            words = Counter(record.key for record in broker.topic("counted").records())
            assert words == Counter(b"the cat sat on the mat the dog sat on the log a cat and a dog".split())


def test_the_example_of_a_test_passes(tmp_path: Path) -> None:
    shutil.copy(EXAMPLES / "test_shop.py", tmp_path)
    run = run_pytest(tmp_path)
    assert "4 passed" in run.stdout, run.stdout


def test_every_example_is_listed_and_run() -> None:
    listed = (EXAMPLES / "README.md").read_text()
    for each in EXAMPLES.glob("*.py"):
        assert f"examples/{each.name}" in listed
        assert each.stem in LAST_LINES or each.stem == "test_shop"
