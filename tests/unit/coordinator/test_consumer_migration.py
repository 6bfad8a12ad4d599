"""Groups that change their protocol while they are at work, and classic members of consumer groups."""

from typing import Any

import pytest
from tests.unit.coordinator.consumer_bench import (
    GROUP,
    Bench,
    image_of,
    join_request,
    parts,
    subscription,
    sync_request,
)

from ottla.coordinator.group import consumer_events
from ottla.coordinator.group.classic import ClassicGroup
from ottla.coordinator.group.classic_member import State
from ottla.coordinator.group.consumer import ConsumerState
from ottla.coordinator.group.consumer_partitions import size, to_record
from ottla.coordinator.group.machine import GroupMachine
from ottla.coordinator.group.migration_protocol import (
    decode_assignment,
    decode_subscription,
    encode_assignment,
    version_of,
)
from ottla.coordinator.group.requests import Joined, Leaver, Synced
from ottla.protocol.errors import (
    FencedInstanceId,
    GroupIdNotFound,
    GroupMaxSizeReached,
    IllegalGeneration,
    InconsistentGroupProtocol,
    InvalidRequest,
    MemberIdRequired,
    RebalanceInProgress,
    UnknownMemberId,
)

ALL = tuple(range(6))


@pytest.fixture
def bench() -> Bench:
    return Bench({"orders": 6}, group_initial_rebalance_delay_ms="0")


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
        assert isinstance(joined, Joined)
        self.member_id, self.generation_id = joined.member_id, joined.generation_id

    def sync(self, *assignments: tuple[str, bytes]) -> None:
        instance_id = self.fields.get("instance_id")
        request = sync_request(
            self.member_id, self.generation_id, assignments=assignments, instance_id=instance_id
        )
        synced = self.bench.call(GroupMachine.sync, request)
        assert isinstance(synced, Synced)
        self.owned = {
            topic: list(indexes) for topic, indexes in decode_assignment(synced.assignment).partitions
        }

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


# Upgrade


def test_a_classic_group_becomes_a_consumer_group_and_its_members_keep_what_they_have(bench: Bench) -> None:
    first, second = classic_group(bench, "cd")
    assert first.owned == {"orders": [0, 2, 4]}
    beat = bench.join("new", "orders")
    assert (beat.member_epoch, beat.assignment) == (2, ())
    group = bench.group
    assert group.members[first.member_id].holding.assigned == parts("orders", 0, 2, 4)
    assert group.members[second.member_id].holding.epoch == 1
    classic = [each.member_id for each in group.members.values() if each.is_classic]
    assert classic == [first.member_id, second.member_id]
    bench.fail_over()
    assert bench.group.members == group.members


def test_classic_members_give_up_partitions_for_new_ones_without_noticing_more_than_rebalances(
    bench: Bench,
) -> None:
    classic = upgraded(bench)
    with pytest.raises(RebalanceInProgress):
        classic.beat()
    classic.join()
    classic.sync()
    assert classic.generation_id == 1, "it has not given anything up yet"
    assert size(bench.held(classic.member_id)) == 3
    assert bench.beat("new", 2).assignment is None
    assert classic.follow()
    assert classic.generation_id == 2
    assert len(classic.owned["orders"]) == 3
    assert not classic.follow()
    assert size(bench.held("new")) == 0
    bench.beat("new", 2)
    assert size(bench.held("new")) == 3
    assert bench.group.state is ConsumerState.STABLE


def test_an_eager_member_has_given_up_all_when_it_joins(bench: Bench) -> None:
    classic = upgraded(bench)
    classic.owned = {}
    assert classic.follow()
    assert classic.generation_id == 2
    assert bench.beat("new", 2).assignment is not None


def test_members_that_wait_for_a_rebalance_are_told_to_join_again(bench: Bench) -> None:
    (leader,) = classic_group(bench)
    waiting = bench.call(GroupMachine.join, join_request("", subscription(["orders"]), fresh_id="late"))
    assert waiting not in bench.replies
    bench.join("new", "orders")
    assert isinstance(bench.replies[waiting], RebalanceInProgress)
    assert set(bench.group.members) == {leader.member_id, "classic-late", "new"}


