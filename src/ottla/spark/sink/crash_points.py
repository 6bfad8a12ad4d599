"""Points where a test can kill a driver: `OTTLA_SPARK_CRASH_AT=after-decision@3@<query id>,...`.

Without that variable this module does nothing. With it, the first process that reaches such a point, in that
batch of that query, creates a file with the point's name in the folder `OTTLA_SPARK_CRASH_FOLDER`, and waits
to be killed with its JVM. So one JVM can have several queries, each at another point, when the test kills it.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

from ottla.spark.runtime.python_launcher import JVM

AT, FOLDER = "OTTLA_SPARK_CRASH_AT", "OTTLA_SPARK_CRASH_FOLDER"
POLL_INTERVAL_S = 0.02

BEFORE_INIT, AFTER_INIT, AFTER_PRODUCE = "before-init", "after-init", "after-produce"
AFTER_PREPARE = "after-prepare"
BEFORE_DECISION, AFTER_DECISION = "before-decision", "after-decision"
AFTER_FIRST_END, AFTER_END = "after-first-end", "after-end"
POINTS = (
    BEFORE_INIT,
    AFTER_INIT,
    AFTER_PRODUCE,
    AFTER_PREPARE,
    BEFORE_DECISION,
    AFTER_DECISION,
    AFTER_FIRST_END,
    AFTER_END,
)


def place(point: str, batch_id: int, query_id: str) -> str:
    """Return the text for a point in a batch of a query."""
    return f"{point}@{batch_id}@{query_id}"


def reached(point: str, batch_id: int, query_id: str) -> None:
    """Wait here to be killed, if a test has requested that."""
    wanted = os.environ.get(AT)
    if wanted is None or place(point, batch_id, query_id) not in wanted.split(","):
        return
    try:
        os.close(os.open(Path(os.environ[FOLDER], point), os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return
    jvm = _jvm()
    while Path(f"/proc/{jvm}/cmdline").exists() and Path(f"/proc/{jvm}/cmdline").read_bytes():
        time.sleep(POLL_INTERVAL_S)
    os._exit(1)


def _jvm() -> int:
    """Return the process id of the JVM that this worker belongs to."""
    if JVM in os.environ:  # forked by the warm Python, which is not a child of the JVM
        return int(os.environ[JVM])
    pid = os.getpid()
    while pid > 1:
        if Path(f"/proc/{pid}/comm").read_text().strip() == "java":
            return pid
        pid = int(Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[1])
    raise RuntimeError("no JVM among the ancestors of this process")
