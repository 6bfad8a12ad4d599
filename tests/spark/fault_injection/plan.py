"""Which faults strike, in which order, how long after a batch has begun: all drawn from one seed."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from itertools import count


class Kind(StrEnum):
    """What is done to whom."""

    DRIVER = "kill -9 of the driver's JVM"
    WORKER = "kill -9 of a Python worker"
    EXECUTOR = "kill -9 of an executor"
    BROKER = "kill -9 of a broker"
    TERMINATE = "SIGTERM to the driver"


@dataclass(frozen=True)
class Fault:
    """One of them."""

    kind: Kind
    delay_s: float
    """From the moment at which a batch has begun."""
    away_s: float
    """How long a broker stays dead."""
    choice: float
    """Which of several candidates is struck, as a part of 1."""


SHARES: Mapping[Kind, int] = {Kind.DRIVER: 3, Kind.WORKER: 4, Kind.BROKER: 3, Kind.TERMINATE: 1}
ON_CLUSTER: Mapping[Kind, int] = {**SHARES, Kind.EXECUTOR: 4}
"""With executors of their own."""
MAX_DELAY_S = 3.0
MAX_AWAY_S = 2.0


def draw(seed: int, kills: int, shares: Mapping[Kind, int] = SHARES) -> list[Fault]:
    """Return the faults of a run: every kind at least once if there is room, the rest by their shares."""
    chance = random.Random(seed)
    kinds = list(shares)[:kills]
    kinds += chance.choices(list(shares), list(shares.values()), k=kills - len(kinds))
    chance.shuffle(kinds)
    return [
        Fault(kind, chance.uniform(0, MAX_DELAY_S), chance.uniform(0, MAX_AWAY_S), chance.random())
        for kind in kinds
    ]


def draw_forever(seed: int, shares: Mapping[Kind, int] = SHARES) -> Iterator[Fault]:
    """Yield faults without end: every kind in each round, in an order drawn from the seed."""
    for number in count():
        yield from draw(seed * 1_000 + number, sum(shares.values()), shares)