def test_what_a_member_brought_into_an_unfinished_rebalance_is_still_its_own(bench: Bench) -> None:
    first, second = classic_group(bench, "cd")
    for each in (first, second):
        request = join_request(each.member_id, subscription(["orders", "x"], each.owned))
        bench.call(GroupMachine.join, request)
    bench.call(GroupMachine.sync, sync_request(second.member_id, 2))
    bench.call(GroupMachine.join, join_request("", subscription(["orders"]), fresh_id="late"))
    group = bench.machine.groups[GROUP]
    assert isinstance(group, ClassicGroup)
    assert group.state is State.PREPARING_REBALANCE
    assert not group.members[first.member_id].assignment
    bench.join("new", "orders")
    assert bench.held(first.member_id) == parts("orders", 0, 2, 4)
    assert bench.held(second.member_id) == parts("orders", 1, 3, 5)


def test_what_a_leader_assigned_twice_counts_once(bench: Bench) -> None:
    first, second = classic_group(bench, "cd")
    group = bench.machine.groups[GROUP]
    assert isinstance(group, ClassicGroup)
    twice = encode_assignment(parts("orders", *ALL), bench.image, 1)
    bench.call(GroupMachine.join, join_request(first.member_id, subscription(["orders", "x"])))
    bench.call(GroupMachine.join, join_request(second.member_id, subscription(["orders"])))
    assignments = ((first.member_id, twice), (second.member_id, twice))
    bench.call(GroupMachine.sync, sync_request(first.member_id, 2, assignments=assignments))
    bench.join("new", "orders")
    assert bench.held(first.member_id) == parts("orders", *ALL)
    assert bench.held(second.member_id) == {}


def test_an_empty_classic_group_is_simply_replaced(bench: Bench) -> None:
    (classic,) = classic_group(bench)
    bench.call(GroupMachine.leave, GROUP, (Leaver(classic.member_id),))
    assert bench.join("new", "orders").member_epoch == 1
    bench.fail_over()
    assert set(bench.group.members) == {"new"}


@pytest.mark.parametrize("policy", ["disabled", "downgrade"])
def test_an_upgrade_can_be_forbidden(policy: str) -> None:
    bench = Bench({"orders": 6}, group_initial_rebalance_delay_ms="0", group_consumer_migration_policy=policy)
    (classic,) = classic_group(bench)
    with pytest.raises(GroupIdNotFound, match="upgrade is disabled"):
        bench.join("new", "orders")
    classic.beat()


def test_a_group_that_is_too_large_is_not_upgraded() -> None:
    bench = Bench({"orders": 6}, group_initial_rebalance_delay_ms="0", group_consumer_max_size="1")
    classic_group(bench, "cd")
    with pytest.raises(GroupIdNotFound, match="maximum size"):
        bench.join("new", "orders")


def test_a_group_that_is_full_after_its_upgrade_takes_no_more_members() -> None:
    bench = Bench({"orders": 6}, group_initial_rebalance_delay_ms="0", group_consumer_max_size="1")
    classic_group(bench)
    with pytest.raises(GroupMaxSizeReached):
        bench.join("new", "orders")
    assert isinstance(bench.machine.groups[GROUP], ClassicGroup)


def test_a_group_of_another_kind_is_not_upgraded(bench: Bench) -> None:
    bench.call(GroupMachine.join, join_request("", b"", protocol_type="connect"))
    with pytest.raises(GroupIdNotFound, match="embedded protocol"):
        bench.join("new", "orders")


