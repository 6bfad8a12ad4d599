"""What `make bench` cost before: CPU per unit of work, stored, so that a regression is seen on any machine.

Costs are divided by what a fixed piece of work takes on the machine at hand, so a slower machine is no
regression. Wall time is not compared: it belongs to the neighbours as well.
"""

from __future__ import annotations

import json
import time
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

FILE = Path(__file__).with_name("baseline.json")
WORSE = 1.25
"""From this ratio on a cost is flagged: runs of the same code on a quiet machine differ by less."""
GROWN_S = 0.05
"""And only if it took so much more CPU: the system counts in hundredths of a second."""
CALIBRATIONS = 5


class Compared(NamedTuple):
    """One cost beside the one of before."""

    name: str
    before: float
    now: float
    spent_s: float
    """CPU seconds in which `now` was measured."""

    @property
    def ratio(self) -> float:
        """Now : before."""
        return self.now / self.before if self.before else 1.0

    @property
    def is_worse(self) -> bool:
        """Whether it is worth a flag."""
        return self.ratio > WORSE and self.spent_s * (1 - 1 / self.ratio) > GROWN_S


class Costs:
    """CPU costs of one run, in units of the machine's speed."""

    def __init__(self) -> None:
        self._unit_s = min(_calibrate() for _ in range(CALIBRATIONS))
        self.found: dict[str, float] = {}
        self.spent_s: dict[str, float] = {}

    def note(self, name: str, spent_s: float, amount: int) -> None:
        """Note what an amount of work cost, in CPU seconds; a million of it is what is compared."""
        self.found[name] = round(spent_s / amount * 1e6 / self._unit_s, 2)
        self.spent_s[name] = spent_s

    def store(self, file: Path = FILE) -> None:
        """Make these the costs to compare with; costs that this run did not look at stay."""
        stored = {**_stored(file), **self.found}
        file.write_text(json.dumps(stored, indent=1, sort_keys=True) + "\n")

    def compared(self, file: Path = FILE) -> Iterator[Compared]:
        """Yield every cost that was also stored."""
        stored = _stored(file)
        for name, now in self.found.items():
            if name in stored:
                yield Compared(name, stored[name], now, self.spent_s[name])


def _stored(file: Path) -> dict[str, float]:
    return dict(json.loads(file.read_text())) if file.exists() else {}


def _calibrate() -> float:
    """Return the CPU seconds of a fixed piece of work: objects and bytes, as in a broker."""
    began = time.process_time()
    data = bytes(1 << 16)
    for number in range(20_000):
        parts = {"offset": number, "size": len(data)}
        parts["end"] = parts["offset"] + parts["size"]
        if number % 50 == 0:
            zlib.crc32(data)
    return time.process_time() - began
