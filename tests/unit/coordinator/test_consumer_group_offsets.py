"""Offsets of consumer groups, and how the groups are described."""

import pytest
from tests.unit.coordinator.consumer_bench import ALL, GROUP, Bench, topic_id

from ottla.coordinator.group.consumer import events
from ottla.coordinator.group.consumer.group import ConsumerGroup
from ottla.coordinator.group.machine import GroupMachine
from ottla.coordinator.group.requests import CommitRequest, FetchRequest, OffsetToCommit
from ottla.protocol.errors import (
    GroupIdNotFound,
    IllegalGeneration,
    StaleMemberEpoch,
    UnknownMemberId,
    UnsupportedVersion,
)


@pytest.fixture
def bench() -> Bench:
    return Bench({"orders": 6, "payments": 3})


# Offsets


def commit(member_id: str, epoch: int, *, modern: bool = True) -> CommitRequest:
    topics = (("orders", (OffsetToCommit(0, 7, -1, ""),)),)
    return CommitRequest(GROUP, member_id, None, epoch, topics, None, modern)


def test_offsets_are_committed_at_the_members_epoch_only(bench: Bench) -> None:
    bench.join("a", "orders")
    bench.call(GroupMachine.commit, commit("a", 1))
    for epoch in (0, 2, -1):
        with pytest.raises(StaleMemberEpoch):
            bench.call(GroupMachine.commit, commit("a", epoch))
    with pytest.raises(UnknownMemberId):
        bench.call(GroupMachine.commit, commit("", -1))
    with pytest.raises(UnsupportedVersion):
        bench.call(GroupMachine.commit, commit("a", 1, modern=False))


def test_offsets_can_be_set_from_outside_while_the_group_is_empty(bench: Bench) -> None:
    bench.join("a", "orders")
    bench.beat("a", -1)
    bench.call(GroupMachine.commit, commit("", -1))
    assert bench.machine.offsets.of_group(GROUP)["orders"][0].offset == 7


def test_offsets_are_reported_to_members_at_their_epoch_and_to_those_who_claim_nothing(bench: Bench) -> None:
    bench.join("a", "orders")
    bench.call(GroupMachine.fetch, FetchRequest(GROUP, None))
    bench.call(GroupMachine.fetch, FetchRequest(GROUP, None, "a", 1))
    with pytest.raises(StaleMemberEpoch):
        bench.call(GroupMachine.fetch, FetchRequest(GROUP, None, "a", 2))
    with pytest.raises(UnknownMemberId):
        bench.call(GroupMachine.fetch, FetchRequest(GROUP, None, "b", 1))


def test_offsets_outlive_a_failover_and_the_groups_protocol(bench: Bench) -> None:
    with pytest.raises((GroupIdNotFound, IllegalGeneration)):
        bench.call(GroupMachine.commit, commit("a", 1))
    bench.call(GroupMachine.commit, commit("", -1))
    bench.join("a", "orders")
    bench.fail_over()
    assert isinstance(bench.machine.groups[GROUP], ConsumerGroup)
    assert bench.machine.offsets.of_group(GROUP)["orders"][0].offset == 7


# Watching


def test_a_group_is_described_with_what_its_members_have_and_are_to_have(bench: Bench) -> None:
    bench.join("a", "orders", instance_id="i", rack_id="r")
    bench.join("b", "orders")
    described = bench.call(events.describe, GROUP)
    assert (described.state, described.epoch, described.target_epoch) == ("Reconciling", 2, 2)
    first, second = described.members
    assert (first.member_id, first.instance_id, first.rack_id, first.member_epoch) == ("a", "i", "r", 1)
    assert first.assigned == ((topic_id("orders"), ALL),)
    assert first.target == ((topic_id("orders"), (0, 1, 2)),)
    assert (second.assigned, second.is_classic) == ((), False)
    assert (
        bench.call(GroupMachine.list_groups, frozenset(), frozenset({"consumer"}))[0].state == "Reconciling"
    )


def test_only_consumer_groups_are_described(bench: Bench) -> None:
    bench.call(GroupMachine.commit, commit("", -1))
    with pytest.raises(GroupIdNotFound):
        bench.call(events.describe, GROUP)
    with pytest.raises(GroupIdNotFound):
        bench.call(events.describe, "unknown")
