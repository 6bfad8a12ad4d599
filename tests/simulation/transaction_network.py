"""Virtual time, and a network that loses, delays, doubles and reorders what is sent over it.

An *orderly* network does what TCP and a client that waits for its answers make of it: a request arrives soon,
once, or never. The classic transaction protocol needs that. A wild one may deliver a request long after its
sender has given up on it, and twice.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable
from itertools import count
from typing import Any

ANSWERED_WITHIN_MS = 400
LATE_MS = 4_000

Action = Callable[[], None]
Answer = Callable[[Any], None]


class NoAnswer(Exception):
    """Nothing was heard in time."""


class Network:
    """The clock, and everything that is on its way."""

    def __init__(self, seed: int, faults: float, is_orderly: bool) -> None:
        self.random = random.Random(seed)
        self.now_ms = 1_700_000_000_000
        self.faults = faults
        self.is_orderly = is_orderly
        self._events: list[tuple[int, int, Action]] = []
        self._order = count()

    def after(self, delay_ms: int, action: Action) -> None:
        """Do something later."""
        heapq.heappush(self._events, (self.now_ms + delay_ms, next(self._order), action))

    def run_next(self, until_ms: int) -> bool:
        """Let time pass to the next event; return whether there was one in time."""
        if not self._events or self._events[0][0] > until_ms:
            self.now_ms = until_ms
            return False
        at_ms, _, action = heapq.heappop(self._events)
        self.now_ms = max(self.now_ms, at_ms)
        action()
        return True

    def happens(self, probability: float) -> bool:
        """Toss a coin."""
        return self.random.random() < probability

    def send(self, deliver: Action) -> None:
        """Let something arrive, or not, or twice."""
        if self.happens(self.faults * 0.15):
            return
        self.after(self._delay_ms(), deliver)
        if not self.is_orderly and self.happens(self.faults * 0.3):
            self.after(self._delay_ms(), deliver)

    def call(self, handle: Callable[[Answer], None], answered: Answer) -> None:
        """Send a request; its answer, or NoAnswer, comes once."""
        is_waiting = True

        def hear(response: Any) -> None:
            nonlocal is_waiting
            if is_waiting:
                is_waiting = False
                answered(response)

        self.send(lambda: handle(lambda response: self.send(lambda: hear(response))))
        self.after(ANSWERED_WITHIN_MS, lambda: hear(NoAnswer()))

    def _delay_ms(self) -> int:
        choice = self.random.random()
        if self.is_orderly or self.faults == 0 or choice < 0.8:
            return self.random.randint(0, 20)
        return self.random.randint(20, LATE_MS if choice > 0.95 else ANSWERED_WITHIN_MS)
