"""Offsets that are forgotten: when they are too old, and when their topic is deleted."""

from __future__ import annotations

import pytest
from tests.unit.coordinator.group_table import Table
from tests.unit.coordinator.offset_commits import DAY_MS, commit, fetch, topics

from ottla.coordinator.group import offsets
from ottla.coordinator.group.machine import GroupMachine
from ottla.coordinator.group.requests import LeavingMember
from ottla.metadata.image import diff_images

WEEK_MS = 7 * DAY_MS


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
    table.ask(GroupMachine.leave, "g", (LeavingMember(member_id),))
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
    monkeypatch.setattr(offsets, "RECORDS_PER_SLICE", 3)
    monkeypatch.setattr(offsets, "GROUPS_PER_SLICE", 2)
    table = started()
    for group in range(10):
        commit(table, group_id=f"g{group}")
    table.wait(WEEK_MS)
    before = len(table.log)
    table.take(table.machine.on_timer(table.now_ms, offsets.EXPIRE_TIMER))
    assert len(table.log) - before <= 6
    table.wait(0)
    assert table.machine.groups == {}


# Topics that are deleted


def delete_topics(table: Table, *left: str) -> None:
    image = topics(*left)
    table.take(table.machine.new_image(table.now_ms, image, diff_images(table.machine.image, image)))
    table.image = image


def test_offsets_of_a_deleted_topic_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(offsets, "RECORDS_PER_SLICE", 2)
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
