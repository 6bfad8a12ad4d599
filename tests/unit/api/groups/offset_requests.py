"""Requests about offsets, in the versions where their shape changed."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from uuid import UUID

from kio.schema.offset_commit import v4, v9, v10
from kio.schema.offset_fetch import v7 as fetch_v7
from kio.schema.offset_fetch import v9 as fetch_v9
from kio.schema.offset_fetch import v10 as fetch_v10

Offsets = dict[int, int]


def commit(
    topics: dict[str, Offsets], schema: Any = v9, metadata: str | None = "note", **changes: Any
) -> Any:
    """An OffsetCommit by name; `schema` is v4 or v9."""
    request = schema.request
    newest: dict[str, Any] = (
        {"group_instance_id": None} if schema is v9 else {"retention_time": timedelta(milliseconds=-1)}
    )
    fields = {
        "group_id": "g",
        "generation_id_or_member_epoch": -1,
        "member_id": "",
        **newest,
        "topics": tuple(
            request.OffsetCommitRequestTopic(name=name, partitions=_partitions(request, offsets, metadata))
            for name, offsets in topics.items()
        ),
    }
    return request.OffsetCommitRequest(**{**fields, **changes})


def commit_by_id(topics: dict[UUID, Offsets], **changes: Any) -> v10.OffsetCommitRequest:
    """An OffsetCommit by topic id."""
    fields: dict[str, Any] = {
        "group_id": "g",
        "generation_id_or_member_epoch": -1,
        "member_id": "",
        "group_instance_id": None,
        "topics": tuple(
            v10.request.OffsetCommitRequestTopic(
                topic_id=topic_id, partitions=_partitions(v10.request, offsets, "note")
            )
            for topic_id, offsets in topics.items()
        ),
    }
    return v10.OffsetCommitRequest(**{**fields, **changes})


def _partitions(request: Any, offsets: Offsets, metadata: str | None) -> tuple[Any, ...]:
    epoch = {} if request is v4.request else {"committed_leader_epoch": 6}
    return tuple(
        request.OffsetCommitRequestPartition(
            partition_index=index, committed_offset=offset, committed_metadata=metadata, **epoch
        )
        for index, offset in offsets.items()
    )


def codes(response: Any) -> list[tuple[Any, list[tuple[int, Any]]]]:
    """The error codes of an OffsetCommit, by topic and partition."""
    return [
        (
            topic.topic_id if hasattr(topic, "topic_id") else topic.name,
            [(each.partition_index, each.error_code) for each in topic.partitions],
        )
        for topic in response.topics
    ]


def fetch(topics: dict[str, tuple[int, ...]] | None, group_id: str = "g") -> fetch_v7.OffsetFetchRequest:
    """An OffsetFetch of one group."""
    asked: Any = None
    if topics is not None:
        asked = tuple(
            fetch_v7.request.OffsetFetchRequestTopic(name=name, partition_indexes=indexes)  # type: ignore[arg-type]
            for name, indexes in topics.items()
        )
    return fetch_v7.OffsetFetchRequest(group_id=group_id, topics=asked, require_stable=False)  # type: ignore[arg-type]


def fetch_groups(groups: dict[str, dict[str, tuple[int, ...]] | None]) -> fetch_v9.OffsetFetchRequest:
    """An OffsetFetch of several groups."""
    asked: Any = tuple(
        fetch_v9.request.OffsetFetchRequestGroup(
            group_id=group_id,  # type: ignore[arg-type]
            topics=None  # type: ignore[arg-type]
            if topics is None
            else tuple(
                fetch_v9.request.OffsetFetchRequestTopics(name=name, partition_indexes=indexes)  # type: ignore[arg-type]
                for name, indexes in topics.items()
            ),
        )
        for group_id, topics in groups.items()
    )
    return fetch_v9.OffsetFetchRequest(groups=asked, require_stable=True)


def fetch_by_id(topics: dict[UUID, tuple[int, ...]] | None) -> fetch_v10.OffsetFetchRequest:
    """An OffsetFetch by topic id."""
    asked: Any = None
    if topics is not None:
        asked = tuple(
            fetch_v10.request.OffsetFetchRequestTopics(topic_id=topic_id, partition_indexes=indexes)  # type: ignore[arg-type]
            for topic_id, indexes in topics.items()
        )
    group: Any = fetch_v10.request.OffsetFetchRequestGroup(group_id="g", topics=asked)  # type: ignore[arg-type]
    return fetch_v10.OffsetFetchRequest(groups=(group,), require_stable=False)
