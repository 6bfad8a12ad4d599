"""Whether a flow that failed is started again, and when. Pure code."""

from __future__ import annotations

from dataclasses import dataclass

FIRST_WAIT_MS, LONGEST_WAIT_MS = 1_000, 60_000


@dataclass
class Restarts:
    """Counts the failures of one flow that came without a batch between them."""

    most: int
    failures: int = 0

    def failed(self) -> int | None:
        """Note a failure; return how long to wait (ms) before the next try, None to give up."""
        self.failures += 1
        if self.failures > self.most:
            return None
        doubled: int = FIRST_WAIT_MS << (self.failures - 1)
        return min(LONGEST_WAIT_MS, doubled)

    def progressed(self) -> None:
        """Note a finished batch: the next failure is a new one."""
        self.failures = 0
