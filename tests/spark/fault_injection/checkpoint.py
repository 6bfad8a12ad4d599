"""How far a streaming query is, read from its checkpoint: true whoever runs it, or nobody."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

Offsets = dict[str, dict[str, int]]


@dataclass(frozen=True)
class Checkpoint:
    """The folder that a query keeps."""

    folder: Path

    def begun(self) -> int:
        """Return how many batches have begun."""
        return 1 + max(self._batches("offsets"), default=-1)

    def committed(self) -> int:
        """Return how many batches have ended."""
        return 1 + max(self._batches("commits"), default=-1)

    def committed_offsets(self) -> Offsets:
        """Return where the last ended batch has ended, by topic and partition."""
        last = self.committed() - 1
        if last < 0:
            return {}
        lines = (self.folder / "offsets" / str(last)).read_text().splitlines()
        found: Offsets = json.loads(lines[-1])
        return found

    def _batches(self, log: str) -> list[int]:
        path = self.folder / log
        return [int(each.name) for each in path.iterdir() if each.name.isdigit()] if path.is_dir() else []
