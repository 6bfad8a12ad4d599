"""A consumer of the classic protocol in a group that changes its protocol: eager or cooperative."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.simulation.consumer_world import GROUP, Partition, World

from ottla.coordinator.effects import Step
from ottla.coordinator.group.consumer.group import Topics
from ottla.coordinator.group.consumer.partitions import each_of, grouped
from ottla.coordinator.group.embedded_protocol import by_topic_id, encode_assignment
from ottla.coordinator.group.machine import GroupMachine
from ottla.coordinator.group.requests import (
    JoinedMember,
    JoinRequest,
    JoinResult,
    LeavingMember,
    SyncRequest,
    SyncResult,
)
from ottla.protocol.consumer_protocol import decode_assignment, decode_subscription
from ottla.protocol.errors import (
    IllegalGeneration,
    KafkaError,
    MemberIdRequired,
    RebalanceInProgress,
    UnknownMemberId,
)


class ClassicClient:
    """One process, with dynamic membership."""

    def __init__(self, world: World, name: str, *, is_cooperative: bool) -> None:
        self.world = world
        self.name = name
        self.topics: tuple[str, ...] = ("orders", "payments")
        self.is_running = False
        self.member_id = ""
        self.owned: set[Partition] = set()
        self._is_cooperative = is_cooperative
        self._protocol = "cooperative-sticky" if is_cooperative else "range"
        self._run = 0
        self._generation_id = -1
        self._is_stalled = False
        self._has_changed = False
        self._assigned_of: Topics | None = None
        """The topics that this member assigned, if it led the group: it has to notice when they change."""
        world.after(world.random.randint(0, 20_000), self.start)

    # Life

    def start(self) -> None:
        """Begin a new life."""
        self._run += 1
        self.is_running = True
        self._is_stalled = False
        self._lose()
        self._join()
        self._later(self.world.random.randint(1000, 30_000), self._misbehave)

    def stop(self) -> None:
        """Die without a word."""
        self._run += 1
        self.is_running = False
        self.owned = set()

    def recover(self) -> None:
        """Be well behaved from now on."""
        self._is_stalled = False

    def _lose(self) -> None:
        self.owned = set()
        self.member_id, self._generation_id = "", -1

    def _misbehave(self) -> None:
        world, dice = self.world, self.world.random
        if world.is_calm:
            return
        self._later(dice.randint(1000, 30_000), self._misbehave)
        if dice.random() > world.faults:
            return
        match dice.choice(("crash", "leave", "stall", "change", "topics")):
            case "crash":
                self.stop()
                world.after(dice.randint(100, 60_000), self._revive)
            case "leave":
                leaver = (LeavingMember(self.member_id),)
                self.owned = set()
                self._send(GroupMachine.leave, (GROUP, leaver), lambda _: None)
                self.stop()
                world.after(dice.randint(100, 40_000), self._revive)
            case "stall":
                self._is_stalled = True
                self._later(dice.randint(1000, 60_000), self.recover)
            case "change":
                self.topics = dice.choice((("orders",), ("orders", "payments")))
                self._has_changed = True
            case "topics":
                world.change_topics()

    def _revive(self) -> None:
        if not self.is_running and not self.world.is_calm:
            self.start()

    # Talk

    def _later(self, delay_ms: int, action: Callable[[], None]) -> None:
        run = self._run
        self.world.after(delay_ms, lambda: action() if run == self._run else None)

    def _send(self, event: Callable[..., Step], args: tuple[Any, ...], answer: Callable[[Any], None]) -> None:
        run = self._run

        def receive(response: Any) -> None:
            if run != self._run:
                return
            if self._is_stalled:
                self._later(100, lambda: receive(response))
            else:
                answer(response)

        self.world.send(self.name, event, args, receive)

    def _named(self) -> tuple[tuple[str, tuple[int, ...]], ...]:
        names = self.world.image.names_by_id
        held = grouped(self.owned)
        return tuple(
            (names[topic_id], tuple(sorted(held[topic_id]))) for topic_id in held if topic_id in names
        )

    def _join(self) -> None:
        self._has_changed = False
        self._assigned_of = None
        if not self._is_cooperative:
            self.owned = set()
        names = self.world.image.names_by_id
        self.owned = {each for each in self.owned if each[0] in names}  # topics that are gone are gone
        request = JoinRequest(
            GROUP,
            self.member_id,
            None,
            self.name,
            "/127.0.0.1",
            10_000,
            30_000,
            "consumer",
            ((self._protocol, _subscription(self.topics, self._named())),),
            f"{next(self.world.ids)}",
        )
        self._send(GroupMachine.join, (request,), self._joined)

    def _joined(self, response: Any) -> None:
        match response:
            case JoinResult():
                self.member_id, self._generation_id = response.member_id, response.generation_id
                assignments: tuple[tuple[str, bytes], ...] = ()
                if response.leader_id == self.member_id:
                    assignments = self._assign(response.members)
                request = SyncRequest(
                    GROUP, self.member_id, None, self._generation_id, "consumer", self._protocol, assignments
                )
                self._send(GroupMachine.sync, (request,), self._synced)
            case MemberIdRequired():
                self.member_id = response.member_id
                self._join()
            case _:
                self._fail(response)

    def _synced(self, response: Any) -> None:
        if not isinstance(response, SyncResult):
            self._fail(response)
            return
        named = decode_assignment(response.assignment).partitions
        assigned = set(each_of(by_topic_id(named, self.world.image.topics)))
        has_lost = not self.owned <= assigned
        self.owned = assigned
        if has_lost and self._is_cooperative:
            self._later(10, self._join)
        else:
            self._later(1000, self._beat)

    def _beat(self) -> None:
        if self._is_stalled:
            self._later(100, self._beat)
            return
        if self._has_changed or (
            self._assigned_of is not None and self._assigned_of != self.world.image.topics
        ):
            self._join()
            return
        args = (GROUP, self.member_id, None, self._generation_id)
        self._send(GroupMachine.heartbeat, args, self._beaten)

    def _beaten(self, response: Any) -> None:
        if response is None:  # alive, or the connection is broken: the next heartbeat tells
            self._later(1000, self._beat)
        elif isinstance(response, RebalanceInProgress):
            self._join()
        else:
            self._fail(response)

    def _fail(self, response: KafkaError | None) -> None:
        match response:
            case UnknownMemberId():
                self._lose()
            case IllegalGeneration():
                self.owned = set()
                self._generation_id = -1
        self._later(300, self._join)

    # The leader of a classic group

    def _assign(self, members: tuple[JoinedMember, ...]) -> tuple[tuple[str, bytes], ...]:
        """Assign in turn; cooperative members get nothing that another member has not given up yet."""
        topics = self._assigned_of = self.world.image.topics
        wanted = {each.member_id: decode_subscription(each.metadata) for each in members}
        owner = {
            partition: member_id
            for member_id, subscription in wanted.items()
            for partition in each_of(by_topic_id(subscription.owned, topics))
        }
        shares: dict[str, list[Partition]] = {member_id: [] for member_id in wanted}
        for topic in topics.values():
            readers = sorted(
                each for each, subscription in wanted.items() if topic.name in subscription.topics
            )
            for part in topic.partitions if readers else ():
                taker = readers[part.index % len(readers)]
                partition = (topic.topic_id, part.index)
                if not self._is_cooperative or owner.get(partition, taker) == taker:
                    shares[taker].append(partition)
        image = self.world.image
        return tuple((each, encode_assignment(grouped(share), image, 1)) for each, share in shares.items())


def _subscription(topics: tuple[str, ...], owned: tuple[tuple[str, tuple[int, ...]], ...]) -> bytes:
    def text(value: str) -> bytes:
        return len(value).to_bytes(2, "big") + value.encode()

    def number(value: int) -> bytes:
        return value.to_bytes(4, "big", signed=True)

    data = b"\x00\x01" + number(len(topics)) + b"".join(map(text, topics)) + number(-1) + number(len(owned))
    for name, indexes in owned:
        data += text(name) + number(len(indexes)) + b"".join(map(number, indexes))
    return data
