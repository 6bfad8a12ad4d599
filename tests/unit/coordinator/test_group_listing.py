"""How groups are described and listed."""

from __future__ import annotations

from tests.unit.coordinator.group_table import Table
from tests.unit.coordinator.offset_commits import commit

from ottla.coordinator.group.machine import GroupMachine


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
