"""A world in virtual time: one group, members of both protocols, topics that come and go, and a coordinator.

Everything random comes from one seed. Requests and answers get lost, members stall, crash and come back,
and the coordinator fails, taking with it what was not committed yet. After every event the world looks at
what the members themselves believe to have: no partition may be owned by two members of the group. And it
looks at the group: it is what its records say, no more and no less.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Any, Protocol
from uuid import UUID

from tests.simulation.coordinator_world import Answer, CoordinatorWorld

from ottla.common.config.broker import BrokerConfig
from ottla.coordinator.effects import Reply, Step
from ottla.coordinator.group.classic.group import ClassicGroup, State
from ottla.coordinator.group.classic.record import record_of
from ottla.coordinator.group.consumer.group import ConsumerGroup, ConsumerState
from ottla.coordinator.group.consumer.member import MemberState
from ottla.coordinator.group.consumer.partitions import each_of
from ottla.metadata.image import ClusterImage, PartitionImage, TopicImage, diff_images

GROUP = "g"
CONFIG = BrokerConfig(
    {
        "group.initial.rebalance.delay.ms": "500",
        "group.consumer.heartbeat.interval.ms": "5000",
        "group.consumer.session.timeout.ms": "45000",
        "group.consumer.max.size": "7",
    }
)

Partition = tuple[UUID, int]


class Client(Protocol):
    """A process that is a member, or wants to be one."""

    name: str
    member_id: str
    owned: set[Partition]
    topics: tuple[str, ...]
    is_running: bool

    def recover(self) -> None:
        """Be well behaved from now on."""
        ...

    def stop(self) -> None:
        """Die without a word."""
        ...


class World(CoordinatorWorld):
    """The coordinator, its log, the cluster, and everybody who talks to it."""

    def __init__(self, seed: int, faults: float) -> None:
        super().__init__(seed, faults, faults / 40, CONFIG)
        self.clients: list[Client] = []
        self.ids = count()
        self._committed = 0
        self._topics = {"orders": 5, "payments": 2}
        self._ids: dict[str, int] = {}
        self._unsent: list[tuple[int, Reply]] = []
        self._busy_until: dict[str, int] = {}
        self._make_image()
        self.begin(self.image)

    # Requests

    def send(self, name: str, event: Callable[..., Step], args: tuple[Any, ...], answer: Answer) -> None:
        """Send a request; those of one client arrive in order. An answer of None is a broken connection."""
        at_ms = max(self.now_ms + self.random.randint(0, 20), self._busy_until.get(name, 0))
        self._busy_until[name] = at_ms
        if self.happens(self.faults / 20):
            self.after(at_ms - self.now_ms + 1000, lambda: answer(None))
        elif self.happens(self.faults / 20):
            self.after(at_ms - self.now_ms, lambda: self.receive(event, args, lambda _: None))
            self.after(at_ms - self.now_ms + 3000, lambda: answer(None))
        else:
            self.after(at_ms - self.now_ms, lambda: self.receive(event, args, answer))

    # The runtime

    def send_replies(self, step: Step) -> None:
        """Let records be committed a little later; until then they have no effect."""
        self._unsent.extend((len(self.log), reply) for reply in step.replies)
        end = len(self.log)
        self.after(self.random.randint(0, 10), lambda: self._commit(end))

    def _commit(self, end: int) -> None:
        """Let all below `end` be committed; what was answered on that condition is sent."""
        self._committed = max(self._committed, min(end, len(self.log)))
        ready = [reply for at, reply in self._unsent if at <= self._committed]
        self._unsent = [(at, reply) for at, reply in self._unsent if at > self._committed]
        for reply in ready:
            self.settle_reply(reply)

    def settle_reply(self, reply: Reply) -> None:
        """Answer a request, unless the coordinator that got it has crashed since."""
        if reply.token in self._parked:
            super().settle_reply(reply)

    def fail_over(self) -> None:
        """Let the coordinator crash; another one loads what was committed, and maybe some more."""
        del self.log[self.random.randint(self._committed, len(self.log)) :]
        self._committed = len(self.log)
        self._unsent.clear()
        super().fail_over()

    # Topics

    def change_topics(self) -> None:
        """Create, enlarge or delete a topic."""
        match self.random.choice(("create", "grow", "delete", "nothing")):
            case "create":
                name = self.random.choice(("orders", "payments", "invoices", "other"))
                if name not in self._topics:
                    self._topics[name] = self.random.randint(1, 4)
                    self._ids[name] = self._ids.get(name, 0) + 1
            case "grow":
                name = self.random.choice(sorted(self._topics))
                self._topics[name] = min(self._topics[name] + self.random.randint(1, 3), 9)
            case "delete" if len(self._topics) > 1:
                del self._topics[self.random.choice(sorted(self._topics))]
        self._make_image()
        old = self.machine.image
        self.take(self.machine.new_image(self.now_ms, self.image, diff_images(old, self.image)))

    def _make_image(self) -> None:
        made = {}
        for name, size in self._topics.items():
            topic_id = UUID(bytes=f"{name}#{self._ids.get(name, 0)}".encode().ljust(16, b"\0")[:16])
            partitions = tuple(PartitionImage(index, 0, 0, (0,), (0,), 0) for index in range(size))
            made[name] = TopicImage(name, topic_id, partitions)
        self.image = ClusterImage(
            version=self.image.version + 1,
            topics=made,
            names_by_id={each.topic_id: each.name for each in made.values()},
        )

    # Promises

    def check_members(self) -> None:
        """See that no two members have the same partition; a removed member may not know it yet."""
        group = self.machine.groups.get(GROUP)
        members = getattr(group, "members", {})
        owners: dict[Partition, str] = {}
        for client in self.clients:
            if client.is_running and client.member_id in members:
                for partition in client.owned:
                    other = owners.setdefault(partition, client.name)
                    assert other == client.name, f"{other} and {client.name} have {partition}"

    def check_group(self) -> None:
        """See that the group is what its records say, no more and no less."""
        live, stored = self.machine.groups.get(GROUP), self.shadow.groups.get(GROUP)
        assert self.machine.groups.keys() == self.shadow.groups.keys()
        if isinstance(live, ConsumerGroup):
            assert isinstance(stored, ConsumerGroup)
            live = live.copy()
            live.seen_topics, live.rejoining = stored.seen_topics, stored.rejoining
            live.seen_acls, live.unheard = stored.seen_acls, stored.unheard
            live._names = stored._names
            assert live == stored
            self._check_consumers(live)
        elif isinstance(live, ClassicGroup):
            assert isinstance(stored, ClassicGroup)
            if live.state in (State.STABLE, State.EMPTY):
                assert record_of(live) == record_of(stored)

    def _check_consumers(self, group: ConsumerGroup) -> None:
        owners: dict[Partition, str] = {}
        for member in group.members.values():
            current = member.current
            for partition in each_of(current.held):
                assert owners.setdefault(partition, member.member_id) == member.member_id
            assert current.epoch <= group.epoch
            assert ("session", GROUP, member.member_id) in self._timers
            is_revoking = current.state is MemberState.UNREVOKED_PARTITIONS
            if is_revoking and not member.is_classic and current.epoch >= 0:
                assert ("revoke", GROUP, member.member_id) in self._timers
            assert is_revoking or not current.revoking
        assert owners == group.owners
        assert group.target_epoch <= group.epoch
        assert set(group.targets) <= set(group.members)
        if group.target_epoch == group.epoch:  # else it may be half written, and is made anew
            targets = [partition for each in group.targets.values() for partition in each_of(each)]
            assert len(targets) == len(set(targets)), "a partition is to have one owner"
        instances = {each.instance_id: each.member_id for each in group.members.values() if each.instance_id}
        assert instances == group.instances
        assert len(group.members) <= CONFIG.group_consumer_max_size

    def settle(self) -> None:
        """End all faults, let time pass, and see that the group has found its peace."""
        self.is_calm = True
        for client in self.clients:
            client.recover()
        self.run(150_000)
        living = [client for client in self.clients if client.is_running]
        if living:
            self._check_peace(living)
        for client in self.clients:
            client.stop()
        self.run(600_000)
        assert not self._parked, f"{len(self._parked)} requests were never answered"
        left = self.machine.groups.get(GROUP)
        assert left is None or left.is_empty

    def _check_peace(self, living: list[Client]) -> None:
        group = self.machine.groups[GROUP]
        assert isinstance(group, ConsumerGroup | ClassicGroup)
        members = [client for client in living if client.member_id in group.members]
        if isinstance(group, ConsumerGroup):
            assert group.state is ConsumerState.STABLE
            assert len(members) == len(group.members), "there are members that do not exist"
            assert len(members) == min(len(living), CONFIG.group_consumer_max_size)
        else:
            assert group.state is State.STABLE
            assert len(members) == len(living)
        topics = self.image.topics
        wanted = {name for client in members for name in client.topics if name in topics}
        expected = {
            (topics[name].topic_id, each.index) for name in wanted for each in topics[name].partitions
        }
        owned = sorted(partition for client in members for partition in client.owned)
        assert owned == sorted(expected), "something is not had, or should not be"
        for client in members:
            assert {topic_id for topic_id, _ in client.owned} <= {
                topics[name].topic_id for name in client.topics if name in topics
            }
