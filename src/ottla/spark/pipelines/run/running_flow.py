"""A running flow: its query, its progress, its failures and restarts."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from ottla.common.backoff import doubled
from ottla.common.clock import Clock
from ottla.spark.pipelines.elements import Dataset, Flow
from ottla.spark.pipelines.run.progress import (
    DONE,
    FAILED,
    PAUSED,
    RESTARTING,
    STARTING,
    STOPPED,
    FlowProgress,
    read_offsets,
)

# The restart policy of a flow. Pure code.

INITIAL_BACKOFF_MS, MAX_BACKOFF_MS = 1_000, 60_000


@dataclass
class Restarts:
    """Counts consecutive failures of a flow, without a finished batch in between."""

    most: int
    failures: int = 0

    def failed(self) -> int | None:
        """Count a failure; return the delay (ms) before the restart, None to give up."""
        self.failures += 1
        if self.failures > self.most:
            return None
        return doubled(INITIAL_BACKOFF_MS, self.failures, MAX_BACKOFF_MS)

    def progressed(self) -> None:
        """Reset the count after a finished batch."""
        self.failures = 0


LAG_EVERY_MS, LAG_AFTER_BATCH_MS = 2_000, 500

MeasureLag = Callable[[dict[tuple[str, int], int]], int | None]


class RunningFlow:
    """A flow and the streaming query that runs it."""

    def __init__(self, flow: Flow, target: Dataset, clock: Clock, retries: int, lag: MeasureLag) -> None:
        self.flow = flow
        self.target = target
        self.progress = FlowProgress(flow.name, flow.target)
        self.query: Any = None
        self.restart_at_ms: int | None = None
        self._clock = clock
        self._restarts = Restarts(retries)
        self._measure_lag = lag
        self._lag_at_ms = 0
        self._last_seen: tuple[str, str] | None = None
        self._offsets: dict[tuple[str, int], int] = {}

    @property
    def is_over(self) -> bool:
        """Whether it has ended for good."""
        return self.progress.state in (DONE, FAILED, STOPPED)

    def started(self, query: Any) -> None:
        """Attach the query that runs it."""
        self.query = query
        self.restart_at_ms = None
        self._last_seen = None
        self.progress = replace(self.progress, state=STARTING)

    def poll(self) -> list[FlowProgress]:
        """Process the reports since the last poll; return the progress after each."""
        found = []
        for report in self._new_reports():
            self.progress = self.progress.after(report)
            self._offsets |= read_offsets(report)
            self._restarts.progressed()
            found.append(self.progress)
        now_ms = self._clock.mono_ms()
        wait_ms = LAG_AFTER_BATCH_MS if found else LAG_EVERY_MS
        if self._offsets and now_ms - self._lag_at_ms >= wait_ms:
            self._lag_at_ms = now_ms
            self.progress = replace(self.progress, lag=self._measure_lag(self._offsets))
            found[-1:] = [self.progress] if found else []
        return found

    def ended(self, *, is_stopped: bool) -> None:
        """Note that its query has ended, by itself or because it was stopped."""
        self.progress = replace(self.progress, state=STOPPED if is_stopped else DONE)

    def paused(self) -> None:
        """Note that its query was stopped until the pipeline is resumed."""
        self.query = None
        self.restart_at_ms = None
        self.progress = replace(self.progress, state=PAUSED)

    @property
    def is_paused(self) -> bool:
        """Whether it waits until the pipeline is resumed."""
        return self.progress.state == PAUSED

    def failed(self, message: str, *, is_final: bool) -> bool:
        """Note a failure; return whether it will be restarted."""
        wait_ms = None if is_final else self._restarts.failed()
        if wait_ms is None:
            self.progress = replace(self.progress, state=FAILED, error=message)
            return False
        self.restart_at_ms = self._clock.mono_ms() + wait_ms
        restarts = self.progress.restarts + 1
        self.progress = replace(self.progress, state=RESTARTING, error=message, restarts=restarts)
        return True

    def is_between_batches(self) -> bool:
        """Return whether its query is idle, so that stopping it interrupts no batch."""
        return not self.query.isActive or not self.query.status["isTriggerActive"]

    def batches_done(self) -> tuple[str, str] | None:
        """Return a value that changes with every finished batch."""
        self.poll()
        return self._last_seen

    def _new_reports(self) -> list[dict[str, Any]]:
        """Return Spark's reports since the last poll, oldest first."""
        if self.query is None:
            return []
        kept = self.query._jsq.recentProgress()
        found: list[dict[str, Any]] = []
        for index in range(len(kept) - 1, -1, -1):
            report = json.loads(kept[index].json())
            if (report["runId"], report["timestamp"]) == self._last_seen:
                break
            found.append(report)
        if found:
            self._last_seen = (found[0]["runId"], found[0]["timestamp"])
        return found[::-1]
