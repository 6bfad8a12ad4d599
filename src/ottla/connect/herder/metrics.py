"""What a worker counts of its tasks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass
class TaskCounters:
    """Counted since the worker has first run the task."""

    records: int = 0
    batches: int = 0
    batch_ms: int = 0
    largest_batch: int = 0
    dead_letters: int = 0
    failures: int = 0
    last_error: str | None = None

    def add(self, report: dict[str, Any]) -> None:
        """Count a batch."""
        self.records += report["records"]
        self.batches += 1
        self.batch_ms += report["duration_ms"]
        self.largest_batch = max(self.largest_batch, report["records"])
        self.dead_letters = max(self.dead_letters, report["dead_letters"])
