"""The groups of the client tests' broker in memory."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from kio.schema.consumer_group_describe.v1 import response as consumer_group_describe
from kio.schema.delete_groups.v2 import response as delete_groups
from kio.schema.describe_groups.v6 import response as describe_groups
from kio.schema.errors import ErrorCode
from kio.schema.find_coordinator.v3 import response as find_one
from kio.schema.find_coordinator.v6 import response as find_many
from kio.schema.list_groups.v5 import response as list_groups
from kio.schema.offset_commit.v9 import response as offset_commit
from kio.schema.offset_delete.v0 import response as offset_delete
from kio.schema.offset_fetch.v7 import response as fetch_alone
from kio.schema.offset_fetch.v9 import response as fetch_many

from ottla.common.ids import TopicPartition, new_uuid
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.consumer_protocol import encode_assignment
from ottla.protocol.types import NO_THROTTLE


@dataclass
class FakeMember:
    member_id: str
    partitions: list[TopicPartition]
    client_id: str = "app"
    instance_id: str | None = None


@dataclass
class FakeGroup:
    type: str = "classic"
    protocol_type: str = "consumer"
    members: list[FakeMember] = field(default_factory=list)
    offsets: dict[TopicPartition, tuple[int, str]] = field(default_factory=dict)

    @property
    def state(self) -> str:
        return "Stable" if self.members else "Empty"


def find_coordinator(broker: Any, request: Any, fault: ErrorCode | None) -> Any:
    found = {
        "node_id": broker.node_id,
        "host": broker.address.host,
        "port": broker.address.port,
        "error_code": fault or ErrorCode.none,
        "error_message": None,
    }
    if hasattr(request, "key"):
        return find_one.FindCoordinatorResponse(throttle_time=NO_THROTTLE, **found)
    coordinators = tuple(find_many.Coordinator(key=key, **found) for key in request.coordinator_keys)
    return find_many.FindCoordinatorResponse(throttle_time=NO_THROTTLE, coordinators=coordinators)


def list_all(broker: Any, request: Any, fault: ErrorCode | None) -> Any:
    listed = tuple(
        list_groups.ListedGroup(
            group_id=name,
            protocol_type=group.protocol_type,
            group_state=group.state,
            group_type=group.type.title(),
        )
        for name, group in broker.groups.items()
        if not request.states_filter or group.state in request.states_filter
    )
    return list_groups.ListGroupsResponse(
        throttle_time=NO_THROTTLE, error_code=fault or ErrorCode.none, groups=listed
    )


def describe_classic(broker: Any, request: Any, fault: ErrorCode | None) -> Any:
    (name,) = request.groups
    group = broker.groups.get(name)
    exists = group is not None and group.type == "classic"
    if not exists:
        group = FakeGroup(protocol_type="")
        if broker.versions[ApiKey.DESCRIBE_GROUPS][1] >= 6:  # before that, only the state said so
            fault = fault or ErrorCode.group_id_not_found
    described = describe_groups.DescribedGroup(
        error_code=fault or ErrorCode.none,
        group_id=name,
        group_state=group.state if exists else "Dead",
        protocol_type=group.protocol_type,
        protocol_data="range" if group.members else "",
        members=tuple(
            describe_groups.DescribedGroupMember(
                member_id=each.member_id,
                group_instance_id=each.instance_id,
                client_id=each.client_id,
                client_host="/10.0.0.7",
                member_metadata=b"",
                member_assignment=encode_assignment(each.partitions),
            )
            for each in group.members
        ),
    )
    return describe_groups.DescribeGroupsResponse(throttle_time=NO_THROTTLE, groups=(described,))


def describe_consumer(broker: Any, request: Any, fault: ErrorCode | None) -> Any:
    (name,) = request.group_ids
    group = broker.groups.get(name)
    if group is None or group.type != "consumer":
        fault, group = fault or ErrorCode.group_id_not_found, FakeGroup()
    described = consumer_group_describe.DescribedGroup(
        error_code=fault or ErrorCode.none,
        group_id=name,
        group_state=group.state,
        group_epoch=1,
        assignment_epoch=1,
        assignor_name="uniform",
        members=tuple(
            consumer_group_describe.Member(
                member_id=each.member_id,
                instance_id=each.instance_id,
                member_epoch=1,
                client_id=each.client_id,
                client_host="/10.0.0.7",
                subscribed_topic_names=(),
                assignment=_assignment(each),
                target_assignment=_assignment(each),
            )
            for each in group.members
        ),
    )
    return consumer_group_describe.ConsumerGroupDescribeResponse(
        throttle_time=NO_THROTTLE, groups=(described,)
    )


def _assignment(member: FakeMember) -> Any:
    return consumer_group_describe.Assignment(
        topic_partitions=tuple(
            consumer_group_describe.TopicPartitions(
                topic_id=new_uuid(), topic_name=each.topic, partitions=(each.partition,)
            )
            for each in member.partitions
        )
    )


def fetch_offsets(broker: Any, request: Any, fault: ErrorCode | None) -> Any:
    alone = hasattr(request, "group_id")
    name = request.group_id if alone else request.groups[0].group_id
    module: Any = fetch_alone if alone else fetch_many
    plural = "" if alone else "s"
    one = getattr(module, f"OffsetFetchResponsePartition{plural}")
    topics = tuple(
        getattr(module, f"OffsetFetchResponseTopic{plural}")(
            name=each.topic,
            partitions=(
                one(
                    partition_index=each.partition,
                    committed_offset=offset,
                    metadata=metadata,
                    error_code=ErrorCode.none,
                ),
            ),
        )
        for each, (offset, metadata) in broker.groups.get(name, FakeGroup()).offsets.items()
    )
    code = fault or ErrorCode.none
    if alone:
        return fetch_alone.OffsetFetchResponse(throttle_time=NO_THROTTLE, topics=topics, error_code=code)
    group = fetch_many.OffsetFetchResponseGroup(group_id=name, topics=topics, error_code=code)
    return fetch_many.OffsetFetchResponse(throttle_time=NO_THROTTLE, groups=(group,))


def commit_offsets(broker: Any, request: Any, fault: ErrorCode | None) -> Any:
    group = broker.groups.get(request.group_id)
    if group is not None and group.members:
        fault = fault or ErrorCode.unknown_member_id
    if not fault:
        group = broker.groups.setdefault(request.group_id, FakeGroup(protocol_type=""))
        for topic in request.topics:
            for each in topic.partitions:
                place = TopicPartition(topic.name, each.partition_index)
                group.offsets[place] = (each.committed_offset, each.committed_metadata)
    topics = tuple(
        offset_commit.OffsetCommitResponseTopic(
            name=topic.name,
            partitions=tuple(
                offset_commit.OffsetCommitResponsePartition(
                    partition_index=each.partition_index, error_code=fault or ErrorCode.none
                )
                for each in topic.partitions
            ),
        )
        for topic in request.topics
    )
    return offset_commit.OffsetCommitResponse(throttle_time=NO_THROTTLE, topics=topics)


def delete_offsets(broker: Any, request: Any, fault: ErrorCode | None) -> Any:
    group = broker.groups[request.group_id]
    if group.members:
        fault = fault or ErrorCode.group_subscribed_to_topic
    topics = []
    for topic in request.topics:
        for each in topic.partitions:
            if not fault:
                del group.offsets[TopicPartition(topic.name, each.partition_index)]
        answers = tuple(
            offset_delete.OffsetDeleteResponsePartition(
                partition_index=each.partition_index, error_code=fault or ErrorCode.none
            )
            for each in topic.partitions
        )
        topics.append(offset_delete.OffsetDeleteResponseTopic(name=topic.name, partitions=answers))
    return offset_delete.OffsetDeleteResponse(
        throttle_time=NO_THROTTLE, error_code=ErrorCode.none, topics=tuple(topics)
    )


def delete_all(broker: Any, request: Any, fault: ErrorCode | None) -> Any:
    (name,) = request.groups_names
    if broker.groups[name].members:
        fault = fault or ErrorCode.non_empty_group
    if not fault:
        del broker.groups[name]
    result = delete_groups.DeletableGroupResult(group_id=name, error_code=fault or ErrorCode.none)
    return delete_groups.DeleteGroupsResponse(throttle_time=NO_THROTTLE, results=(result,))


VERSIONS = {
    ApiKey.FIND_COORDINATOR: (0, 6),
    ApiKey.LIST_GROUPS: (0, 5),
    ApiKey.DESCRIBE_GROUPS: (0, 6),
    ApiKey.CONSUMER_GROUP_DESCRIBE: (0, 1),
    ApiKey.OFFSET_FETCH: (1, 9),
    ApiKey.OFFSET_COMMIT: (2, 9),
    ApiKey.OFFSET_DELETE: (0, 0),
    ApiKey.DELETE_GROUPS: (0, 2),
}

NEWEST = {key: newest for key, (_, newest) in VERSIONS.items()}

HANDLERS: dict[ApiKey, Any] = {
    ApiKey.FIND_COORDINATOR: find_coordinator,
    ApiKey.LIST_GROUPS: list_all,
    ApiKey.DESCRIBE_GROUPS: describe_classic,
    ApiKey.CONSUMER_GROUP_DESCRIBE: describe_consumer,
    ApiKey.OFFSET_FETCH: fetch_offsets,
    ApiKey.OFFSET_COMMIT: commit_offsets,
    ApiKey.OFFSET_DELETE: delete_offsets,
    ApiKey.DELETE_GROUPS: delete_all,
}


def as_version(key: int, version: int) -> int:
    """Return which classes hold a message of this version: two APIs changed their shape once."""
    if key == ApiKey.FIND_COORDINATOR and version < 4:
        return 3
    if key == ApiKey.OFFSET_FETCH and version < 8:
        return 7
    return NEWEST[ApiKey(key)]
