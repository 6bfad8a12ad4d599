"""Settings of Spark's Python workers, and the context of a task."""

from __future__ import annotations

import gc
import os
import sys
from dataclasses import dataclass
from types import ModuleType
from typing import cast

_frozen_pid = -1

QUERY_ID, BATCH_ID, RUN_ID = "sql.streaming.queryId", "streaming.sql.batchId", "spark.jobGroup.id"
SPECULATION = "spark.speculation"


def skip_hypothesis_import() -> None:
    """Keep kio from importing hypothesis, which it does if it is installed: 0.2 s in each process of
    Spark.
    """
    main = getattr(sys.modules.get("__main__"), "__spec__", None)
    if main is not None and main.name.startswith("pyspark."):
        sys.modules.setdefault("hypothesis", cast(ModuleType, None))


def freeze_modules() -> None:
    """Exclude loaded modules from garbage collection: pyspark collects after every task, for 30 ms or so."""
    global _frozen_pid
    if _frozen_pid != os.getpid():
        _frozen_pid = os.getpid()
        gc.collect()
        gc.freeze()


@dataclass(frozen=True)
class TaskInfo:
    """The context of a task: its query, batch, partition and attempt."""

    query_id: str | None
    batch_id: int | None
    run_id: str | None
    partition: int
    attempt: int
    speculates: bool


def task_info() -> TaskInfo:
    """Return the context of this worker's task; outside of a task, that of no query."""
    from pyspark import TaskContext

    context = TaskContext.get()
    if context is None:
        return TaskInfo(None, None, None, 0, 0, False)
    batch = context.getLocalProperty(BATCH_ID)
    return TaskInfo(
        context.getLocalProperty(QUERY_ID),
        int(batch) if batch else None,
        context.getLocalProperty(RUN_ID),
        context.partitionId(),
        context.attemptNumber(),
        (context.getLocalProperty(SPECULATION) or "").lower() == "true",
    )
