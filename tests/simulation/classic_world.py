"""A world in virtual time: one group, its coordinator, and members that join, stall, crash and come back.

Everything random comes from one seed. The world checks after every step that the machine has kept its
promises, and `settle` shows in the end that whatever happened, the group finds its peace.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable
from itertools import count
from typing import Any

from tests.simulation.classic_client import GROUP, PARTITIONS, TOPIC, Client

from ottla.common.broker_keys import BrokerConfig
from ottla.coordinator.effects import Reply, SetTimer, Step, TimerKey
from ottla.coordinator.group.classic import ClassicGroup
from ottla.coordinator.group.classic_member import State
from ottla.coordinator.group.classic_record import record_of
from ottla.coordinator.group.machine import GroupMachine
from ottla.coordinator.group.record_codec import decode_record, encode_record
from ottla.coordinator.group.records import Record
from ottla.metadata.image import ClusterImage, TopicImage
from ottla.protocol.errors import CoordinatorNotAvailable, KafkaError, NotCoordinator

CONFIG = BrokerConfig({"group.initial.rebalance.delay.ms": "500", "group.max.size": "6"})
IMAGE = ClusterImage(topics={TOPIC: TopicImage(TOPIC, None, ())})  # type: ignore[arg-type]

Answer = Callable[[Any], None]


class World:
    """The coordinator, its log, and everybody who talks to it."""

    def __init__(self, seed: int, clients: int, faults: float) -> None:
        self.random = random.Random(seed)
        self.now_ms = 1_000_000
        self.faults = faults
        self.log: list[Record] = []
        self.machine = GroupMachine(CONFIG, IMAGE)
        self.shadow = GroupMachine(CONFIG, IMAGE)
        self.owners: dict[tuple[int, int], str] = {}  # by generation and partition
        self.is_calm = False
        self._events: list[tuple[int, int, Callable[[], None]]] = []
        self._order = count()
        self._tokens = count(1)
        self._parked: dict[int, Answer] = {}
        self._timers: dict[TimerKey, int] = {}
        self._last_generation = 0
        self._take(self.machine.loaded(self.now_ms))
        self.clients = [Client(self, f"c{index}") for index in range(clients)]

    # Time

    def after(self, delay_ms: int, action: Callable[[], None]) -> None:
        """Do something later."""
        heapq.heappush(self._events, (self.now_ms + delay_ms, next(self._order), action))

    def run(self, until_ms: int) -> None:
        """Let time pass."""
        while self._events and self._events[0][0] <= until_ms:
            at_ms, _, action = heapq.heappop(self._events)
            self.now_ms = max(self.now_ms, at_ms)
            action()
        self.now_ms = until_ms

    def settle(self) -> None:
        """End all faults, let time pass, and see that the group works."""
        self.is_calm = True
        for client in self.clients:
            client.recover()
        self.run(self.now_ms + 45_000)
        group = self.group
        living = {client.name for client in self.clients if client.is_running}
        assert len(living) == 0 or group is not None
        if group is not None and living:
            assert group.state is State.STABLE, f"{group.state} with {living}"
            owned = sorted(each for client in self.clients for each in client.partitions)
            assert owned == list(range(PARTITIONS)), f"owned are {owned}"
        for client in self.clients:
            client.stop()
        self.run(self.now_ms + 600_000)
        assert not self._parked, f"{len(self._parked)} requests were never answered"

    # Requests

    def send(self, method: Callable[..., Step], args: tuple[Any, ...], answer: Answer) -> None:
        """Send a request to the coordinator; it and its answer take their time."""
        self.after(self.random.randint(0, 20), lambda: self._receive(method, args, answer))

    def _receive(self, method: Callable[..., Step], args: tuple[Any, ...], answer: Answer) -> None:
        token = next(self._tokens)

        def answer_later(response: Any) -> None:
            self.after(self.random.randint(0, 20), lambda: answer(response))

        self._parked[token] = answer_later
        try:
            self._take(method(self.machine, self.now_ms, token, *args))
        except KafkaError as error:
            self._settle(Reply(token, error))

    # The runtime

    def _take(self, step: Step) -> None:
        if step.records and self._happens(self.faults / 20):
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
                self.after(timer.at_ms - self.now_ms, lambda key=timer.key: self._fire(key))
            else:
                self._timers.pop(timer.key, None)
        for reply in step.replies:
            self._settle(reply)
        if step.records or step.changes:
            self._check_state()

    def _settle(self, reply: Reply) -> None:
        answer = self._parked.pop(reply.token)  # a token is answered once
        answer(reply.response)

    def _fire(self, key: TimerKey) -> None:
        at_ms = self._timers.get(key)
        if at_ms is None or at_ms > self.now_ms:
            return
        del self._timers[key]
        try:
            self._take(self.machine.on_timer(self.now_ms, key))
        except KafkaError:
            self._timers[key] = self.now_ms + 1000
            self.after(1000, lambda: self._fire(key))

    def fail_over(self) -> None:
        """Let the coordinator crash, and another one load its log; who waited looks for the new one."""
        self._timers.clear()
        parked, self._parked = self._parked, {}
        for answer in parked.values():
            answer(NotCoordinator("crashed"))
        self.machine = GroupMachine(CONFIG, IMAGE)
        for record in self.log:
            self.machine.replay(record)
        self._take(self.machine.loaded(self.now_ms))

    def _happens(self, probability: float) -> bool:
        return not self.is_calm and self.random.random() < probability

    # Promises

    @property
    def group(self) -> ClassicGroup | None:
        """The group, if it exists."""
        group = self.machine.groups.get(GROUP)
        assert group is None or isinstance(group, ClassicGroup)
        return group

    def owns(self, owner: str, generation_id: int, partitions: list[int]) -> None:
        """Take note of an assignment; nobody else may have it in the same generation."""
        for partition in partitions:
            known = self.owners.setdefault((generation_id, partition), owner)
            assert known == owner, f"{known} and {owner} own {partition} in generation {generation_id}"

    def _check_state(self) -> None:
        live, stored = self.group, self.shadow.groups.get(GROUP)
        assert self.machine.groups.keys() == self.shadow.groups.keys()
        assert self.machine.offsets.of_group(GROUP) == self.shadow.offsets.of_group(GROUP)
        if live is None:
            return
        assert isinstance(stored, ClassicGroup)
        if live.state in (State.STABLE, State.EMPTY):
            assert record_of(live) == record_of(stored)
        else:
            assert stored.generation_id <= live.generation_id
        self._check_shape(live)

    def _check_shape(self, group: ClassicGroup) -> None:
        if group.state is State.PREPARING_REBALANCE:
            assert len(group.members) <= 2 * CONFIG.group_max_size
        else:
            assert len(group.members) <= CONFIG.group_max_size
        assert group.leader_id in group.members or not group.members
        assert group.unsynced <= group.members.keys()
        assert not group.pending & group.members.keys()
        assert {each.member_id for each in group.members.values() if each.instance_id} == set(
            group.instances.values()
        )
        for member in group.members.values():
            is_joining = member.join_token is not None
            assert not is_joining or group.state is State.PREPARING_REBALANCE
            assert member.sync_token is None or group.state is State.COMPLETING_REBALANCE
            assert (
                is_joining
                or member.sync_token is not None
                or ("session", GROUP, member.member_id) in self._timers
            )
        if group.state is State.PREPARING_REBALANCE:
            assert ("join", GROUP) in self._timers
        if group.state is State.COMPLETING_REBALANCE:
            assert ("sync", GROUP) in self._timers
