"""The progress of a flow, from Spark's progress reports. Pure code."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

from ottla.spark.query_progress import rate, read_source, together

STARTING, RUNNING, WAITING, RESTARTING, PAUSED, DONE, STOPPED, FAILED = (
    "starting",
    "running",
    "waiting",
    "restarting",
    "paused",
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
    source: str = ""
    """What it reads, in words."""
    offsets_behind_avg: float | None = None
    """Offsets behind the end of its topics, per partition, when its last batch was planned."""
    offsets_behind_max: int | None = None
    offsets_behind_min: int | None = None
    seconds_behind: float | None = None
    """The age of the oldest record that it had not read then."""

    def after(self, report: Mapping[str, Any]) -> FlowProgress:
        """Return the progress after one more report of a batch."""
        rows = max(0, int(report.get("numInputRows") or 0))
        sources = [read_source(each) for each in report.get("sources") or ()]
        behind = together([each.behind for each in sources if each.behind is not None])
        return replace(
            self,
            source=", ".join(each.description for each in sources),
            offsets_behind_avg=None if behind is None else round(behind.avg, 1),
            offsets_behind_max=None if behind is None else behind.max,
            offsets_behind_min=None if behind is None else behind.min,
            seconds_behind=None if behind is None else behind.seconds,
            state=RUNNING if rows else WAITING,
            batch=int(report["batchId"]),
            rows=self.rows + rows,
            batch_rows=rows,
            rows_per_second=rate(report.get("processedRowsPerSecond")),
            batch_ms=int(report.get("batchDuration") or 0),
            watermark=(report.get("eventTime") or {}).get("watermark"),
            state_rows=sum(int(each.get("numRowsTotal") or 0) for each in report.get("stateOperators") or ()),
            error=None,
        )

    def as_json(self) -> dict[str, Any]:
        """Return it as JSON."""
        return asdict(self)


def progress_of(value: Mapping[str, Any]) -> FlowProgress:
    """Return the progress of a flow from JSON; entries of other versions are ignored."""
    known = {each.name for each in fields(FlowProgress)}
    return FlowProgress(**{name: each for name, each in value.items() if name in known})


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
