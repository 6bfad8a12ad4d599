"""A coordinator in virtual time: its machine, its log, its timers, and requests that take their time.

Everything random comes from one seed. What kinds of groups live in it, which faults there are and what is
promised say the worlds made of this one.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable
from itertools import count
from typing import Any

from ottla.common.config.broker import BrokerConfig
from ottla.coordinator.effects import Reply, SetTimer, Step, TimerKey
from ottla.coordinator.group.machine import GroupMachine
from ottla.coordinator.group.record_codec import decode_record, encode_record
from ottla.coordinator.group.records import Record
from ottla.metadata.image import ClusterImage
from ottla.protocol.errors import CoordinatorNotAvailable, KafkaError, NotCoordinator

Answer = Callable[[Any], None]


class CoordinatorWorld:
    """The coordinator, its log, and the time."""

    def __init__(self, seed: int, faults: float, disk_faults: float, config: BrokerConfig) -> None:
        self.random = random.Random(seed)
        self.now_ms = 1_000_000
        self.faults = faults
        self.is_calm = False
        self.config = config
        self.image = ClusterImage(version=1)
        self.log: list[Record] = []
        self._disk_faults = disk_faults
        self._events: list[tuple[int, int, Callable[[], None]]] = []
        self._order = count()
        self._tokens = count(1)
        self._parked: dict[int, Answer] = {}
        self._timers: dict[TimerKey, int] = {}

    def begin(self, image: ClusterImage) -> None:
        """Start the coordinator with an empty log; a shadow knows only what is in the log."""
        self.image = image
        self.machine = GroupMachine(self.config, image)
        self.shadow = GroupMachine(self.config, image)
        self.take(self.machine.loaded(self.now_ms))

    # Time

    def after(self, delay_ms: int, action: Callable[[], None]) -> None:
        """Do something later."""
        heapq.heappush(self._events, (self.now_ms + delay_ms, next(self._order), action))

    def run(self, milliseconds: int) -> None:
        """Let time pass."""
        until_ms = self.now_ms + milliseconds
        while self._events and self._events[0][0] <= until_ms:
            at_ms, _, action = heapq.heappop(self._events)
            self.now_ms = max(self.now_ms, at_ms)
            action()
            self.check_members()
        self.now_ms = until_ms

    def happens(self, probability: float) -> bool:
        """Throw the dice, while there are faults."""
        return not self.is_calm and self.random.random() < probability

    # The runtime

    def receive(self, event: Callable[..., Step], args: tuple[Any, ...], answer: Answer) -> None:
        """Give a request to the machine; the answer takes its time."""
        token = next(self._tokens)

        def answer_later(response: Any) -> None:
            self.after(self.random.randint(0, 20), lambda: answer(response))

        self._parked[token] = answer_later
        try:
            self.take(event(self.machine, self.now_ms, token, *args))
        except KafkaError as error:
            self.settle_reply(Reply(token, error))

    def take(self, step: Step) -> None:
        """Carry out what the machine wants."""
        if step.records and self.happens(self._disk_faults):
            raise CoordinatorNotAvailable("the disk is full")
        for record in step.records:
            assert isinstance(record, Record)
            stored = decode_record(*encode_record(record))
            assert stored == record
            self.log.append(record)
            self.machine.replay(record)
            self.shadow.replay(record)
        for change in step.changes:
            self.machine.apply(change)
        for timer in step.timers:
            if isinstance(timer, SetTimer):
                self._timers[timer.key] = timer.at_ms
                self.after(timer.at_ms - self.now_ms, lambda key=timer.key: self._fire(key))  # type: ignore[misc]
            else:
                self._timers.pop(timer.key, None)
        self.send_replies(step)
        if step.records or step.changes:
            self.check_group()

    def send_replies(self, step: Step) -> None:
        """Answer what a step answers: at once, unless a world is more like a cluster."""
        for reply in step.replies:
            self.settle_reply(reply)

    def settle_reply(self, reply: Reply) -> None:
        """Answer a request; a token is answered once."""
        self._parked.pop(reply.token)(reply.response)

    def _fire(self, key: TimerKey) -> None:
        at_ms = self._timers.get(key)
        if at_ms is None or at_ms > self.now_ms:
            return
        del self._timers[key]
        try:
            self.take(self.machine.on_timer(self.now_ms, key))
        except KafkaError:
            self._timers[key] = self.now_ms + 1000
            self.after(1000, lambda: self._fire(key))

    def fail_over(self) -> None:
        """Let the coordinator crash, and another one load its log; who waited looks for the new one."""
        self._timers.clear()
        parked, self._parked = self._parked, {}
        for answer in parked.values():
            answer(NotCoordinator("crashed"))
        self.machine = GroupMachine(self.config, self.image)
        self.shadow = GroupMachine(self.config, self.image)
        for record in self.log:
            self.machine.replay(record)
            self.shadow.replay(record)
        self.take(self.machine.loaded(self.now_ms))

    # Promises

    def check_members(self) -> None:
        """Look at what the members believe, after every event."""

    def check_group(self) -> None:
        """Look at the group, after every change."""
