"""Settings of Spark's Python workers, and the context of a task."""

from __future__ import annotations

import gc
import os
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import cast

_frozen_pid = -1

QUERY_ID, BATCH_ID = "sql.streaming.queryId", "streaming.sql.batchId"
JOB_GROUP, DESCRIPTION, TAGS = "spark.jobGroup.id", "spark.job.description", "spark.job.tags"
APP_ID, ROOT_EXECUTION = "spark.app.id", "spark.sql.execution.root.id"
SPECULATION, TIME_ZONE = "spark.speculation", "spark.sql.session.timeZone"
BATCH_PLAN = "ottla.batchPlan"
"""What the batch was planned to read (batch_plans.py)."""
OF_A_STREAM = "spark.sql.streaming.internal."
"""Settings that only the session of a streaming query has."""
_SESSION_TAG = re.compile(r"(?:^|,)spark-session-([0-9a-f-]{36})(?:,|$)")


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
    """What one start of the query has in common."""
    partition: int
    attempt: int
    speculates: bool
    execution: str = ""
    """What all writes of one call of foreachBatch have in common, and no other."""
    is_of_stream: bool = False
    """Whether the rows come from a streaming query, even if the thread does not know which."""
    time_zone: str | None = None
    batch_plan: str | None = None


def task_info() -> TaskInfo:
    """Return the context of this worker's task; outside of a task, that of no query."""
    from pyspark import TaskContext

    context = TaskContext.get()
    if context is None:
        return TaskInfo(None, None, None, 0, 0, False)
    properties: Mapping[str, str] = context._localProperties or {}
    return info_of(properties, context.partitionId(), context.attemptNumber())


def info_of(properties: Mapping[str, str], partition: int, attempt: int) -> TaskInfo:
    """Return the context of a task with these local properties. Pure."""
    batch = properties.get(BATCH_ID)
    root = properties.get(ROOT_EXECUTION)
    return TaskInfo(
        properties.get(QUERY_ID),
        int(batch) if batch else None,
        _run_of(properties),
        partition,
        attempt,
        (properties.get(SPECULATION) or "").lower() == "true",
        f"{properties.get(APP_ID, '')}-{root}" if root else "",
        any(name.startswith(OF_A_STREAM) for name in properties),
        properties.get(TIME_ZONE),
        properties.get(BATCH_PLAN),
    )


def _run_of(properties: Mapping[str, str]) -> str | None:
    """Return the run of a query: Spark's run id, or, where the user has replaced it by a job group of their
    own, the session that Spark has cloned for this run.
    """
    group = properties.get(JOB_GROUP)
    if group and f"runId = {group}" in properties.get(DESCRIPTION, ""):
        return group
    found = _SESSION_TAG.search(properties.get(TAGS) or "")
    return f"session-{found[1]}" if found else group
