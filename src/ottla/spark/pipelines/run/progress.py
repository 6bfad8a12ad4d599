"""The progress of a flow, from Spark's progress reports. Pure code."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

STARTING, RUNNING, WAITING, RESTARTING, DONE, STOPPED, FAILED = (
    "starting",
    "running",
    "waiting",
    "restarting",
    "done",
    "stopped",
    "failed",
)


@dataclass(frozen=True)
class FlowProgress:
    """The progress of one flow."""

    flow: str
    target: str
    state: str = STARTING
    batch: int | None = None
    rows: int = 0
    """All rows read since the pipeline was started."""
    batch_rows: int = 0
    rows_per_second: float = 0.0
    batch_ms: int = 0
    lag: int | None = None
    """Lag in records; None if it is unknown."""
    watermark: str | None = None
    state_rows: int = 0
    """Rows of state: open windows, keys of aggregations and joins."""
    restarts: int = 0
    error: str | None = None

    def after(self, report: Mapping[str, Any]) -> FlowProgress:
        """Return the progress after one more report of a batch."""
        rows = max(0, int(report.get("numInputRows") or 0))
        return replace(
            self,
            state=RUNNING if rows else WAITING,
            batch=int(report["batchId"]),
            rows=self.rows + rows,
            batch_rows=rows,
            rows_per_second=_number(report.get("processedRowsPerSecond")),
            batch_ms=int(report.get("batchDuration") or 0),
            watermark=(report.get("eventTime") or {}).get("watermark"),
            state_rows=sum(int(each.get("numRowsTotal") or 0) for each in report.get("stateOperators") or ()),
            error=None,
        )

    def as_json(self) -> dict[str, Any]:
        """Return it as JSON."""
        return asdict(self)


def read_offsets(report: Mapping[str, Any]) -> dict[tuple[str, int], int]:
    """Return the positions of a query in its topics: next offset by topic and partition."""
    found: dict[tuple[str, int], int] = {}
    for source in report.get("sources") or ():
        offsets = source.get("endOffset")
        if isinstance(offsets, str):
            try:
                offsets = json.loads(offsets)
            except ValueError:
                continue
        if isinstance(offsets, dict):
            for topic, partitions in offsets.items():
                if isinstance(partitions, dict) and not topic.startswith("@"):
                    found |= {
                        (topic, int(partition)): offset
                        for partition, offset in partitions.items()
                        if str(partition).isdigit() and isinstance(offset, int)
                    }
    return found


def _number(value: Any) -> float:
    """Return a rate; Spark writes NaN and Infinity for batches without rows or time."""
    number = float(value or 0)
    return round(number, 1) if number == number and abs(number) != float("inf") else 0.0