@pytest.mark.parametrize(
    ("assignment", "message"),
    [
        (b"\x00\x00\x00\x00\x00\x00\x00\x00\x00\x03own", "custom assignor"),
        (b"\x00\x00\x7f\xff\xff\xff", "malformed"),
    ],
)
def test_a_group_with_an_assignor_of_its_own_is_not_upgraded(
    bench: Bench, assignment: bytes, message: str
) -> None:
    assign_anything(bench, "of-our-own", assignment)
    with pytest.raises(GroupIdNotFound, match=message):
        bench.join("new", "orders")


def test_what_librdkafkas_sticky_assignor_adds_to_assignments_does_not_prevent_an_upgrade(
    bench: Bench,
) -> None:
    assign_anything(bench, "cooperative-sticky", b"\x00\x00\x00\x00\x00\x00\x00\x00\x00\x03own")
    bench.join("new", "orders")


def assign_anything(bench: Bench, protocol_name: str, assignment: bytes) -> None:
    """Let a classic group of one member assign something."""
    protocols = ((protocol_name, subscription(["orders"])),)
    token = bench.call(GroupMachine.join, join_request("", b"", protocols=protocols))
    bench.pass_time(20)
    joined = bench.replies[token]
    assignments = ((joined.member_id, assignment),)
    request = sync_request(
        joined.member_id, joined.generation_id, assignments=assignments, protocol_name=protocol_name
    )
    bench.call(GroupMachine.sync, request)


# Classic members of a consumer group


def test_a_classic_member_joins_a_consumer_group(bench: Bench) -> None:
    bench.join("new", "orders")
    classic = ClassicMember(bench, fresh_id="late")
    classic.join()
    assert (classic.member_id, classic.generation_id) == ("classic-late", 2)
    classic.sync()
    assert classic.owned == {}
    bench.beat("new", 1, owned=parts("orders", *ALL))
    bench.beat("new", 1, owned=parts("orders", 0, 1, 2))
    assert classic.follow()
    assert classic.owned == {"orders": [3, 4, 5]}
    assert bench.call(consumer_events.describe, GROUP).members[1].is_classic


def test_a_dynamic_classic_member_is_told_its_id_first(bench: Bench) -> None:
    bench.join("new", "orders")
    with pytest.raises(MemberIdRequired) as raised:
        bench.call(GroupMachine.join, join_request("", subscription(["orders"]), must_know_its_id=True))
    member_id = raised.value.member_id
    assert member_id not in bench.group.members
    bench.call(GroupMachine.join, join_request(member_id, subscription(["orders"]), must_know_its_id=True))
    assert member_id in bench.group.members


def test_a_classic_member_must_have_a_protocol_in_common_with_the_others(bench: Bench) -> None:
    upgraded(bench)
    for fields in ({"protocols": (("range", subscription(["orders"])),)}, {"protocol_type": "connect"}):
        with pytest.raises(InconsistentGroupProtocol):
            bench.call(GroupMachine.join, join_request("", subscription(["orders"]), **fields))
    with pytest.raises(InconsistentGroupProtocol):
        bench.call(GroupMachine.join, join_request("", b"\x00"))


def test_a_classic_member_of_another_generation_is_refused(bench: Bench) -> None:
    classic = upgraded(bench)
    classic.generation_id = 7
    with pytest.raises(IllegalGeneration):
        classic.beat()
    with pytest.raises(IllegalGeneration):
        classic.sync()


def test_a_classic_member_that_collects_too_late_joins_again(bench: Bench) -> None:
    classic = upgraded(bench)
    classic.owned = {}
    with pytest.raises(RebalanceInProgress):
        classic.beat()
    classic.join()
    bench.join("newer", "orders")
    with pytest.raises(RebalanceInProgress):
        classic.sync()
    classic.join()
    classic.sync()
    assert classic.generation_id == 3


def test_sync_checks_the_protocol(bench: Bench) -> None:
    classic = upgraded(bench)
    for fields in ({"protocol_type": "connect"}, {"protocol_name": "range"}):
        with pytest.raises(InconsistentGroupProtocol):
            bench.call(GroupMachine.sync, sync_request(classic.member_id, 1, **fields))


