"""How much of a workload is run: how many records, and which cases."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

HOUR_PART, QUICK_PART = 0.5, 0.05


@dataclass(frozen=True)
class Scale:
    """What was asked for on the command line."""

    part: float = 1.0
    """Of the records of a full run: of a half every case takes seconds, and the whole of them an hour."""
    cases: Sequence[str] = ()
    """Patterns; a case is run if its name has one of them somewhere. None: all."""
    keeps: Callable[[str], bool] = lambda _case: True
    """Which cases are measured in this turn."""

    @property
    def is_quick(self) -> bool:
        """Whether this is but a look: what is cold then is not warmed, and names state other sizes."""
        return self.part <= QUICK_PART

    def count(self, full: int) -> int:
        """Return how many records or requests of a full run to take."""
        return max(1_000, int(full * self.part))

    def exact(self, stated: int) -> int:
        """Return an amount that belongs to the case itself, or to warming up: only a quick look cuts it."""
        return self.count(stated) if self.is_quick else stated

    def wants(self, case: str) -> bool:
        """Return whether a case is to be run."""
        return self.keeps(case) and (not self.cases or any(re.search(each, case) for each in self.cases))
