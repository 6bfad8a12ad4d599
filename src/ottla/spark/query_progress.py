"""How far a query is, from Spark's progress report: rows, batch, and how far behind the end of its topics.

Spark reports where each source is (`endOffset`) and where its topics end (`latestOffset`). Our source adds
the age of the first record that it has not read, `@seconds`, to the latter. Pure code.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from threading import Lock
from typing import Any

from ottla.common.clock import Clock, SystemClock
from ottla.common.ids import TopicPartition
from ottla.spark.source.offsets import GROUP, SECONDS, SourceOffset

SINKS = {
    "ForeachBatchSink": "foreachBatch",
    "ForeachBatchUserFuncException": "foreachBatch",
    "PythonTable": "ottla",
    "MemorySink": "memory",
    "ConsoleTable": "console",
    "noop-table": "noop",
}
RUNNING, ENDED, FAILED = "running", "ended", "failed"
MAX_QUERIES = 200


@dataclass(frozen=True)
class SourceLag:
    """How far a source is behind the end of its topics, in offsets per partition and in seconds."""

    avg: float
    max: int
    min: int
    total: int
    seconds: float | None = None
    """The age of the oldest record that is not read; None if it is unknown."""


@dataclass(frozen=True)
class SourceProgress:
    """One source of a query."""

    description: str
    rows: int
    topics: tuple[str, ...] = ()
    partitions: int = 0
    group: str | None = None
    behind: SourceLag | None = None


@dataclass(frozen=True)
class QueryProgress:
    """A query after its last batch."""

    id: str
    name: str
    state: str = RUNNING
    run_id: str = ""
    batch: int | None = None
    rows: int = 0
    """All rows read in this run."""
    batch_rows: int = 0
    input_rows_per_second: float = 0.0
    rows_per_second: float = 0.0
    batch_ms: int = 0
    state_rows: int = 0
    watermark: str | None = None
    sink: str = ""
    sources: tuple[SourceProgress, ...] = ()
    updated_ms: int = 0
    error: str | None = None

    @property
    def behind(self) -> SourceLag | None:
        """Of all sources together."""
        return together([each.behind for each in self.sources if each.behind is not None])

    def as_json(self) -> dict[str, Any]:
        """Return it as JSON."""
        behind = self.behind
        return {**asdict(self), "behind": None if behind is None else asdict(behind)}


def together(found: list[SourceLag]) -> SourceLag | None:
    """Return how far behind several sources are."""
    if not found:
        return None
    seconds = [each.seconds for each in found if each.seconds is not None]
    return SourceLag(
        sum(each.avg for each in found) / len(found),
        max(each.max for each in found),
        min(each.min for each in found),
        sum(each.total for each in found),
        max(seconds) if seconds else None,
    )


def behind_of(source: Mapping[str, Any]) -> SourceLag | None:
    """Return how far a source of a report is behind; None if it reads no topics."""
    end, latest = _json_of(source.get("endOffset")), _json_of(source.get("latestOffset"))
    if not isinstance(end, dict) or not isinstance(latest, dict):
        return None
    try:
        positions, ends = SourceOffset.from_json(end).positions, SourceOffset.from_json(latest).positions
    except (ValueError, AttributeError, TypeError):
        return None  # the offsets of another kind of source
    lags = [max(0, offset - positions.get(each, offset)) for each, offset in ends.items()]
    if not lags:
        return None
    seconds = latest.get(SECONDS)
    known = 0.0 if not sum(lags) else float(seconds) if isinstance(seconds, int | float) else None
    return SourceLag(sum(lags) / len(lags), max(lags), min(lags), sum(lags), known)


def read_source(source: Mapping[str, Any]) -> SourceProgress:
    """Return a source of a report, with a description that a person can read."""
    rows = max(0, int(source.get("numInputRows") or 0))
    end = _json_of(source.get("endOffset"))
    behind = behind_of(source)
    if behind is None or not isinstance(end, dict):
        return SourceProgress(_short(str(source.get("description") or "")), rows)
    positions: dict[TopicPartition, int] = SourceOffset.from_json(end).positions
    topics = tuple(sorted({each.topic for each in positions}))
    shown = ", ".join(topics[:5]) + (f" and {len(topics) - 5} more" if len(topics) > 5 else "")
    count = f"{len(positions)} partition{'s' * (len(positions) != 1)}"
    kind = "ottla" if GROUP in end else "kafka"
    return SourceProgress(f"{kind}: {shown} ({count})", rows, topics, len(positions), end.get(GROUP), behind)


def read_progress(report: Mapping[str, Any], before: QueryProgress | None, now_ms: int) -> QueryProgress:
    """Return the progress after one more report."""
    rows = max(0, int(report.get("numInputRows") or 0))
    earlier = before.rows if before is not None and before.run_id == report["runId"] else 0
    return QueryProgress(
        id=report["id"],
        name=report.get("name") or report["id"][:8],
        run_id=report["runId"],
        batch=int(report["batchId"]),
        rows=earlier + rows,
        batch_rows=rows,
        input_rows_per_second=rate(report.get("inputRowsPerSecond")),
        rows_per_second=rate(report.get("processedRowsPerSecond")),
        batch_ms=int(report.get("batchDuration") or 0),
        state_rows=sum(int(each.get("numRowsTotal") or 0) for each in report.get("stateOperators") or ()),
        watermark=(report.get("eventTime") or {}).get("watermark"),
        sink=_short(str((report.get("sink") or {}).get("description") or "")),
        sources=tuple(read_source(each) for each in report.get("sources") or ()),
        updated_ms=now_ms,
    )


def rate(value: Any) -> float:
    """Return a rate; Spark writes NaN and Infinity for batches without rows or time."""
    number = float(value or 0)
    return round(number, 1) if number == number and abs(number) != float("inf") else 0.0


def _short(description: str) -> str:
    """Return a description of Spark without packages and object ids."""
    known = next((name for part, name in SINKS.items() if part in description), None)
    if known is not None:
        return known
    words = description.partition("@")[0]
    return words.rpartition(".")[2] if " " not in words and "[" not in words and "/" not in words else words


def _json_of(value: Any) -> Any:
    if isinstance(value, str):
        try:
            return json.loads(value)
        except ValueError:
            return None
    return value


@dataclass
class QueryBoard:
    """The queries of this process, by id; written by Spark's listener, read by the endpoint."""

    _queries: dict[str, QueryProgress] = field(default_factory=dict)
    _lock: Lock = field(default_factory=Lock)
    _clock: Clock = field(default_factory=SystemClock)

    def report(self, report: Mapping[str, Any]) -> None:
        """Take a progress report."""
        with self._lock:
            before = self._queries.pop(report["id"], None)
            self._queries[report["id"]] = read_progress(report, before, self._clock.wall_ms())
            while len(self._queries) > MAX_QUERIES:
                del self._queries[next(iter(self._queries))]

    def ended(self, query_id: str, run_id: str, error: str | None) -> QueryProgress:
        """Note that a run has ended."""
        with self._lock:
            before = self._queries.get(query_id) or QueryProgress(query_id, query_id[:8], run_id=run_id)
            if before.run_id not in ("", run_id):
                return before  # it was started again meanwhile
            values = {**vars(before), "state": FAILED if error else ENDED, "error": error}
            self._queries[query_id] = QueryProgress(**values)
            return self._queries[query_id]

    def queries(self) -> list[QueryProgress]:
        """Return all queries."""
        with self._lock:
            return list(self._queries.values())


BOARD = QueryBoard()
"""The queries of this process."""