def test_members_of_the_consumer_protocol_do_not_speak_the_classic_one(bench: Bench) -> None:
    bench.join("new", "orders")
    with pytest.raises(UnknownMemberId):
        bench.call(GroupMachine.heartbeat, GROUP, "new", None, 1)
    with pytest.raises(UnknownMemberId):
        bench.call(GroupMachine.sync, sync_request("new", 1))


def test_administrators_remove_members_of_either_protocol(bench: Bench) -> None:
    bench.join("new", "orders")
    bench.join("static", "orders", instance_id="i")
    leavers = (Leaver("new"), Leaver("", "i"), Leaver("", "j"))
    results = bench.call(GroupMachine.leave, GROUP, leavers)
    assert [type(each) for each in results] == [type(None), type(None), UnknownMemberId]
    assert not bench.group.members


def test_a_classic_member_commits_at_its_generation(bench: Bench) -> None:
    classic = upgraded(bench)
    bench.group.check_fetch(classic.member_id, 1)
    with pytest.raises(IllegalGeneration):
        bench.group.check_fetch(classic.member_id, 2)


def test_a_classic_member_that_does_not_join_again_in_time_is_removed(bench: Bench) -> None:
    classic = upgraded(bench)
    for _ in range(4):
        with pytest.raises(RebalanceInProgress):
            classic.beat()
        bench.pass_time(4_900)
    assert classic.member_id in bench.group.members
    bench.pass_time(500)
    assert classic.member_id not in bench.group.members
    assert bench.beat("new", 2).assignment == to_record(parts("orders", *ALL))


def test_a_classic_member_that_does_not_collect_its_assignment_in_time_is_removed(bench: Bench) -> None:
    bench.join("new", "orders")
    classic = ClassicMember(bench, fresh_id="late")
    classic.join()
    for _ in range(4):
        bench.pass_time(4_900)
        classic.beat()
    bench.pass_time(500)
    assert set(bench.group.members) == {"new"}


def test_a_silent_classic_member_is_removed_after_its_own_session_timeout(bench: Bench) -> None:
    classic = upgraded(bench)
    bench.pass_time(10_500)
    assert set(bench.group.members) == {"new"}
    with pytest.raises(UnknownMemberId):
        classic.beat()


def test_classic_members_leave(bench: Bench) -> None:
    first, second = classic_group(bench, "cd")
    bench.join("new", "orders")
    leavers = (Leaver(first.member_id), Leaver("nobody"), Leaver(second.member_id), Leaver(first.member_id))
    results = bench.call(GroupMachine.leave, GROUP, leavers)
    assert [type(each) for each in results] == [type(None), UnknownMemberId, type(None), type(None)]
    assert bench.beat("new", 2).assignment == to_record(parts("orders", *ALL))


# Static members


def test_a_static_member_moves_from_the_classic_to_the_consumer_protocol_and_back(bench: Bench) -> None:
    bench.join("new", "orders")
    classic = ClassicMember(bench, instance_id="i", fresh_id="1")
    classic.join()
    classic.sync()
    moved = bench.join("modern", "orders", instance_id="i")
    assert set(bench.group.members) == {"new", "modern"}
    assert moved.member_epoch == 2
    with pytest.raises(FencedInstanceId):
        classic.beat()
    again = ClassicMember(bench, instance_id="i", fresh_id="2")
    again.join()
    assert set(bench.group.members) == {"new", "i-2"}
    assert bench.group.epoch == 2, "same subscription, no rebalance"
    (result,) = bench.call(GroupMachine.leave, GROUP, (Leaver("", "i"),))
    assert result is None


def test_the_last_modern_member_being_replaced_by_a_classic_one_downgrades_without_a_rebalance(
    bench: Bench,
) -> None:
    bench.join("modern", "orders", instance_id="i")
    bench.beat("modern", -2, instance_id="i")
    classic = ClassicMember(bench, instance_id="i", fresh_id="1")
    classic.join()
    group = bench.machine.groups[GROUP]
    assert isinstance(group, ClassicGroup)
    assert group.state is State.STABLE
    classic.sync()
    assert classic.owned == {"orders": list(ALL)}
    classic.beat()


