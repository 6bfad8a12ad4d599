"""Bad input to the group coordinator, about offsets and whole groups: Kafka's errors, per partition."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import pytest
from kio.schema.errors import ErrorCode
from tests.integration.group_wires import NewMember
from tests.integration.wire import Wire
from tests.integration.wire_groups import NOBODY, WireMember

from ottla.protocol.api_keys import ApiKey

BROKER_SETTINGS = {"group.initial.rebalance.delay.ms": "0"}
METADATA_LIMIT = 4096


# OffsetCommit


def test_commits_to_unknown_topics_are_refused_one_by_one(member: WireMember) -> None:
    offsets = {(member.topic, 0): 3, ("no-such-topic", 0): 3, (member.topic, 1): 4}
    codes = member.commit(offsets)
    assert codes == [ErrorCode.none, ErrorCode.unknown_topic_or_partition, ErrorCode.none]
    assert member.commit({(member.topic, 2): 1}) == [ErrorCode.unknown_topic_or_partition]
    assert member.commit({(member.topic, -1): 1}) == [ErrorCode.unknown_topic_or_partition]
    assert member.committed() == {0: (3, ""), 1: (4, "")}


def test_a_commit_to_an_unknown_topic_id_says_so(member: WireMember) -> None:
    partition = {"partition_index": 0, "committed_offset": 1, "committed_leader_epoch": -1}
    answer = member.wire.call(
        ApiKey.OFFSET_COMMIT,
        10,
        group_id=member.group,
        member_id=member.member_id,
        generation_id_or_member_epoch=member.generation,
        topics=[{"topic_id": uuid4(), "partitions": [partition]}],
    )
    assert answer.topics[0].partitions[0].error_code == ErrorCode.unknown_topic_id


def test_metadata_may_be_so_long_and_no_longer(member: WireMember) -> None:
    longest = "m" * METADATA_LIMIT
    assert member.commit({(member.topic, 0): 1}, metadata=longest) == [ErrorCode.none]
    codes = member.commit({(member.topic, 0): 2, ("no-such-topic", 0): 2}, metadata=longest + "m")
    assert codes == [ErrorCode.offset_metadata_too_large, ErrorCode.unknown_topic_or_partition]
    assert member.committed() == {0: (1, longest)}


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"member_id": "stranger"}, ErrorCode.unknown_member_id),
        ({"generation_id_or_member_epoch": 0}, ErrorCode.illegal_generation),
        ({"generation_id_or_member_epoch": 7}, ErrorCode.illegal_generation),
        ({"generation_id_or_member_epoch": -1, "member_id": NOBODY}, ErrorCode.unknown_member_id),
    ],
    ids=str,
)
def test_only_members_of_this_generation_commit_for_a_group_in_use(
    fields: dict[str, Any], code: ErrorCode, member: WireMember
) -> None:
    assert member.commit({(member.topic, 0): 9, (member.topic, 1): 9}, **fields) == [code] * 2
    assert member.committed() == {}


@pytest.mark.parametrize(
    ("version", "code"), [(9, ErrorCode.group_id_not_found), (8, ErrorCode.illegal_generation)]
)
def test_no_generation_of_a_group_that_does_not_exist_commits(
    version: int, code: ErrorCode, new_member: NewMember
) -> None:
    outsider = new_member()
    outsider.generation, outsider.member_id = 3, "stranger"
    assert outsider.commit({(outsider.topic, 0): 1}, version) == [code]


def test_anybody_may_commit_for_a_group_without_members(new_member: NewMember) -> None:
    outsider = new_member()
    assert outsider.commit({(outsider.topic, 0): 5}) == [ErrorCode.none]
    assert outsider.committed() == {0: (5, "")}


# Administration


def test_what_was_never_committed_is_no_error(wire: Wire, orders: str) -> None:
    asked = {"group_id": "nowhere", "topics": [{"name": orders, "partition_indexes": [0, 99]}]}
    (group,) = wire.call(ApiKey.OFFSET_FETCH, 9, groups=[{**asked, "member_epoch": -1}]).groups
    assert group.error_code == ErrorCode.none
    assert [(each.error_code, each.committed_offset) for each in group.topics[0].partitions] == [
        (ErrorCode.none, -1)
    ] * 2


def test_offsets_in_use_cannot_be_deleted(member: WireMember) -> None:
    def delete(group: str, *places: tuple[str, int]) -> Any:
        topics = [{"name": name, "partitions": [{"partition_index": index}]} for name, index in places]
        return member.wire.call(ApiKey.OFFSET_DELETE, 0, group_id=group, topics=topics)

    member.commit({(member.topic, 0): 3})
    answer = delete(member.group, (member.topic, 0), ("no-such-topic", 0))
    codes = {topic.name: topic.partitions[0].error_code for topic in answer.topics}
    assert codes == {
        member.topic: ErrorCode.group_subscribed_to_topic,
        "no-such-topic": ErrorCode.unknown_topic_or_partition,
    }
    assert delete("nowhere", (member.topic, 0)).error_code == ErrorCode.group_id_not_found
    assert delete("", (member.topic, 0)).error_code == ErrorCode.invalid_group_id
    member.leave(member.member_id)
    assert delete(member.group, (member.topic, 0)).topics[0].partitions[0].error_code == ErrorCode.none
    assert member.committed() == {}


def test_groups_in_use_cannot_be_deleted(member: WireMember) -> None:
    answer = member.wire.call(ApiKey.DELETE_GROUPS, 2, groups_names=[member.group, "nowhere", ""])
    assert {each.group_id: each.error_code for each in answer.results} == {
        member.group: ErrorCode.non_empty_group,
        "nowhere": ErrorCode.group_id_not_found,
        "": ErrorCode.group_id_not_found,  # a group of that name can be, from simple commits
    }
    member.leave(member.member_id)
    (result,) = member.wire.call(ApiKey.DELETE_GROUPS, 2, groups_names=[member.group]).results
    assert result.error_code == ErrorCode.none


@pytest.mark.parametrize(("version", "code"), [(6, ErrorCode.group_id_not_found), (5, ErrorCode.none)])
def test_a_group_that_does_not_exist_is_described_as_dead(version: int, code: ErrorCode, wire: Wire) -> None:
    (group,) = wire.call(ApiKey.DESCRIBE_GROUPS, version, groups=["nowhere"]).groups
    assert (group.error_code, group.group_state) == (code, "Dead")
