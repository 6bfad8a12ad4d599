"""A world in virtual time: one group, its coordinator, and members that join, stall, crash and restart.

Everything random comes from one seed. The world checks after every step that the machine has kept its
promises, and `settle` shows in the end that whatever happened, the group finds its peace.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.simulation.classic_client import GROUP, PARTITIONS, TOPIC, Client
from tests.simulation.coordinator_world import Answer, CoordinatorWorld

from ottla.common.config.broker import BrokerConfig
from ottla.coordinator.effects import Step
from ottla.coordinator.group.classic.group import ClassicGroup, State
from ottla.coordinator.group.classic.record import record_of
from ottla.metadata.image import ClusterImage, TopicImage

CONFIG = BrokerConfig({"group.initial.rebalance.delay.ms": "500", "group.max.size": "6"})
IMAGE = ClusterImage(topics={TOPIC: TopicImage(TOPIC, None, ())})  # type: ignore[arg-type]


class World(CoordinatorWorld):
    """The coordinator, its log, and everybody who talks to it."""

    def __init__(self, seed: int, clients: int, faults: float) -> None:
        super().__init__(seed, faults, faults / 20, CONFIG)
        self.owners: dict[tuple[int, int], str] = {}  # by generation and partition
        self.begin(IMAGE)
        self.clients = [Client(self, f"c{index}") for index in range(clients)]

    def settle(self) -> None:
        """End all faults, let time pass, and see that the group works."""
        self.is_calm = True
        for client in self.clients:
            client.recover()
        self.run(45_000)
        group = self.group
        living = {client.name for client in self.clients if client.is_running}
        assert len(living) == 0 or group is not None
        if group is not None and living:
            assert group.state is State.STABLE, f"{group.state} with {living}"
            owned = sorted(each for client in self.clients for each in client.partitions)
            assert owned == list(range(PARTITIONS)), f"owned are {owned}"
        for client in self.clients:
            client.stop()
        self.run(600_000)
        assert not self._parked, f"{len(self._parked)} requests were never answered"

    def send(self, method: Callable[..., Step], args: tuple[Any, ...], answer: Answer) -> None:
        """Send a request to the coordinator; it and its answer take their time."""
        self.after(self.random.randint(0, 20), lambda: self.receive(method, args, answer))

    # Promises

    @property
    def group(self) -> ClassicGroup | None:
        """The group, if it exists."""
        group = self.machine.groups.get(GROUP)
        assert group is None or isinstance(group, ClassicGroup)
        return group

    def owns(self, owner: str, generation_id: int, partitions: list[int]) -> None:
        """Record an assignment; no other member may have it in the same generation."""
        for partition in partitions:
            known = self.owners.setdefault((generation_id, partition), owner)
            assert known == owner, f"{known} and {owner} own {partition} in generation {generation_id}"

    def check_group(self) -> None:
        """See that the group is what its records say."""
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
