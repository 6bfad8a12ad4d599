"""Which batch of which sink is written."""

from __future__ import annotations

from dataclasses import dataclass

from ottla.spark.sink.decisions import SinkKey


@dataclass(frozen=True)
class Target:
    """Which batch of which sink a task writes."""

    key: SinkKey
    batch_id: int
    run_id: str
    writer_id: str
