"""What a batch was planned to read: separates a replay of a batch from another one with its number.

Problem: a sink that finds a batch decided writes nothing, because Spark replays it after a crash. If the
checkpoint is put back by one batch (a backup, files lost in a power failure), Spark plans other records under
the number of a batch that is decided, and these would be dropped.

Solution: Spark stores the plan of a batch, `offsets/<batch>`, before it runs the batch, and does not change
it when it replays the batch. A digest of it stands in the decision. A sink of a stream reads the file when it
commits. A write in foreachBatch does not learn where the checkpoint is: so `identify_batches` makes
foreachBatch put the digest into a local property of its thread, which tasks see (decision 480).
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import wraps
from hashlib import sha256
from pathlib import Path
from typing import Any

from ottla.spark.checkpoint_lock import checkpoint_of, remember_checkpoints
from ottla.spark.source.offsets import SourceOffset, nested
from ottla.spark.worker import BATCH_PLAN

DIGEST_CHARACTERS = 32


def plan_of(checkpoint: Path, batch_id: int) -> str | None:
    """Return the digest of a batch's plan; None if there is no plan that can be read."""
    try:
        text = (checkpoint / "offsets" / str(batch_id)).read_text(encoding="utf-8")
    except (OSError, ValueError):
        return None
    lines = text.splitlines()
    # The settings, with the time of the batch, then the sources; `pipeline offsets export` changes how we
    # write a position, and not where it is.
    same = [*lines[:2], *map(_position, lines[2:])]
    return sha256("\n".join(same).encode()).hexdigest()[:DIGEST_CHARACTERS]


def _position(line: str) -> str:
    try:
        found = nested(SourceOffset.from_json(json.loads(line)).positions)
    except (ValueError, AttributeError, TypeError):
        return line  # of a source that reads no topics
    return json.dumps(found) if found else line


def identify_batches() -> None:
    """Make every foreachBatch that this process starts tell its tasks the plan of the batch."""
    from pyspark.sql.streaming.readwriter import DataStreamWriter

    if hasattr(DataStreamWriter, "_ottla_plans"):
        return
    setattr(DataStreamWriter, "_ottla_plans", True)  # noqa: B010
    remember_checkpoints()
    setattr(DataStreamWriter, "foreachBatch", _identifying(DataStreamWriter.foreachBatch))  # noqa: B010
    for method in ("start", "toTable"):
        setattr(DataStreamWriter, method, _locating(getattr(DataStreamWriter, method)))


def _identifying(method: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(method)
    def foreach_batch(self: Any, func: Callable[[Any, int], None]) -> Any:
        @wraps(func, updated=())
        def identified(batch: Any, batch_id: int) -> None:
            folder = getattr(self, "_ottla_folder", None)
            plan = None if folder is None else plan_of(folder, batch_id)
            self._spark.sparkContext.setLocalProperty(BATCH_PLAN, plan)
            func(batch, batch_id)

        return method(self, identified)

    return foreach_batch


def _locating(method: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(method)
    def start(self: Any, *args: Any, **options: Any) -> Any:
        self._ottla_folder = checkpoint_of(self, options)
        return method(self, *args, **options)

    return start
