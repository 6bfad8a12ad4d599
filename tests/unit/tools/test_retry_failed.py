from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from tools.retry_failed import LAST_RUN, main

HOOKS = Path(__file__).parents[2] / "conftest.py"
FAILS_ONCE = """
from pathlib import Path

def test_that_fails_once():
    first = not Path("seen").exists()
    Path("seen").touch()
    assert not first
"""
CANNOT_BE_IMPORTED_ONCE = FAILS_ONCE + "\ntest_that_fails_once()\n"


def run_pytest(folder: Path, text: str) -> int:
    (folder / "tests").mkdir(exist_ok=True)
    (folder / "tests" / "conftest.py").write_text(HOOKS.read_text())
    (folder / "tests" / "test_some.py").write_text(text)
    (folder / "pytest.ini").write_text("[pytest]\n")
    command = [sys.executable, "-m", "pytest", "-q", "tests"]
    return subprocess.run(command, cwd=folder, capture_output=True, check=False).returncode


def test_a_test_that_passes_alone_is_enough(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert run_pytest(tmp_path, FAILS_ONCE) == 1

    assert main(tmp_path) == 0

    assert "1 tests needed a second run" in capfd.readouterr().out


def test_a_file_that_could_not_be_imported_is_not_tried_again(tmp_path: Path) -> None:
    assert run_pytest(tmp_path, CANNOT_BE_IMPORTED_ONCE) == 2  # and no test of the other files was run

    assert main(tmp_path) == 1


def test_a_command_that_fails_before_pytest_is_not_taken_for_the_run_before_it(tmp_path: Path) -> None:
    assert main(tmp_path) == 1  # no run at all
    last_failed = tmp_path / LAST_RUN.parents[1] / "cache" / "lastfailed"
    last_failed.parent.mkdir(parents=True)
    last_failed.write_text('{"tests/test_some.py::test_that_fails": true}')
    (tmp_path / LAST_RUN).parent.mkdir()

    for code in ("0", "null", "3"):
        (tmp_path / LAST_RUN).write_text(code)
        assert main(tmp_path) == 1
        assert not (tmp_path / LAST_RUN).exists()
