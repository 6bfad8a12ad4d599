"""Runs the tests that failed in the last run once more, one at a time. `make test-again` calls it.

Live clusters with deadlines share two cores, so a few tests may fail in company and pass alone. The number of
tests that needed the second run is printed. More than MAX_RETRIED means that something is wrong: exit code 1.
So does a run that ended in another way than with failed tests: a file that could not be imported, a crash, a
command before pytest that failed. tests/conftest.py writes how each run ended to LAST_RUN.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
CACHE = Path(".pytest_cache") / "v"
LAST_RUN = CACHE / "ottla" / "last_run"
LAST_FAILED = CACHE / "cache" / "lastfailed"
MAX_RETRIED = 3
TESTS_FAILED = 1
"""pytest's exit code if all tests were run, and some failed."""


def main(root: Path = ROOT) -> int:
    """Return the exit code."""
    ended = _read(root / LAST_RUN)
    failed = sorted(_read(root / LAST_FAILED) or ())
    (root / LAST_RUN).unlink(missing_ok=True)  # it justifies one second run
    if ended != TESTS_FAILED or not failed:
        print(f"test-again: the last run did not end with failed tests (exit code {ended}). See its output.")
        return 1
    print(f"test-again: {len(failed)} tests failed:", *failed, sep="\n  ", flush=True)
    if len(failed) > MAX_RETRIED:
        print(f"test-again: more than {MAX_RETRIED} tests failed, so they are not tried again.")
        return 1
    # By name: --last-failed runs all tests if it does not find one of them.
    code = subprocess.call([sys.executable, "-m", "pytest", *failed], cwd=root)
    if code == 0:
        print(f"test-again: {len(failed)} tests needed a second run.")
    return code


def _read(file: Path) -> Any:
    return json.loads(file.read_text()) if file.exists() else None


if __name__ == "__main__":
    sys.exit(main())
