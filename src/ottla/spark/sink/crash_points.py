"""Places at which a test can have the driver killed: `OTTLA_SPARK_CRASH_AT=after-decision@3`.

Without that variable nothing happens here. With it, the first process that gets to the place in that batch
kills the JVM above it, and itself; the file in `OTTLA_SPARK_CRASH_FILE` sees to it that it is once.
"""

from __future__ import annotations

import os
import signal
from pathlib import Path

AT, FILE = "OTTLA_SPARK_CRASH_AT", "OTTLA_SPARK_CRASH_FILE"

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


def reached(point: str, batch_id: int) -> None:
    """Die here, if a test wants that."""
    wanted = os.environ.get(AT)
    if wanted != f"{point}@{batch_id}":
        return
    try:
        os.close(os.open(os.environ[FILE], os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return
    os.kill(_jvm(), signal.SIGKILL)
    os._exit(1)


def _jvm() -> int:
    """Return the process id of the JVM that this worker belongs to."""
    pid = os.getpid()
    while pid > 1:
        if Path(f"/proc/{pid}/comm").read_text().strip() == "java":
            return pid
        pid = int(Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[1])
    raise RuntimeError("no JVM above this process")
