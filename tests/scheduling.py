"""Gives test files to the workers of pytest-xdist: the longest first, those of one Spark session to one.

`--dist loadfile` begins with the files that have the most tests. A file with one test of a minute may start
last, while the other workers have nothing left to do. Each worker that runs a file of tests/spark starts a
JVM for it, which costs more than most of these files.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

from xdist.scheduler import LoadFileScheduling
from xdist.workermanage import WorkerController

ROOT = Path(__file__).resolve().parents[1]
SECONDS: dict[str, int] = {}
"""About how long the long files take (`pytest --durations=0` tells). The order is what counts."""
_ASKS_FOR_SESSION = re.compile(r"def \w+\([^)]*\b(?:spark|source|stream)\b\s*[:,)]")


@cache
def shares_session(path: str) -> bool:
    """Return whether the tests of a file use the Spark session of their worker."""
    return path.startswith("tests/spark/") and _ASKS_FOR_SESSION.search((ROOT / path).read_text()) is not None


class LongestFirst(LoadFileScheduling):
    """Assigns the longest file next; those of the Spark session to the worker that began with them."""

    _spark_worker: WorkerController | None = None

    def _assign_work_unit(self, node: WorkerController) -> None:
        self.workqueue.move_to_end(self._next_file(node), last=False)
        super()._assign_work_unit(node)

    def _next_file(self, node: WorkerController) -> str:
        if self._spark_worker not in self.assigned_work:
            self._spark_worker = node  # the first that asks; another one if that has died
        wanted = [path for path in self.workqueue if shares_session(path) == (node is self._spark_worker)]
        # The queue begins with the files that have the most tests, and max() returns the first of equals.
        return max(wanted or self.workqueue, key=lambda path: SECONDS.get(path, 0))

    def _reschedule(self, node: WorkerController) -> None:
        # A worker needs one test beyond the one that it runs. More would wait behind a long test.
        if not self.workqueue or self._pending_of(self.assigned_work[node]) < 2:
            super()._reschedule(node)
