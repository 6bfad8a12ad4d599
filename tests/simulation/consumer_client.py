"""A consumer of the consumer protocol, as the coordinator sees one, with all that can go wrong in it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.simulation.consumer_world import GROUP, Partition, World

from ottla.coordinator.group.consumer import events
from ottla.coordinator.group.consumer.partitions import each_of, grouped
from ottla.coordinator.group.consumer.requests import Heartbeat, HeartbeatRequest
from ottla.protocol.errors import (
    FencedInstanceId,
    FencedMemberEpoch,
    GroupIdNotFound,
    GroupMaxSizeReached,
    KafkaError,
    UnknownMemberId,
    UnreleasedInstanceId,
)

HEARTBEAT_MS = 5000
REGEXES = {"o.*|pay.*": ("orders", "other", "payments"), ".*": ("invoices", "orders", "other", "payments")}


class ConsumerClient:
    """One process. `_run` counts its lives: what was meant for an earlier one is not received."""

    def __init__(self, world: World, name: str, *, is_static: bool) -> None:
        self.world = world
        self.name = name
        self.instance_id = f"i-{name}" if is_static else None
        self.is_running = False
        self.member_id = ""
        self.owned: set[Partition] = set()
        self.topics: tuple[str, ...] = ()
        self._run = 0
        self._epoch = 0
        self._is_stalled = False
        self._regex: str | None = None
        self._names: tuple[str, ...] = ()
        self._assignor: str | None = None
        self._choose()
        self._forget()
        world.after(world.random.randint(0, 20_000), self.start)

    def _forget(self) -> None:
        """Give up everything; the next heartbeat joins."""
        self._epoch = 0
        self.owned = set()
        self._target: set[Partition] | None = None
        self._reported: set[Partition] | None = None
        self._is_full = True
        self._life = next(self.world.ids)

    def _choose(self) -> None:
        """Choose what to subscribe to."""
        dice = self.world.random
        self._regex = dice.choice(list(REGEXES)) if dice.random() < 0.25 else ""
        names = dice.sample(("orders", "payments", "invoices"), dice.randint(0 if self._regex else 1, 2))
        self._names = tuple(names)
        self.topics = tuple({*self._names, *REGEXES.get(self._regex, ())})
        self._assignor = dice.choice((None, None, "uniform", "range"))
        self._is_full = True

    # Life

    def start(self) -> None:
        """Begin a new life."""
        self._run += 1
        self.member_id = f"{self.name}-{next(self.world.ids)}"
        self._forget()
        self._is_stalled = False
        self.is_running = True
        self._beat()
        self._later(self.world.random.randint(1000, 30_000), self._misbehave)

    def stop(self) -> None:
        """Die without a word."""
        self._run += 1
        self.is_running = False
        self.owned = set()

    def recover(self) -> None:
        """Be well behaved from now on, unless it is dead."""
        self._is_stalled = False

    def _misbehave(self) -> None:
        world, dice = self.world, self.world.random
        if world.is_calm:
            return
        self._later(dice.randint(1000, 30_000), self._misbehave)
        if dice.random() > world.faults:
            return
        match dice.choice(("crash", "restart", "leave", "stall", "change", "fail over", "topics", "forget")):
            case "crash":
                self.stop()
                world.after(dice.randint(100, 90_000), self._revive)
            case "restart":
                self.start()
            case "leave":
                self._leave()
            case "stall":
                self._is_stalled = True
                self._later(dice.randint(1000, 90_000), self.recover)
            case "change":
                self._choose()
            case "fail over":
                world.fail_over()
            case "topics":
                world.change_topics()
            case "forget":
                self._forget()

    def _revive(self) -> None:
        if not self.is_running and not self.world.is_calm:
            self.start()

    def _leave(self) -> None:
        self.owned = set()
        epoch = -1 if self.instance_id is None or self.world.random.random() < 0.3 else -2
        self._send(self._request(epoch), lambda _: None)
        self.stop()
        self.world.after(self.world.random.randint(100, 40_000), self._revive)

    # Heartbeats

    def _later(self, delay_ms: int, action: Callable[[], None]) -> None:
        run = self._run
        self.world.after(delay_ms, lambda: action() if run == self._run else None)

    def _send(self, request: HeartbeatRequest, answer: Callable[[Any], None]) -> None:
        run = self._run

        def receive(response: Any) -> None:
            if run != self._run:
                return
            if self._is_stalled:
                self._later(100, lambda: receive(response))
            else:
                answer(response)

        self.world.send(self.name, events.consumer_group_heartbeat, (request,), receive)

    def _request(self, epoch: int) -> HeartbeatRequest:
        is_full = self._is_full or epoch == 0
        owned = None
        if is_full or self.owned != self._reported:
            owned = grouped(self.owned)
        return HeartbeatRequest(
            GROUP,
            self.member_id,
            epoch,
            self.instance_id,
            None,
            30_000 if is_full else -1,
            self._names if is_full else None,
            self._regex if is_full else None,
            self._assignor if is_full else None,
            owned,
            self.name,
            "/127.0.0.1",
            "unused",
        )

    def _beat(self) -> None:
        if self._is_stalled:
            self._later(100, self._beat)
            return
        request, life = self._request(self._epoch), self._life
        self._is_full = False

        def answer(response: Any) -> None:
            delay_ms = HEARTBEAT_MS
            if life != self._life:
                delay_ms = 10  # it has given up everything since
            elif isinstance(response, Heartbeat):
                self._follow(response, request)
                delay_ms = 10 if self._epoch > 0 and self.owned != self._reported else HEARTBEAT_MS
            else:
                delay_ms = self._fail(response)
            self._later(delay_ms, self._beat)

        self._send(request, answer)

    def _follow(self, beat: Heartbeat, request: HeartbeatRequest) -> None:
        self._epoch = beat.member_epoch
        if request.owned is not None:
            self._reported = set(each_of(request.owned))
        if beat.assignment is None:
            return
        self._target = {(topic_id, index) for topic_id, indexes in beat.assignment for index in indexes}
        if self.owned <= self._target:
            self.owned = set(self._target)
            return
        life = self._life
        slow = self.world.happens(self.world.faults / 5)
        delay_ms = self.world.random.randint(0, 60_000 if slow else 2000)
        self._later(delay_ms, lambda: self._let_go() if life == self._life else None)

    def _let_go(self) -> None:
        """Give up what is not its own any more, which took a while, and take what is."""
        if self._target is not None:
            self.owned = set(self._target)

    def _fail(self, response: KafkaError | None) -> int:
        """React to an error; return after how long to try again."""
        match response:
            case FencedMemberEpoch() | UnknownMemberId() | GroupIdNotFound():
                self._forget()
                return 100
            case UnreleasedInstanceId() | GroupMaxSizeReached():
                self._forget()
                return 2000
            case FencedInstanceId():
                self.stop()
                self.world.after(5000, self._revive)
                return 0
        self._is_full = True
        return 500
