"""A consumer, as the coordinator sees one: it joins, gets an assignment, sends heartbeats and commits.

What it gets wrong, it gets wrong at random: it stalls, crashes, leaves, restarts under its old instance id,
changes its mind about what it supports, and forgets to ask for its assignment.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ottla.coordinator.effects import Step
from ottla.coordinator.group.machine import GroupMachine
from ottla.coordinator.group.requests import (
    CommitRequest,
    Committed,
    JoinRequest,
    JoinResult,
    LeavingMember,
    OffsetToCommit,
    SyncRequest,
    SyncResult,
)
from ottla.protocol.errors import (
    FencedInstanceId,
    IllegalGeneration,
    KafkaError,
    MemberIdRequired,
    RebalanceInProgress,
    UnknownMemberId,
)

if TYPE_CHECKING:
    from tests.simulation.classic_world import World

GROUP = "g"
TOPIC = "orders"
PARTITIONS = 7
SESSION_MS = 6000
REBALANCE_MS = 9000
SUBSCRIPTION = b"\x00\x00\x00\x00\x00\x01\x00\x06orders\xff\xff\xff\xff"


class Client:
    """One process. `run` counts its lives: what was meant for an earlier one is not received."""

    def __init__(self, world: World, name: str) -> None:
        self.world = world
        self.name = name
        self.instance_id = f"i-{name}" if world.random.random() < 0.4 else None
        self.is_running = False
        self.partitions: list[int] = []
        self._run = 0
        self._joins = 0
        self._member_id = ""
        self._generation_id = -1
        self._protocols = ("range", "sticky")
        self._is_in_generation = False
        self._is_stalled = False
        self._version = world.random.choice((3, 5, 9))
        world.after(world.random.randint(0, 3000), self.start)

    # Life

    def start(self) -> None:
        """Begin a new life."""
        self._run += 1
        self._member_id, self._generation_id = "", -1
        self._is_in_generation = self._is_stalled = False
        self.partitions = []
        self.is_running = True
        self._join()
        self._later(self.world.random.randint(500, 8000), self._misbehave)

    def stop(self) -> None:
        """Die without a word."""
        self._run += 1
        self.is_running = False
        self.partitions = []

    def recover(self) -> None:
        """Be well behaved from now on, unless it is dead."""
        if self.is_running and (self._is_stalled or not self._is_in_generation):
            self._wake()

    def _misbehave(self) -> None:
        if self.world.is_calm:
            return
        random = self.world.random
        self._later(random.randint(500, 8000), self._misbehave)
        if random.random() > self.world.faults:
            return
        match random.choice(("crash", "restart", "leave", "stall", "change", "fail over", "admin")):
            case "crash":
                self.stop()
                self.world.after(random.randint(1000, 30_000), self._revive)
            case "restart":
                self.start()
            case "leave":
                self._leave()
            case "stall":
                self._is_stalled = True
                self._later(random.randint(1000, 20_000), self._wake)
            case "change":
                self._protocols = random.choice((("range",), ("range", "sticky"), ("sticky", "range")))
                self._join()
            case "fail over":
                self.world.fail_over()
            case "admin":
                leavers = (
                    (LeavingMember("", self.instance_id),) if self.instance_id else (LeavingMember("nobody"),)
                )
                self.world.send(GroupMachine.leave, (GROUP, leavers), lambda _: None)

    def _revive(self) -> None:
        if not self.is_running and not self.world.is_calm:
            self.start()

    def _wake(self) -> None:
        self._is_stalled = False
        self._join()

    def _leave(self) -> None:
        leaver = LeavingMember(self._member_id, self.instance_id if self._member_id else None)
        self.world.send(GroupMachine.leave, (GROUP, (leaver,)), lambda _: None)
        self.stop()
        self.world.after(self.world.random.randint(1000, 20_000), self._revive)

    # Talk

    def _later(self, delay_ms: int, action: Callable[[], None]) -> None:
        run = self._run
        self.world.after(delay_ms, lambda: action() if run == self._run else None)

    def _send(
        self, method: Callable[..., Step], args: tuple[Any, ...], answer: Callable[[Any], None]
    ) -> None:
        run = self._run

        def receive(response: Any) -> None:
            if run == self._run and not self._is_stalled:
                answer(response)

        self.world.send(method, args, receive)

    def _join(self) -> None:
        self._is_in_generation = False
        self.partitions = []
        request = JoinRequest(
            group_id=GROUP,
            member_id=self._member_id,
            instance_id=self.instance_id,
            client_id=self.name,
            client_host="/127.0.0.1",
            session_timeout_ms=SESSION_MS,
            rebalance_timeout_ms=REBALANCE_MS,
            protocol_type="consumer",
            protocols=tuple((name, SUBSCRIPTION) for name in self._protocols),
            fresh_id=str(self.world.random.getrandbits(64)),
            requires_member_id=self._version >= 4,
            can_skip_assignment=self._version >= 9,
        )
        self._joins += 1
        join = self._joins  # a client waits for its last request only

        def on_joined(response: Any) -> None:
            if join == self._joins:
                self._on_joined(response)

        self._send(GroupMachine.join, (request,), on_joined)

    def _on_joined(self, response: JoinResult | KafkaError) -> None:
        match response:
            case JoinResult():
                self._is_in_generation = False
                self.partitions = []
                self._member_id = response.member_id
                self._generation_id = response.generation_id
                if self.world.is_calm or self.world.random.random() > self.world.faults / 5:
                    self._sync(response)
                self._heartbeat_later()
            case MemberIdRequired():
                self._member_id = response.member_id
                self._join()
            case _:
                self._start_again(response)

    def _sync(self, joined: JoinResult) -> None:
        assignments: tuple[tuple[str, bytes], ...] = ()
        if joined.members and not joined.skip_assignment:
            ids = [each.member_id for each in joined.members]
            shares: dict[str, list[int]] = {each: [] for each in ids}
            for partition in range(PARTITIONS):
                shares[ids[partition % len(ids)]].append(partition)
            assignments = tuple((each, bytes(share)) for each, share in shares.items())
        request = SyncRequest(
            GROUP,
            self._member_id,
            self.instance_id,
            joined.generation_id,
            "consumer",
            joined.protocol_name,
            assignments,
        )
        self._send(
            GroupMachine.sync, (request,), lambda answer: self._on_synced(joined.generation_id, answer)
        )

    def _on_synced(self, generation_id: int, response: SyncResult | KafkaError) -> None:
        if generation_id != self._generation_id:
            return
        match response:
            case SyncResult():
                self._is_in_generation = True
                self.partitions = list(response.assignment)
                self.world.owns(self.instance_id or self._member_id, generation_id, self.partitions)
            case _:
                self._start_again(response)

    def _heartbeat_later(self) -> None:
        generation_id = self._generation_id
        self._later(SESSION_MS // 3, lambda: self._heartbeat(generation_id))

    def _heartbeat(self, generation_id: int) -> None:
        if self._is_stalled or generation_id != self._generation_id:
            return
        arguments = (GROUP, self._member_id, self.instance_id, generation_id)

        def on_heartbeat(response: KafkaError | None) -> None:
            if generation_id != self._generation_id:
                return
            if response is None:
                self._heartbeat_later()
            else:
                self._start_again(response)

        self._send(GroupMachine.heartbeat, arguments, on_heartbeat)
        if self._is_in_generation and self.partitions:
            self._commit()

    def _commit(self) -> None:
        partition, generation_id = self.world.random.choice(self.partitions), self._generation_id
        owner = self.instance_id or self._member_id
        topics = ((TOPIC, (OffsetToCommit(partition, self.world.now_ms, 0, ""),)),)
        request = CommitRequest(GROUP, self._member_id, self.instance_id, generation_id, topics)

        def on_committed(response: Committed | KafkaError) -> None:
            if isinstance(response, Committed):
                assert self.world.owners[generation_id, partition] == owner

        self._send(GroupMachine.commit, (request,), on_committed)

    def _start_again(self, error: KafkaError | None) -> None:
        """Do what consumers do about an error: join again, as the same member or as a new one."""
        assert isinstance(error, KafkaError)
        self._generation_id = -1
        if isinstance(error, FencedInstanceId):
            self.stop()
            return
        if isinstance(error, UnknownMemberId):
            self._member_id = ""
        delay_ms = 0 if isinstance(error, RebalanceInProgress | IllegalGeneration | UnknownMemberId) else 500
        self._is_in_generation = False
        self.partitions = []
        self._later(delay_ms, self._join)
