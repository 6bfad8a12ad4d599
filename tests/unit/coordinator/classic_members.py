"""Members of the classic protocol, for the tests of groups that change their protocol."""

from typing import Any

from tests.unit.coordinator.consumer_bench import (
    ALL,
    GROUP,
    Bench,
    join_request,
    parts,
    subscription,
    sync_request,
)

from ottla.coordinator.group.embedded_protocol import encode_assignment
from ottla.coordinator.group.machine import GroupMachine
from ottla.coordinator.group.requests import JoinResult, SyncResult
from ottla.protocol.consumer_protocol import decode_assignment
from ottla.protocol.errors import RebalanceInProgress


class ClassicMember:
    """A consumer of the classic protocol that gives up what it is told to, as the cooperative ones do."""

    def __init__(self, bench: Bench, member_id: str = "", **fields: Any) -> None:
        self.bench = bench
        self.member_id = member_id
        self.generation_id = -1
        self.owned: dict[str, list[int]] = {}
        self.fields = fields

    def join(self) -> None:
        metadata = subscription(["orders"], self.owned)
        joined = self.bench.call(GroupMachine.join, join_request(self.member_id, metadata, **self.fields))
        assert isinstance(joined, JoinResult)
        self.member_id, self.generation_id = joined.member_id, joined.generation_id

    def sync(self, *assignments: tuple[str, bytes]) -> None:
        instance_id = self.fields.get("instance_id")
        request = sync_request(
            self.member_id, self.generation_id, assignments=assignments, instance_id=instance_id
        )
        synced = self.bench.call(GroupMachine.sync, request)
        assert isinstance(synced, SyncResult)
        self.owned = {}
        for topic, index in decode_assignment(synced.assignment).partitions:
            self.owned.setdefault(topic, []).append(index)

    def beat(self) -> None:
        self.bench.call(
            GroupMachine.heartbeat,
            GROUP,
            self.member_id,
            self.fields.get("instance_id"),
            self.generation_id,
        )

    def follow(self) -> bool:
        """Send a heartbeat, and join again if told to; tell whether that was so."""
        try:
            self.beat()
        except RebalanceInProgress:
            self.join()
            self.sync()
            return True
        return False


def classic_group(bench: Bench, names: str = "c") -> list[ClassicMember]:
    """Return members of a classic group at work; the first one leads and has assigned."""
    members = [ClassicMember(bench, fields_name) for fields_name in ("",) * len(names)]
    tokens = []
    for name, member in zip(names, members, strict=True):
        request = join_request("", subscription(["orders"]), fresh_id=name)
        tokens.append(bench.call(GroupMachine.join, request))
        member.member_id = f"classic-{name}"
    bench.pass_time(20)
    for token, member in zip(tokens, members, strict=True):
        member.generation_id = bench.replies[token].generation_id
    assignments = tuple(
        (
            member.member_id,
            encode_assignment(parts("orders", *ALL[place :: len(members)]), bench.image, 1),
        )
        for place, member in enumerate(members)
    )
    for member in members:
        member.sync(*(assignments if member is members[0] else ()))
    return members


def upgraded(bench: Bench) -> ClassicMember:
    """Return the classic member of a group that a member of the consumer protocol has just joined."""
    (classic,) = classic_group(bench)
    bench.join("new", "orders")
    return classic
