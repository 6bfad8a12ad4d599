"""How much of a workload is run: everything, or a quick look; all cases, or some."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

QUICK_PART = 0.05


@dataclass(frozen=True)
class Scale:
    """What was asked for on the command line."""

    is_quick: bool = False
    cases: Sequence[str] = ()
    """Patterns; a case is run if its name has one of them somewhere. None: all."""

    def count(self, full: int) -> int:
        """Return how many records, requests or partitions of a full run to take."""
        return max(1_000, int(full * QUICK_PART)) if self.is_quick else full

    def wants(self, case: str) -> bool:
        """Return whether a case is to be run."""
        return not self.cases or any(re.search(pattern, case) for pattern in self.cases)
