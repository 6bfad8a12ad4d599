"""Bad input to the group coordinator, about who is in a group: the exact error that Kafka answers."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import pytest
from kio.schema.errors import ErrorCode
from tests.integration.clients import wait_until
from tests.integration.group_wires import NewMember
from tests.integration.wire import Wire
from tests.integration.wire_groups import WireMember, ms

from ottla.protocol.api_keys import ApiKey

BROKER_SETTINGS = {"group.initial.rebalance.delay.ms": "0", "group.max.size": "3", "num.partitions": "1"}


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


def test_a_new_member_learns_its_id_first_from_v4_on(new_member: NewMember) -> None:
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
def test_a_member_without_a_common_protocol_is_refused(
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


def test_unknown_members_cannot_leave_and_the_others_can(member: WireMember) -> None:
    answer = member.leave("stranger", member.member_id)
    assert answer.error_code == ErrorCode.none
    assert [each.error_code for each in answer.members] == [ErrorCode.unknown_member_id, ErrorCode.none]
    assert member.heartbeat() == ErrorCode.unknown_member_id


def test_a_group_that_does_not_exist_cannot_be_left(new_member: NewMember) -> None:
    answer = new_member().leave("stranger", group="nowhere")
    assert (answer.error_code, answer.members[0].error_code) == (
        ErrorCode.none,
        ErrorCode.unknown_member_id,
    )


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
    fields: dict[str, Any], code: ErrorCode, wire: Wire, group: str, orders: str
) -> None:
    assert consumer_heartbeat(wire, **joining(group, orders, **fields)).error_code == code


@pytest.mark.parametrize(("owned", "code"), [([], ErrorCode.none), ([0], ErrorCode.invalid_request)])
def test_pitfall_21_a_join_carries_no_owned_partitions(
    owned: list[int], code: ErrorCode, wire: Wire, group: str, orders: str
) -> None:
    partitions = [{"topic_id": uuid4(), "partitions": owned}] if owned else []
    joined = consumer_heartbeat(wire, **joining(group, orders, topic_partitions=partitions))
    assert joined.error_code == code


def test_members_of_the_consumer_protocol_are_fenced_by_their_epoch(
    wire: Wire, group: str, orders: str, new_member: NewMember
) -> None:
    first = joining(group, orders)
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
        assert outsider.commit({(orders, 0): 5}) == [code]
    outsider.member_id = stranger["member_id"]
    assert outsider.commit({(orders, 0): 6}) == [ErrorCode.unknown_member_id]
