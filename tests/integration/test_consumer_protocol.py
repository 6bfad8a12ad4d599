"""The consumer protocol (KIP-848) by hand: every heartbeat as bytes, every answer looked at.

Apache Kafka passes these, too:

    python tests/interop/apache_kafka.py tests/integration/test_consumer_protocol.py
"""

from __future__ import annotations

import datetime
import itertools
from collections.abc import Iterator
from typing import Any
from uuid import UUID

import pytest
from kio.schema.errors import ErrorCode
from tests.integration.clients import HasAddress, wait_until
from tests.integration.wire import Wire, create_topic
from tests.integration.wire_groups import WireMember

from ottla.common.ids import TopicPartition, new_uuid
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.consumer_protocol import decode_assignment, encode_assignment

BROKER_SETTINGS = {"group.initial.rebalance.delay.ms": "0"}
ALL = frozenset(range(4))

_numbers = itertools.count()


class Group:
    """One group, one topic with four partitions, one connection for all who talk."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.wire = Wire(address)
        self.name = f"kip848.{new_uuid().hex[:8]}.{next(_numbers)}"
        self.topic = f"{self.name}.t"
        self.topic_id = create_topic(self.wire, self.topic, 4)
        wait_until(self._is_found, "the coordinator")
        wait_until(self._knows_topic, "the coordinator to know the topic")

    def _is_found(self) -> bool:
        found = self.wire.call(ApiKey.FIND_COORDINATOR, 4, key_type=0, coordinator_keys=[self.name])
        return bool(found.coordinators[0].error_code == ErrorCode.none)

    def _knows_topic(self) -> bool:
        """Return whether members get partitions; forget about the attempt."""
        is_known = bool(self.assigned(self.join("probe")))
        self.beat("probe", -1)
        (deleted,) = self.wire.call(ApiKey.DELETE_GROUPS, 2, groups_names=[self.name]).results
        assert deleted.error_code == ErrorCode.none
        return is_known

    def beat(self, member_id: str, epoch: int, owned: frozenset[int] | None = None, **fields: Any) -> Any:
        partitions = None
        if owned is not None:
            partitions = [{"topic_id": self.topic_id, "partitions": sorted(owned)}] if owned else []
        wanted = {
            "group_id": self.name,
            "member_id": member_id,
            "member_epoch": epoch,
            "rebalance_timeout": datetime.timedelta(milliseconds=-1),
            "subscribed_topic_names": None,
            "topic_partitions": partitions,
            **fields,
        }
        while True:
            answer = self.wire.call(ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, **wanted)
            if answer.error_code not in (
                ErrorCode.coordinator_load_in_progress,
                ErrorCode.coordinator_not_available,
                ErrorCode.not_coordinator,
            ):
                return answer

    def join(self, member_id: str, **fields: Any) -> Any:
        wanted = {
            "subscribed_topic_names": [self.topic],
            "rebalance_timeout": datetime.timedelta(seconds=60),
            **fields,
        }
        return self.beat(member_id, 0, frozenset(), **wanted)

    def describe(self) -> Any:
        wanted = {"group_ids": [self.name], "include_authorized_operations": False}
        (group,) = self.wire.call(ApiKey.CONSUMER_GROUP_DESCRIBE, 1, **wanted).groups
        return group

    def assigned(self, answer: Any) -> frozenset[int] | None:
        """Return the partitions of an answer; None if it says nothing about them."""
        assert answer.error_code == ErrorCode.none, answer
        if answer.assignment is None:
            return None
        found = {each.topic_id: frozenset(each.partitions) for each in answer.assignment.topic_partitions}
        assert set(found) <= {self.topic_id}
        return found.get(self.topic_id, frozenset())

    def share(self, *member_ids: str) -> dict[str, frozenset[int]]:
        """Let new members join, give up and take what they are told to; return who has what."""
        has = {member_id: self.assigned(self.join(member_id)) or frozenset() for member_id in member_ids}
        for _ in range(4):
            for member_id in member_ids:
                epoch = next(
                    each.member_epoch for each in self.describe().members if each.member_id == member_id
                )
                told = self.assigned(self.beat(member_id, epoch, has[member_id]))
                has[member_id] = has[member_id] if told is None else told
        return has


@pytest.fixture
def group(broker: HasAddress) -> Iterator[Group]:
    made = Group(broker.address)
    with made.wire:
        yield made


# Moving partitions


def test_a_partition_moves_when_its_owner_says_that_it_gave_it_up(group: Group) -> None:
    first = group.join("a")
    assert (first.member_id, first.member_epoch, group.assigned(first)) == ("a", 1, ALL)
    second = group.join("b")
    assert (second.member_epoch, group.assigned(second)) == (2, frozenset())

    told = group.beat("a", 1, ALL)
    kept = group.assigned(told)
    assert kept is not None
    assert (told.member_epoch, len(kept)) == (1, 2)
    assert group.assigned(group.beat("b", 2)) is None
    assert group.describe().group_state == "Reconciling"
    assert group.beat("a", 1).member_epoch == 1

    assert group.beat("a", 1, kept).member_epoch == 2
    assert group.assigned(group.beat("b", 2)) == ALL - kept
    described = group.describe()
    assert (described.group_state, described.group_epoch, described.assignment_epoch) == ("Stable", 2, 2)
    assert described.assignor_name == "uniform"
    assert {each.member_type for each in described.members} == {1}


def test_an_answer_that_was_lost_is_given_again_and_other_epochs_are_fenced(group: Group) -> None:
    group.join("a")
    group.join("b")
    kept = group.assigned(group.beat("a", 1, ALL))
    assert kept is not None
    assert group.beat("a", 1, kept).member_epoch == 2
    assert group.beat("a", 1, kept).member_epoch == 2, "the same heartbeat once more"
    for epoch, owned in ((1, ALL), (1, None), (3, kept), (9, None)):
        fenced = group.beat("a", epoch, owned)
        assert fenced.error_code == ErrorCode.fenced_member_epoch
        assert fenced.assignment is None


def test_all_is_reported_to_those_who_say_all(group: Group) -> None:
    group.join("a")
    assert group.assigned(group.beat("a", 1, ALL)) is None
    everything = {
        "subscribed_topic_names": [group.topic],
        "rebalance_timeout": datetime.timedelta(seconds=60),
    }
    assert group.assigned(group.beat("a", 1, ALL, **everything)) == ALL


def test_members_that_leave_leave_their_partitions(group: Group) -> None:
    has = group.share("a", "b")
    assert sorted(map(len, has.values())) == [2, 2]
    left = group.beat("b", -1)
    assert (left.error_code, left.member_id, left.member_epoch) == (ErrorCode.none, "b", -1)
    assert group.assigned(group.beat("a", 2)) == ALL
    assert group.beat("b", 2).error_code == ErrorCode.unknown_member_id
    group.beat("a", -1)
    assert group.describe().group_state == "Empty"


def test_what_is_not_wanted_any_more_is_given_up_first(group: Group) -> None:
    group.join("a")
    told = group.beat("a", 1, subscribed_topic_names=[])
    assert (told.member_epoch, group.assigned(told)) == (1, frozenset())
    assert group.beat("a", 1, frozenset()).member_epoch == 2


def test_a_regular_expression_finds_its_topics(group: Group) -> None:
    pattern = group.topic.replace(".", "[.]") + "|nothing"
    joined = group.join("a", subscribed_topic_names=None, subscribed_topic_regex=pattern)
    assert joined.error_code == ErrorCode.none
    seen = [group.assigned(joined) or frozenset()]
    epoch = [joined.member_epoch]

    def is_assigned() -> bool:
        answer = group.beat("a", epoch[0])
        epoch[0] = answer.member_epoch
        seen.append(group.assigned(answer) or seen[-1])
        return seen[-1] == ALL

    wait_until(is_assigned, "the topic to be found")
    assert group.describe().members[0].subscribed_topic_regex == pattern


def test_range_gives_ranges(group: Group) -> None:
    group.join("a", server_assignor="range")
    group.join("b", server_assignor="range")
    assert group.assigned(group.beat("a", 1, ALL)) == {0, 1}
    assert group.describe().assignor_name == "range"


# Static members


def test_a_static_member_returns_to_what_it_had(group: Group) -> None:
    group.join("a1", instance_id="a")
    refused = group.join("a2", instance_id="a")
    assert refused.error_code == ErrorCode.unreleased_instance_id
    left = group.beat("a1", -2, instance_id="a")
    assert (left.error_code, left.member_epoch) == (ErrorCode.none, -2)
    back = group.join("a2", instance_id="a")
    assert (back.member_epoch, group.assigned(back)) == (1, ALL)
    assert group.beat("a1", 1, instance_id="a").error_code == ErrorCode.fenced_instance_id
    assert group.beat("a1", -1, instance_id="a").error_code == ErrorCode.fenced_instance_id
    assert group.beat("a2", 1, instance_id="other").error_code == ErrorCode.unknown_member_id
    assert [each.member_id for each in group.describe().members] == ["a2"]


# Words


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"rebalance_timeout": datetime.timedelta(milliseconds=-1)}, "RebalanceTimeoutMs must be provided"),
        (
            {"topic_partitions": [{"topic_id": UUID(int=1), "partitions": [0]}]},
            "TopicPartitions must be empty when (re-)joining.",
        ),
        ({"subscribed_topic_names": None}, "Either SubscribedTopicNames or SubscribedTopicRegex must be"),
        ({"instance_id": " "}, "InstanceId can't be empty."),
        ({"rack_id": ""}, "RackId can't be empty."),
        ({"member_id": ""}, "MemberId can't be empty."),
        ({"group_id": ""}, "GroupId can't be empty."),
        ({"member_epoch": -2}, "InstanceId can't be null."),
        ({"server_assignor": "magic"}, "ServerAssignor magic is not supported. Supported assignors: uniform"),
    ],
    ids=str,
)
def test_refusals_say_why(group: Group, change: dict[str, Any], message: str) -> None:
    change = dict(change)
    answer = group.join(change.pop("member_id", "a"), **change)
    assert answer.error_code in (ErrorCode.invalid_request, ErrorCode.unsupported_assignor)
    assert message in answer.error_message
    assert (answer.member_id, answer.member_epoch, answer.assignment) == (None, 0, None)


# Offsets


def test_offsets_belong_to_members_at_their_epoch(group: Group) -> None:
    group.join("a")
    member = WireMember(group.address, group.name, group.topic)
    member.member_id = "a"
    for epoch, code in ((1, ErrorCode.none), (2, ErrorCode.stale_member_epoch)):
        member.generation = epoch
        assert member.commit({(group.topic, 0): 5}) == [code]
    member.generation = 1
    assert member.commit({(group.topic, 0): 5}, version=8) == [ErrorCode.unsupported_version]
    for epoch, code in ((1, ErrorCode.none), (2, ErrorCode.stale_member_epoch)):
        wanted = {"group_id": group.name, "topics": None, "member_id": "a", "member_epoch": epoch}
        (answer,) = group.wire.call(ApiKey.OFFSET_FETCH, 9, groups=[wanted]).groups
        assert answer.error_code == code


# Classic members


@pytest.fixture
def classic(group: Group) -> Iterator[WireMember]:
    """The only member of a classic group, which has everything."""
    member = WireMember(group.address, group.name, group.topic)
    with member:
        assert member.join().error_code == ErrorCode.none
        everything = encode_assignment([TopicPartition(group.topic, index) for index in ALL])
        given = [{"member_id": member.member_id, "assignment": everything}]
        assert member.sync(assignments=given).error_code == ErrorCode.none
        yield member


def owned(answer: Any) -> frozenset[int]:
    assert answer.error_code == ErrorCode.none, answer
    return frozenset(each.partition for each in decode_assignment(answer.assignment).partitions)


def test_a_classic_group_is_upgraded_and_downgraded_while_it_works(group: Group, classic: WireMember) -> None:
    upgraded = group.join("new")
    assert (upgraded.member_epoch, group.assigned(upgraded)) == (classic.generation + 1, frozenset())
    assert {each.member_id: each.member_type for each in group.describe().members} == {
        classic.member_id: 0,
        "new": 1,
    }
    assert classic.heartbeat() == ErrorCode.rebalance_in_progress
    joined = classic.join()  # an eager member: it gives up everything before it joins
    assert (joined.error_code, joined.generation_id) == (ErrorCode.none, 2)
    assert (joined.leader, joined.members) == ("", ())
    half = owned(classic.sync(protocol_name="range"))
    assert len(half) == 2
    assert group.assigned(group.beat("new", 2)) == ALL - half
    assert classic.heartbeat() == ErrorCode.none
    assert classic.commit({(group.topic, 0): 5}) == [ErrorCode.none]

    group.beat("new", -1)
    assert group.describe().error_code == ErrorCode.group_id_not_found
    assert classic.heartbeat() == ErrorCode.rebalance_in_progress
    rejoined = classic.join()
    assert (rejoined.error_code, rejoined.leader) == (ErrorCode.none, classic.member_id)
    assert classic.sync(classic).error_code == ErrorCode.none
    assert classic.heartbeat() == ErrorCode.none


def test_a_classic_member_joins_a_consumer_group(group: Group) -> None:
    group.join("new")
    with WireMember(group.address, group.name, group.topic) as late:
        joined = late.join()
        assert (joined.error_code, joined.generation_id, joined.leader) == (ErrorCode.none, 2, "")
        assert owned(late.sync()) == frozenset()
        assert late.heartbeat() == ErrorCode.none
        kept = group.assigned(group.beat("new", 1, ALL))
        assert kept is not None
        group.beat("new", 1, kept)
        assert late.heartbeat() == ErrorCode.rebalance_in_progress
        late.join()
        assert owned(late.sync()) == ALL - kept
        assert late.heartbeat(generation_id=7) == ErrorCode.illegal_generation
        assert late.sync(protocol_name="roundrobin").error_code == ErrorCode.inconsistent_group_protocol
        left = late.leave(late.member_id, "nobody")
        assert [each.error_code for each in left.members] == [ErrorCode.none, ErrorCode.unknown_member_id]
        assert late.heartbeat() == ErrorCode.unknown_member_id
        assert group.assigned(group.beat("new", 2)) == ALL
        (removed,) = late.leave("new").members
        assert removed.error_code == ErrorCode.none, "administrators may remove members of either protocol"
    assert group.describe().group_state == "Empty"


def test_a_group_of_another_kind_is_not_upgraded(group: Group) -> None:
    with WireMember(group.address, group.name, group.topic) as worker:
        kind = {"protocol_type": "connect", "protocols": [{"name": "default", "metadata": b""}]}
        assert worker.join(**kind).error_code == ErrorCode.none
        refused = group.join("new")
        assert refused.error_code == ErrorCode.group_id_not_found
        assert worker.heartbeat() in (ErrorCode.none, ErrorCode.rebalance_in_progress)
