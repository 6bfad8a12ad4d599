"""Offsets of groups: who may commit them, how they are read, and how they are deleted."""

from __future__ import annotations

import pytest
from tests.unit.coordinator.group_table import START_MS, Table
from tests.unit.coordinator.offset_commits import commit, fetch

from ottla.coordinator.group.machine import GroupMachine
from ottla.coordinator.group.records import OffsetValue
from ottla.coordinator.group.requests import Committed, FetchRequest, OffsetToCommit
from ottla.protocol.errors import (
    FencedInstanceId,
    GroupIdNotFound,
    GroupSubscribedToTopic,
    IllegalGeneration,
    NonEmptyGroup,
    RebalanceInProgress,
    UnknownMemberId,
)

# Committing


def test_anybody_commits_for_a_group_without_members_and_that_makes_it_a_group() -> None:
    table = Table()
    assert commit(table) == Committed()
    assert fetch(table) == OffsetValue(5, 3, "note", START_MS)
    assert (table.group().state.value, table.group().protocol_type) == ("Empty", None)


def test_a_member_commits_with_its_generation() -> None:
    table = Table()
    (member_id,) = table.stable_group(1)
    assert commit(table, 9, member_id=member_id, generation_id=1) == Committed()
    fetched = fetch(table)
    assert fetched is not None
    assert fetched.offset == 9


def test_a_commit_is_a_sign_of_life() -> None:
    table = Table()
    (member_id,) = table.stable_group(1)
    for _ in range(4):
        table.wait(9000)
        commit(table, member_id=member_id, generation_id=1)
    assert member_id in table.group().members


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"generation_id": 2}, IllegalGeneration),
        ({"generation_id": 0}, IllegalGeneration),
        ({"generation_id": 1, "member_id": "stranger"}, UnknownMemberId),
        ({"generation_id": 1, "instance_id": "i1"}, UnknownMemberId),
        ({"generation_id": -1, "member_id": ""}, UnknownMemberId),
    ],
)
def test_a_group_with_members_takes_offsets_from_them_alone(
    changes: dict[str, object], error: type[Exception]
) -> None:
    table = Table()
    (member_id,) = table.stable_group(1)
    with pytest.raises(error):
        commit(table, **{"member_id": member_id, **changes})
    assert fetch(table) is None


def test_a_fenced_static_member_commits_nothing() -> None:
    table = Table()
    table.send_join(instance_id="i1")
    table.wait(10_000)
    old_id = table.group().instances["i1"]
    table.send_sync(old_id, 1, instance_id="i1")
    table.send_join(instance_id="i1")
    with pytest.raises(FencedInstanceId):
        commit(table, member_id=old_id, instance_id="i1", generation_id=1)


def test_while_members_join_again_they_still_commit_what_they_have_done() -> None:
    table = Table()
    (member_id,) = table.stable_group(1)
    table.new_member()
    assert commit(table, member_id=member_id, generation_id=1) == Committed()


def test_while_the_leader_assigns_no_member_can_commit() -> None:
    table = Table()
    member_id, _ = table.new_member()
    table.wait(3000)
    with pytest.raises(RebalanceInProgress):
        commit(table, member_id=member_id, generation_id=1)


def test_a_generation_of_a_group_that_does_not_exist_is_refused() -> None:
    table = Table()
    with pytest.raises(GroupIdNotFound):
        commit(table, generation_id=1, member_id="m")
    with pytest.raises(IllegalGeneration):
        commit(table, generation_id=1, member_id="m", knows_group_not_found=False)


def test_too_much_metadata_is_refused_partition_by_partition() -> None:
    table = Table(offset_metadata_max_bytes=4)
    partitions = (OffsetToCommit(0, 1, -1, "good"), OffsetToCommit(1, 1, -1, "too long"))
    assert commit(table, topics=(("orders", partitions),)) == Committed(frozenset({("orders", 1)}))
    assert fetch(table, partition=0) is not None
    assert fetch(table, partition=1) is None


