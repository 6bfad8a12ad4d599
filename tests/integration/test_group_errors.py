"""Bad input to the group coordinator: the error that Kafka answers, per partition where there is one."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any
from uuid import uuid4

import pytest
from kio.schema.errors import ErrorCode
from tests.integration.clients import HasAddress, wait_until
from tests.integration.wire import Wire, create_topic
from tests.integration.wire_groups import NOBODY, WireMember, ms, stable_group

from ottla.common.ids import new_uuid
from ottla.protocol.api_keys import ApiKey

BROKER_SETTINGS = {"group.initial.rebalance.delay.ms": "0", "group.max.size": "3", "num.partitions": "1"}
METADATA_LIMIT = 4096
_numbers = itertools.count()

NewMember = Callable[[], WireMember]


@pytest.fixture(scope="module", autouse=True)
def coordinator(broker: HasAddress) -> None:
    """Find the coordinator, as every client does first: it makes `__consumer_offsets`."""

    def is_found() -> bool:
        with Wire(broker.address) as wire:
            (found,) = wire.call(ApiKey.FIND_COORDINATOR, 4, coordinator_keys=["any"]).coordinators
        return found.error_code == ErrorCode.none

    wait_until(is_found, "a coordinator")


@pytest.fixture
def wire(broker: HasAddress) -> Iterator[Wire]:
    with Wire(broker.address) as connection:
        yield connection


@pytest.fixture
def group() -> str:
    return f"group-{new_uuid().hex[:8]}-{next(_numbers)}"


@pytest.fixture(scope="module")
def topic(broker: HasAddress) -> str:
    with Wire(broker.address) as wire:
        name = f"orders-{new_uuid().hex[:8]}"
        create_topic(wire, name, partitions=2)
    return name


@pytest.fixture
def new_member(broker: HasAddress, group: str, topic: str) -> Iterator[NewMember]:
    """Make members that have not joined yet."""
    made: list[WireMember] = []

    def make() -> WireMember:
        made.append(WireMember(broker.address, group, topic))
        return made[-1]

    yield make
    for each in made:
        each.__exit__()


@pytest.fixture
def member(broker: HasAddress, group: str, topic: str) -> Iterator[WireMember]:
    """The only member of a stable group."""
    with stable_group(broker.address, group, topic) as joined:
        yield joined


# JoinGroup


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"group_id": ""}, ErrorCode.invalid_group_id),
        ({"session_timeout": ms(1)}, ErrorCode.invalid_session_timeout),
        ({"session_timeout": ms(2_000_000_000)}, ErrorCode.invalid_session_timeout),
        ({"member_id": "stranger"}, ErrorCode.unknown_member_id),
        ({"protocols": []}, ErrorCode.inconsistent_group_protocol),
        ({"protocol_type": ""}, ErrorCode.inconsistent_group_protocol),
    ],
    ids=lambda value: ", ".join(value) if isinstance(value, dict) else value.name,
)
def test_a_join_that_makes_no_sense_is_refused(
    fields: dict[str, Any], code: ErrorCode, new_member: NewMember
) -> None:
    assert new_member().join(**fields).error_code == code


def test_a_new_member_is_told_its_id_first_from_v4_on(new_member: NewMember) -> None:
    member = new_member()
    member.send_join(4)
    answer = member.joined()
    assert answer.error_code == ErrorCode.member_id_required
    assert answer.member_id
    old = new_member()
    old.send_join(3)
    assert old.joined().error_code == ErrorCode.none


def test_a_stranger_cannot_join_an_existing_group_under_an_id_of_its_own(
    member: WireMember, new_member: NewMember
) -> None:
    assert new_member().join(member_id="stranger").error_code == ErrorCode.unknown_member_id


@pytest.mark.parametrize(
    "fields",
    [
        {"protocol_type": "connect"},
        {"protocols": [{"name": "sticky", "metadata": b""}]},
    ],
    ids=["another type", "no protocol in common"],
)
def test_whoever_shares_no_protocol_with_the_group_stays_out(
    fields: dict[str, Any], member: WireMember, new_member: NewMember
) -> None:
    assert new_member().join(**fields).error_code == ErrorCode.inconsistent_group_protocol
    assert member.heartbeat() == ErrorCode.none


def test_a_group_takes_no_more_members_than_it_may_have(new_member: NewMember) -> None:
    first, *others = members = [new_member() for _ in range(3)]
    assert first.join(3).error_code == ErrorCode.none  # before v4, without a detour for its id
    for each in (*others, first):
        each.send_join(3)
    assert [each.joined().error_code for each in members] == [ErrorCode.none] * 3
    assert new_member().join().error_code == ErrorCode.group_max_size_reached
    assert first.leave(others[0].member_id).members[0].error_code == ErrorCode.none
    newcomer = new_member()
    newcomer.send_join()
    assert newcomer.joined().error_code == ErrorCode.member_id_required


def test_a_static_member_that_was_replaced_is_fenced(new_member: NewMember) -> None:
    first, second = new_member(), new_member()
    first.join(group_instance_id="one")
    assert first.sync(first, group_instance_id="one").error_code == ErrorCode.none
    assert second.join(group_instance_id="one").error_code == ErrorCode.none
    assert second.member_id != first.member_id
    assert first.heartbeat(group_instance_id="one") == ErrorCode.fenced_instance_id
    assert first.sync(group_instance_id="one").error_code == ErrorCode.fenced_instance_id
    assert first.commit({(first.topic, 0): 1}, group_instance_id="one") == [ErrorCode.fenced_instance_id]
    assert second.heartbeat(group_instance_id="one") == ErrorCode.none


# SyncGroup, Heartbeat, LeaveGroup


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"group_id": ""}, ErrorCode.invalid_group_id),
        ({"group_id": "nowhere"}, ErrorCode.unknown_member_id),
        ({"member_id": "stranger"}, ErrorCode.unknown_member_id),
        ({"generation_id": 0}, ErrorCode.illegal_generation),
        ({"generation_id": 7}, ErrorCode.illegal_generation),
        ({"protocol_name": "sticky"}, ErrorCode.inconsistent_group_protocol),
        ({"protocol_type": "connect"}, ErrorCode.inconsistent_group_protocol),
        ({"protocol_name": None}, ErrorCode.inconsistent_group_protocol),
    ],
    ids=str,
)
def test_a_sync_of_the_wrong_member_or_generation_is_refused(
    fields: dict[str, Any], code: ErrorCode, member: WireMember
) -> None:
    assert member.sync(**fields).error_code == code
    assert member.sync().error_code == ErrorCode.none


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"group_id": ""}, ErrorCode.invalid_group_id),
        ({"group_id": "nowhere"}, ErrorCode.unknown_member_id),
        ({"member_id": "stranger"}, ErrorCode.unknown_member_id),
        ({"generation_id": 0}, ErrorCode.illegal_generation),
        ({"generation_id": 7}, ErrorCode.illegal_generation),
    ],
    ids=str,
)
def test_a_heartbeat_of_the_wrong_member_or_generation_is_refused(
    fields: dict[str, Any], code: ErrorCode, member: WireMember
) -> None:
    assert member.heartbeat(**fields) == code
    assert member.heartbeat() == ErrorCode.none


def test_members_learn_of_a_rebalance_wherever_they_ask(member: WireMember, new_member: NewMember) -> None:
    newcomer = new_member()
    newcomer.send_join()
    assert newcomer.joined().error_code == ErrorCode.member_id_required
    newcomer.send_join()  # waits for the first member
    wait_until(lambda: member.heartbeat() == ErrorCode.rebalance_in_progress, "the rebalance")
    assert member.sync().error_code == ErrorCode.rebalance_in_progress
    stale = member.generation
    member.send_join()
    assert member.joined().error_code == ErrorCode.none
    assert newcomer.joined().error_code == ErrorCode.none
    assert newcomer.generation == member.generation == stale + 1
    assert member.heartbeat(generation_id=stale) == ErrorCode.illegal_generation
    assert member.commit({(member.topic, 0): 1}) == [ErrorCode.rebalance_in_progress]


def test_whoever_is_not_there_cannot_leave_and_the_others_can(member: WireMember) -> None:
    answer = member.leave("stranger", member.member_id)
    assert answer.error_code == ErrorCode.none
    assert [each.error_code for each in answer.members] == [ErrorCode.unknown_member_id, ErrorCode.none]
    assert member.heartbeat() == ErrorCode.unknown_member_id


def test_nobody_leaves_a_group_that_does_not_exist(new_member: NewMember) -> None:
    answer = new_member().leave("stranger", group="nowhere")
    assert (answer.error_code, answer.members[0].error_code) == (
        ErrorCode.none,
        ErrorCode.unknown_member_id,
    )


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


def test_what_was_never_committed_is_no_error(wire: Wire, topic: str) -> None:
    asked = {"group_id": "nowhere", "topics": [{"name": topic, "partition_indexes": [0, 99]}]}
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


# The consumer protocol


def consumer_heartbeat(wire: Wire, **fields: Any) -> Any:
    wanted = {
        "rebalance_timeout": ms(-1),
        "subscribed_topic_names": None,
        "topic_partitions": None,
        **fields,
    }
    return wire.call(ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, **wanted)


def joining(group: str, topic: str, **fields: Any) -> dict[str, Any]:
    return {
        "group_id": group,
        "member_id": str(uuid4()),
        "member_epoch": 0,
        "rebalance_timeout": ms(10_000),
        "subscribed_topic_names": [topic],
        "topic_partitions": [],
        **fields,
    }


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"group_id": ""}, ErrorCode.invalid_request),
        ({"member_id": ""}, ErrorCode.invalid_request),
        ({"member_epoch": -7}, ErrorCode.invalid_request),
        ({"rebalance_timeout": ms(-1)}, ErrorCode.invalid_request),
        ({"subscribed_topic_names": None}, ErrorCode.invalid_request),
        ({"instance_id": ""}, ErrorCode.invalid_request),
        ({"server_assignor": "magic"}, ErrorCode.unsupported_assignor),
        (
            {"subscribed_topic_names": None, "subscribed_topic_regex": "("},
            ErrorCode.invalid_regular_expression,
        ),
        ({"member_epoch": 3, "topic_partitions": []}, ErrorCode.group_id_not_found),
    ],
    ids=str,
)
def test_a_heartbeat_of_the_consumer_protocol_that_makes_no_sense_is_refused(
    fields: dict[str, Any], code: ErrorCode, wire: Wire, group: str, topic: str
) -> None:
    assert consumer_heartbeat(wire, **joining(group, topic, **fields)).error_code == code


def test_members_of_the_consumer_protocol_are_fenced_by_their_epoch(
    wire: Wire, group: str, topic: str, new_member: NewMember
) -> None:
    first = joining(group, topic)
    joined = consumer_heartbeat(wire, **first)
    assert (joined.error_code, joined.member_epoch) == (ErrorCode.none, 1)
    known = {"group_id": group, "member_id": first["member_id"]}
    assert consumer_heartbeat(wire, **known, member_epoch=1).error_code == ErrorCode.none
    assert consumer_heartbeat(wire, **known, member_epoch=9).error_code == ErrorCode.fenced_member_epoch
    stranger = {**known, "member_id": str(uuid4())}
    assert consumer_heartbeat(wire, **stranger, member_epoch=1).error_code == ErrorCode.unknown_member_id
    outsider = new_member()
    outsider.member_id = first["member_id"]
    for epoch, code in ((0, ErrorCode.stale_member_epoch), (1, ErrorCode.none)):
        outsider.generation = epoch
        assert outsider.commit({(topic, 0): 5}) == [code]
    outsider.member_id = stranger["member_id"]
    assert outsider.commit({(topic, 0): 6}) == [ErrorCode.unknown_member_id]