# Downgrade


def test_the_last_member_of_the_consumer_protocol_leaves_a_classic_group_behind(bench: Bench) -> None:
    classic = upgraded(bench)
    classic.follow()
    classic.follow()
    bench.beat("new", 2)
    bench.beat("new", -1)
    group = bench.machine.groups[GROUP]
    assert isinstance(group, ClassicGroup)
    assert group.state is State.PREPARING_REBALANCE
    assert group.generation_id == 2
    with pytest.raises(RebalanceInProgress):
        classic.beat()
    classic.join()
    assert classic.generation_id == 3
    classic.sync((classic.member_id, encode_assignment(parts("orders", *ALL), bench.image, 1)))
    assert classic.owned == {"orders": list(ALL)}
    bench.fail_over()
    classic.beat()


def test_a_downgraded_group_rebalances_even_if_the_coordinator_fails_in_between(bench: Bench) -> None:
    classic = upgraded(bench)
    classic.follow()
    classic.follow()
    bench.beat("new", -1)
    bench.fail_over()
    for _ in range(10):
        classic.beat()
        bench.pass_time(4_500)
    with pytest.raises(RebalanceInProgress):
        classic.beat()
    classic.join()
    group = bench.machine.groups[GROUP]
    assert isinstance(group, ClassicGroup)
    assert set(group.members) == {classic.member_id}


def test_a_silent_member_of_the_consumer_protocol_is_the_last_one_too(bench: Bench) -> None:
    classic = upgraded(bench)
    for _ in range(10):
        bench.pass_time(5_000)
        classic.follow()
    assert isinstance(bench.machine.groups[GROUP], ClassicGroup)


@pytest.mark.parametrize("policy", ["disabled", "upgrade"])
def test_a_downgrade_can_be_forbidden(policy: str) -> None:
    bench = Bench({"orders": 6}, group_consumer_migration_policy=policy)
    bench.join("new", "orders")
    classic = ClassicMember(bench, fresh_id="late")
    classic.join()
    classic.sync()
    bench.beat("new", -1)
    assert classic.follow()
    assert classic.owned == {"orders": list(ALL)}
    assert set(bench.group.members) == {classic.member_id}


def test_a_classic_member_replaces_an_empty_consumer_group(bench: Bench) -> None:
    bench.join("new", "orders")
    bench.beat("new", -1)
    with pytest.raises(UnknownMemberId):
        bench.call(GroupMachine.join, join_request("somebody", subscription(["orders"])))
    classic_group(bench)
    assert isinstance(bench.machine.groups[GROUP], ClassicGroup)
    bench.fail_over()
    assert isinstance(bench.machine.groups[GROUP], ClassicGroup)


# The embedded protocol


@pytest.mark.parametrize("version", [0, 1, 2, 3, 4])
def test_subscriptions_of_every_version_are_understood(version: int) -> None:
    data = subscription(["a", "b"], {"a": [1, 2]}, version)
    read = decode_subscription(data)
    assert read.topics == ("a", "b")
    assert read.owned == ((("a", (1, 2)),) if version >= 1 else ())
    assert version_of(data) == version


def test_assignments_name_topics_that_exist(bench: Bench) -> None:
    image = image_of({"orders": 6})
    data = encode_assignment(parts("orders", 2, 1) | parts("gone", 1), image, 3)
    assert decode_assignment(data).partitions == (("orders", (1, 2)),)
    assert data[:2] == b"\x00\x03"


@pytest.mark.parametrize("cut", range(1, 30))
def test_torn_metadata_is_refused(cut: int) -> None:
    data = subscription(["orders"], {"orders": [1]}, 2)
    with pytest.raises(InvalidRequest):
        decode_subscription(data[: len(data) - cut])
