"""Committed offsets: who may commit, what is kept, and what is forgotten."""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID

import pytest
from tests.unit.coordinator.group_table import START_MS, Table

from ottla.coordinator.group import expiry
from ottla.coordinator.group.machine import GroupMachine
from ottla.coordinator.group.records import OffsetValue
from ottla.coordinator.group.requests import CommitRequest, Committed, FetchRequest, Leaver, OffsetToCommit
from ottla.metadata.image import ClusterImage, TopicImage, changes
from ottla.protocol.errors import (
    FencedInstanceId,
    GroupIdNotFound,
    GroupSubscribedToTopic,
    IllegalGeneration,
    NonEmptyGroup,
    RebalanceInProgress,
    UnknownMemberId,
)

DAY_MS = 24 * 60 * 60 * 1000
WEEK_MS = 7 * DAY_MS


def topics(*names: str) -> ClusterImage:
    return ClusterImage(
        topics={name: TopicImage(name, UUID(int=int.from_bytes(name.encode())), ()) for name in names}
    )


def commit_of(offset: int = 5, topic: str = "orders", partition: int = 0, **changes: object) -> CommitRequest:
    request = CommitRequest("g", "", None, -1, ((topic, (OffsetToCommit(partition, offset, 3, "note"),)),))
    return replace(request, **changes)  # type: ignore[arg-type]


def commit(
    table: Table, offset: int = 5, topic: str = "orders", partition: int = 0, **changes: object
) -> object:
    return table.ask(GroupMachine.commit, commit_of(offset, topic, partition, **changes))


def fetch(table: Table, topic: str = "orders", partition: int = 0) -> OffsetValue | None:
    request = FetchRequest("g", ((topic, (partition,)),))
    ((_, ((_, value),)),) = table.ask(GroupMachine.fetch, request)
    return value  # type: ignore[no-any-return]


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


def test_while_the_leader_assigns_nobody_owns_anything_to_commit() -> None:
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


# Expiry


def started(**settings: int | str) -> Table:
    table = Table(topics("orders", "payments"), **settings)
    table.restart()
    return table


def test_offsets_without_a_group_expire_a_week_after_their_commit() -> None:
    table = started()
    commit(table)
    table.wait(WEEK_MS - 1)
    assert fetch(table) is not None
    table.wait(10 * 60_000)
    assert fetch(table) is None
    assert table.machine.groups == {}
    table.restart()
    assert table.machine.groups == {}


def test_offsets_of_a_group_expire_a_week_after_its_last_member_left() -> None:
    table = started()
    (member_id,) = table.stable_group(1, session_timeout_ms=1_800_000)
    commit(table, member_id=member_id, generation_id=1)
    for _ in range(9 * 24 * 4):
        table.wait(15 * 60_000)
        table.ask(GroupMachine.heartbeat, "g", member_id, None, 1)
    assert fetch(table) is not None
    table.ask(GroupMachine.leave, "g", (Leaver(member_id),))
    table.wait(WEEK_MS - 1)
    assert fetch(table) is not None
    table.wait(10 * 60_000)
    assert fetch(table) is None


def test_offsets_of_topics_that_a_living_group_no_longer_reads_expire() -> None:
    table = started(offsets_retention_minutes=10)
    (member_id,) = table.stable_group(1, session_timeout_ms=1_800_000)
    for topic in ("orders", "payments"):
        commit(table, topic=topic, member_id=member_id, generation_id=1)
    table.wait(25 * 60_000)
    assert fetch(table, "orders") is not None
    assert fetch(table, "payments") is None
    assert member_id in table.group().members


def test_a_retention_of_its_own_counts_for_an_offset_that_has_one() -> None:
    table = started()
    commit(table, partition=0, retention_ms=60_000)
    commit(table, partition=1)
    table.wait(20 * 60_000)
    assert (fetch(table, partition=0), fetch(table, partition=1) is None) == (None, False)


def test_an_empty_group_without_offsets_is_forgotten() -> None:
    table = started()
    table.send_join()
    table.wait(15 * 60_000)
    assert table.machine.groups == {}


def test_many_expired_offsets_are_forgotten_in_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(expiry, "RECORDS_PER_SLICE", 3)
    monkeypatch.setattr(expiry, "GROUPS_PER_SLICE", 2)
    table = started()
    for group in range(10):
        commit(table, group_id=f"g{group}")
    table.wait(WEEK_MS)
    before = len(table.log)
    table.take(table.machine.on_timer(table.now_ms, expiry.KEY))
    assert len(table.log) - before <= 6
    table.wait(0)
    assert table.machine.groups == {}


# Topics that are deleted


def delete_topics(table: Table, *left: str) -> None:
    image = topics(*left)
    table.take(table.machine.new_image(table.now_ms, image, changes(table.machine.image, image)))
    table.image = image


def test_offsets_of_a_deleted_topic_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(expiry, "RECORDS_PER_SLICE", 2)
    table = started()
    for partition in range(5):
        commit(table, partition=partition)
    commit(table, topic="payments")
    delete_topics(table, "payments")
    table.wait(0)
    assert table.machine.offsets.topics() == {"payments"}


def test_offsets_of_a_topic_that_has_the_name_of_a_deleted_one_stay() -> None:
    table = started()
    commit(table, 100)
    delete_topics(table)
    table.now_ms += 1  # before the timer fires, the name is in use again
    commit(table, 1)
    table.wait(0)
    fetched = fetch(table)
    assert fetched is not None
    assert fetched.offset == 1


def test_a_new_coordinator_finishes_what_the_old_one_did_not() -> None:
    table = started()
    commit(table)
    table.image = topics("payments")
    table.restart()
    table.wait(0)
    assert fetch(table) is None


# Watching


def test_a_group_is_described_with_its_members_and_their_assignments() -> None:
    table = Table()
    (member_id,) = table.stable_group(1)
    described = table.ask(GroupMachine.describe, "g")
    assert (described.state, described.protocol_type, described.protocol_name) == (
        "Stable",
        "consumer",
        "range",
    )
    (member,) = described.members
    assert (member.member_id, member.client_host) == (member_id, "/127.0.0.1")
    assert member.assignment == f"of {member_id}".encode()
    assert member.metadata


def test_a_rebalancing_group_is_described_without_metadata() -> None:
    table = Table()
    table.stable_group(1)
    table.new_member()
    described = table.ask(GroupMachine.describe, "g")
    assert (described.state, described.protocol_name) == ("PreparingRebalance", "")
    assert {each.metadata for each in described.members} == {b""}


def test_groups_are_listed_by_state_and_type() -> None:
    table = Table()
    table.stable_group(1)
    commit(table, group_id="lonely")

    def listed(states: set[str], types: set[str]) -> list[str]:
        found = table.ask(GroupMachine.list_groups, frozenset(states), frozenset(types))
        return sorted(each.group_id for each in found)

    assert listed(set(), set()) == ["g", "lonely"]
    assert listed({"stable"}, set()) == ["g"]
    assert listed({"empty", "dead"}, {"classic"}) == ["lonely"]
    assert listed(set(), {"consumer"}) == []
