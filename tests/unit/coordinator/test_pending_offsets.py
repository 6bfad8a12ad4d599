"""Offsets that are committed in a transaction: they count when its marker says so, and not before."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tests.unit.coordinator.group_table import Table
from tests.unit.coordinator.offset_commits import DAY_MS, commit, commit_of, topics

from ottla.coordinator.group import offsets
from ottla.coordinator.group.machine import GroupMachine
from ottla.coordinator.group.records import OffsetValue
from ottla.coordinator.group.requests import FetchedOffset, FetchRequest
from ottla.metadata.image import ClusterImage, diff_images
from ottla.protocol.errors import IllegalGeneration, UnknownMemberId, UnstableOffsetCommit
from ottla.protocol.records.control import Marker


def commit_in_transaction(
    table: Table, offset: int, producer_id: int = 1, topic: str = "orders", **fields: Any
) -> None:
    table.ask(GroupMachine.commit, replace(commit_of(offset, topic), producer=(producer_id, 0), **fields))


def end(table: Table, commit: bool, producer_id: int = 1) -> None:
    assert table.ask(GroupMachine.end_transaction, Marker(producer_id, 0, commit, 0)) is None


def fetched(table: Table, *, stable: bool = False, topic: str = "orders") -> FetchedOffset:
    request = FetchRequest("g", ((topic, (0,)),), must_be_stable=stable)
    ((_, ((_, value),)),) = table.ask(GroupMachine.fetch, request)
    return value  # type: ignore[no-any-return]


def offset(table: Table) -> int | None:
    value = fetched(table)
    return value.offset if isinstance(value, OffsetValue) else None


def replayed(table: Table) -> Table:
    """Return a table whose machine has learned all from the log."""
    again = Table(table.image)
    for record in table.log:
        again.machine.replay(record)
    return again


def check_replay(table: Table) -> None:
    again = replayed(table)
    for stable in (False, True):
        assert type(fetched(again, stable=stable)) is type(fetched(table, stable=stable))
    assert offset(again) == offset(table)
    assert again.machine.groups.keys() == table.machine.groups.keys()


def test_a_pending_offset_counts_when_its_transaction_commits() -> None:
    table = Table()
    commit_in_transaction(table, 7)
    assert offset(table) is None
    assert isinstance(fetched(table, stable=True), UnstableOffsetCommit)
    check_replay(table)
    end(table, commit=True)
    assert offset(table) == 7
    assert isinstance(fetched(table, stable=True), OffsetValue)
    assert "g" in table.machine.groups
    check_replay(table)


def test_a_pending_offset_is_forgotten_when_its_transaction_aborts() -> None:
    table = Table()
    commit(table, 3)
    commit_in_transaction(table, 7)
    end(table, commit=False)
    assert offset(table) == 3
    check_replay(table)


def test_a_second_commit_in_a_transaction_replaces_the_first() -> None:
    table = Table()
    commit_in_transaction(table, 7)
    commit_in_transaction(table, 9)
    end(table, commit=True)
    assert offset(table) == 9
    check_replay(table)


def test_a_commit_outside_of_the_transaction_that_comes_later_counts() -> None:
    table = Table()
    commit_in_transaction(table, 7)
    commit(table, 8)
    assert isinstance(fetched(table, stable=True), OffsetValue)
    end(table, commit=True)
    assert offset(table) == 8
    check_replay(table)


@pytest.mark.parametrize(("first", "second"), [(1, 2), (2, 1)])
def test_of_two_transactions_the_commit_that_is_later_in_the_log_counts(first: int, second: int) -> None:
    table = Table()
    commit_in_transaction(table, 10, producer_id=1)
    commit_in_transaction(table, 20, producer_id=2)
    end(table, commit=True, producer_id=first)
    assert isinstance(fetched(table, stable=True), OffsetValue) == (first == 2)
    end(table, commit=True, producer_id=second)
    assert offset(table) == 20
    check_replay(table)


def test_an_aborted_later_commit_leaves_the_earlier_one() -> None:
    table = Table()
    commit_in_transaction(table, 10, producer_id=1)
    commit_in_transaction(table, 20, producer_id=2)
    end(table, commit=False, producer_id=2)
    end(table, commit=True, producer_id=1)
    assert offset(table) == 10


def test_the_offsets_of_a_whole_group_show_what_is_not_stable() -> None:
    table = Table()
    commit(table, 3)
    commit_in_transaction(table, 7, topic="other")
    found = table.ask(GroupMachine.fetch, FetchRequest("g", None, must_be_stable=True))
    values = {(topic, partition): value for topic, partitions in found for partition, value in partitions}
    assert isinstance(values["orders", 0], OffsetValue)
    assert isinstance(values["other", 0], UnstableOffsetCommit)
    assert [topic for topic, _ in table.ask(GroupMachine.fetch, FetchRequest("g", None))] == ["orders"]


def test_deleting_a_group_deletes_what_is_pending_for_it() -> None:
    table = Table()
    commit(table, 3)
    commit_in_transaction(table, 7)
    commit_in_transaction(table, 8, topic="other")
    table.ask(GroupMachine.delete, "g")
    end(table, commit=True)
    assert offset(table) is None
    assert "g" not in table.machine.groups
    check_replay(table)


def test_deleting_an_offset_deletes_what_is_pending_for_it() -> None:
    table = Table()
    commit(table, 3, "kept")
    commit_in_transaction(table, 7)
    assert table.ask(GroupMachine.delete_offsets, "g", (("orders", 0),)) == (None,)
    end(table, commit=True)
    assert offset(table) is None


def test_what_is_pending_for_a_deleted_topic_is_forgotten() -> None:
    table = Table(topics("orders"))
    commit_in_transaction(table, 7)
    table.take(
        table.machine.new_image(table.now_ms, ClusterImage(), diff_images(table.image, ClusterImage()))
    )
    table.wait(1)
    end(table, commit=True)
    assert offset(table) is None


def test_a_group_with_something_pending_does_not_expire() -> None:
    table = Table(topics("orders"))
    commit(table, 3)
    commit_in_transaction(table, 7)
    table.now_ms += 30 * DAY_MS
    table.take(offsets.expire(table.now_ms, "", table.machine.groups, table.machine.offsets, table.config))
    assert offset(table) == 3
    end(table, commit=False)
    table.take(offsets.expire(table.now_ms, "", table.machine.groups, table.machine.offsets, table.config))
    assert offset(table) is None
    assert "g" not in table.machine.groups


# Who may commit


def test_old_clients_do_not_say_who_they_are() -> None:
    table = Table()
    table.stable_group(1)
    commit_in_transaction(table, 7)
    with pytest.raises(UnknownMemberId):
        commit(table, 8)


def test_a_member_of_a_past_generation_is_refused() -> None:
    table = Table()
    (member_id,) = table.stable_group(1)
    commit_in_transaction(table, 7, member_id=member_id, generation_id=1)
    with pytest.raises(IllegalGeneration):
        commit_in_transaction(table, 8, member_id=member_id, generation_id=0)
    with pytest.raises(UnknownMemberId):
        commit_in_transaction(table, 8, member_id="nobody", generation_id=1)
    with pytest.raises(IllegalGeneration):
        table.ask(
            GroupMachine.commit,
            replace(
                commit_of(8),
                group_id="unknown",
                producer=(1, 0),
                generation_id=3,
                knows_group_not_found=False,
            ),
        )
