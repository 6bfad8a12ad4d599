"""Runs the tests that failed in the last run once more, one at a time. `make test-again` calls it.

Live clusters with deadlines share two cores, so a few tests may fail in company and pass alone. The number of
tests that needed the second run is printed. More than MAX_RETRIED means that something is wrong: exit code 1.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LAST_FAILED = ROOT / ".pytest_cache" / "v" / "cache" / "lastfailed"
MAX_RETRIED = 3


def main() -> int:
    """Return the exit code."""
    failed = sorted(json.loads(LAST_FAILED.read_text())) if LAST_FAILED.exists() else []
    if not failed:
        print("test-again: the last run failed, but no test did. Read its output above.")
        return 1
    print(f"test-again: {len(failed)} tests failed:", *failed, sep="\n  ", flush=True)
    if len(failed) > MAX_RETRIED:
        print(f"test-again: more than {MAX_RETRIED} tests failed, so they are not tried again.")
        return 1
    code = subprocess.call([sys.executable, "-m", "pytest", "--last-failed", "tests"], cwd=ROOT)
    if code == 0:
        print(f"test-again: {len(failed)} tests needed a second run.")
    return code


if __name__ == "__main__":
    sys.exit(main())