def test_offsets_survive_a_failover() -> None:
    table = Table()
    commit(table, 5)
    commit(table, 6)
    commit(table, 7, partition=1)
    table.restart()
    assert [fetched.offset for each in (0, 1) if (fetched := fetch(table, partition=each))] == [6, 7]


# Fetching


def test_what_was_never_committed_is_nothing_and_no_error() -> None:
    table = Table()
    assert fetch(table) is None
    commit(table, partition=1)
    assert fetch(table, partition=0) is None


def test_all_of_a_groups_offsets_can_be_asked_for() -> None:
    table = Table()
    assert table.ask(GroupMachine.fetch, FetchRequest("g", None)) == ()
    commit(table, 1, "orders", 0)
    commit(table, 2, "orders", 1)
    commit(table, 3, "payments", 0)
    found = table.ask(GroupMachine.fetch, FetchRequest("g", None))
    assert [(topic, [(index, value.offset) for index, value in offsets]) for topic, offsets in found] == [
        ("orders", [(0, 1), (1, 2)]),
        ("payments", [(0, 3)]),
    ]


def test_an_answer_does_not_change_when_the_offsets_do() -> None:
    table = Table()
    commit(table, 1)
    found = table.ask(GroupMachine.fetch, FetchRequest("g", None))
    commit(table, 2)
    assert found[0][1][0][1].offset == 1


# Deleting


def test_offsets_are_deleted_one_by_one() -> None:
    table = Table()
    commit(table, partition=0)
    commit(table, partition=1)
    assert table.ask(GroupMachine.delete_offsets, "g", (("orders", 0), ("orders", 7))) == (None, None)
    assert (fetch(table, partition=0), fetch(table, partition=1) is None) == (None, False)


def test_offsets_of_a_topic_that_members_read_stay() -> None:
    table = Table()
    (member_id,) = table.stable_group(1)
    for topic in ("orders", "payments"):
        commit(table, topic=topic, member_id=member_id, generation_id=1)
    subscribed, other = table.ask(GroupMachine.delete_offsets, "g", (("orders", 0), ("payments", 0)))
    assert isinstance(subscribed, GroupSubscribedToTopic)
    assert other is None
    assert fetch(table) is not None


def test_offsets_of_members_that_are_no_consumers_stay() -> None:
    table = Table()
    table.stable_group(1, protocol_type="connect")
    with pytest.raises(NonEmptyGroup):
        table.ask(GroupMachine.delete_offsets, "g", (("orders", 0),))


def test_metadata_that_is_not_a_subscription_counts_as_a_subscription_to_everything() -> None:
    table = Table()
    (member_id,) = table.stable_group(1, protocols=(("range", b"?"),))
    commit(table, member_id=member_id, generation_id=1)
    (result,) = table.ask(GroupMachine.delete_offsets, "g", (("orders", 0),))
    assert isinstance(result, GroupSubscribedToTopic)


def test_a_group_without_members_is_deleted_with_its_offsets() -> None:
    table = Table()
    commit(table)
    table.ask(GroupMachine.delete, "g")
    assert table.machine.groups == {}
    assert fetch(table) is None
    table.restart()
    assert table.machine.groups == {}


def test_a_group_with_members_is_not_deleted() -> None:
    table = Table()
    table.stable_group(1)
    with pytest.raises(NonEmptyGroup):
        table.ask(GroupMachine.delete, "g")


@pytest.mark.parametrize("method", [GroupMachine.delete, GroupMachine.describe])
def test_a_group_that_does_not_exist_is_not_found(method: object) -> None:
    with pytest.raises(GroupIdNotFound):
        Table().ask(method, "g")  # type: ignore[arg-type]


def test_offsets_of_a_group_that_does_not_exist_cannot_be_deleted() -> None:
    with pytest.raises(GroupIdNotFound):
        Table().ask(GroupMachine.delete_offsets, "g", (("orders", 0),))
