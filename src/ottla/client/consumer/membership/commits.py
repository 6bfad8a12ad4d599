"""Committed offsets of the group: OffsetCommit and OffsetFetch, and commits in the background."""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from typing import Protocol, TypeVar

from kio.schema.errors import ErrorCode
from kio.schema.offset_commit.v9 import OffsetCommitRequest, OffsetCommitResponse
from kio.schema.offset_commit.v9.request import OffsetCommitRequestPartition, OffsetCommitRequestTopic
from kio.schema.offset_fetch import v7 as fetch_alone
from kio.schema.offset_fetch import v9 as fetch_many
from kio.schema.offset_fetch.v7.request import OffsetFetchRequestTopic
from kio.schema.offset_fetch.v9.request import OffsetFetchRequestGroup, OffsetFetchRequestTopics

from ottla.client.admin.group_types import ConsumerGroupMetadata, OffsetAndMetadata
from ottla.client.cluster import Cluster
from ottla.client.consumer.options import CONSUMER, ConsumerOptions
from ottla.client.coordinators import NOT_COORDINATOR, CoordinatorKind, Coordinators
from ottla.client.errors import ClientError, ConnectionLost, error_for, raise_for
from ottla.common.ids import TopicPartition
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.errors import FencedInstanceId, KafkaError
from ottla.protocol.types import GroupId, TopicName, i32, i64
from ottla.wire.connection import Connection

FIRST_FETCH_OF_MANY = 8

ANOTHER_COORDINATOR = NOT_COORDINATOR | {ErrorCode.coordinator_not_available}

RETRIABLE = NOT_COORDINATOR | {
    ErrorCode.unstable_offset_commit,
    ErrorCode.request_timed_out,
    ErrorCode.stale_member_epoch,
}
NO_LONGER_OURS = frozenset(
    {
        ErrorCode.illegal_generation,
        ErrorCode.unknown_member_id,
        ErrorCode.rebalance_in_progress,
        ErrorCode.fenced_member_epoch,
    }
)

Offsets = Mapping[TopicPartition, OffsetAndMetadata]
Argument = TypeVar("Argument")
Result = TypeVar("Result")


class CommitFailed(ClientError):
    """The group has rebalanced: other members have these partitions now, and will read the records again.

    Either more than max_poll_interval_ms passed between two calls, or the commit came during a rebalance.
    """


class GroupMember(Protocol):
    """The consumer's membership in its group."""

    @property
    def identity(self) -> ConsumerGroupMetadata:
        """The member id and the generation or epoch now."""
        ...

    @property
    def signature(self) -> ConsumerGroupMetadata:
        """The identity that commits carry: the last one, if the group has fenced this member."""
        ...


class Commits:
    """Commits and fetches a group's offsets at its coordinator."""

    def __init__(
        self,
        cluster: Cluster,
        coordinators: Coordinators,
        options: ConsumerOptions,
        member: GroupMember,
    ) -> None:
        self._cluster = cluster
        self._coordinators = coordinators
        self._options = options
        self._group_id = options.group_id or ""
        self._member = member

    async def fetch(
        self, partitions: Collection[TopicPartition], timeout_ms: float | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return the committed offsets of partitions, without those that have none."""
        if not partitions:
            return {}
        return await self._retrying(self._fetch, partitions, timeout_ms)

    async def commit(self, offsets: Offsets, timeout_ms: float | None = None) -> None:
        """Commit offsets; raise CommitFailed if the group has rebalanced."""
        if offsets:
            await self._retrying(self._commit, offsets, timeout_ms)

    async def _retrying(
        self,
        call: Callable[[Connection, Argument], Awaitable[Result]],
        argument: Argument,
        timeout_ms: float | None,
    ) -> Result:
        """Make a call to the coordinator; look the coordinator up again if it moved."""
        coordinators, group_id = self._coordinators, self._group_id

        async def attempt() -> Result:
            connection = coordinators.open_connection(CoordinatorKind.GROUP, group_id)
            if connection is None:
                connection = await coordinators.connect(CoordinatorKind.GROUP, group_id)
            try:
                return await call(connection, argument)
            except KafkaError as error:
                if error.code in ANOTHER_COORDINATOR:
                    coordinators.forget(CoordinatorKind.GROUP, group_id)
                raise
            except ConnectionLost:
                coordinators.forget(CoordinatorKind.GROUP, group_id)
                raise

        return await self._cluster.retrying(
            attempt,
            also=RETRIABLE,
            wait_for_brokers=True,
            timeout_ms=self._options.default_api_timeout_ms if timeout_ms is None else timeout_ms,
            what=f"the coordinator of group {group_id} did not answer",
        )

    async def _commit(self, connection: Connection, offsets: Offsets) -> None:
        signature = self._member.signature
        topics: dict[str, list[OffsetCommitRequestPartition]] = defaultdict(list)
        for (name, index), (offset, metadata, leader_epoch) in offsets.items():
            topics[name].append(
                OffsetCommitRequestPartition(
                    partition_index=i32(index),
                    committed_offset=i64(offset),
                    committed_leader_epoch=i32(leader_epoch),
                    committed_metadata=metadata,
                )
            )
        request = OffsetCommitRequest(
            group_id=GroupId(self._group_id),
            generation_id_or_member_epoch=i32(signature.generation_id),
            member_id=signature.member_id,
            group_instance_id=signature.group_instance_id,
            topics=tuple(
                OffsetCommitRequestTopic(name=TopicName(name), partitions=tuple(each))
                for name, each in topics.items()
            ),
        )
        timeout_ms = self._options.request_timeout_ms
        response = await connection.request(request, OffsetCommitResponse, timeout_ms=timeout_ms)
        for topic in response.topics:
            for each in topic.partitions:
                if each.error_code:
                    partition = TopicPartition(topic.name, each.partition_index)
                    raise _commit_error(partition, each.error_code, signature.group_instance_id)

    async def _fetch(
        self, connection: Connection, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        by_topic: dict[str, list[i32]] = defaultdict(list)
        for name, index in partitions:
            by_topic[name].append(i32(index))
        found: dict[TopicPartition, OffsetAndMetadata] = {}
        for topic in await self._fetch_topics(connection, by_topic):
            for each in topic.partitions:
                partition = TopicPartition(topic.name, each.partition_index)
                raise_for(each.error_code, str(partition))
                if each.committed_offset >= 0:
                    found[partition] = OffsetAndMetadata(
                        each.committed_offset, each.metadata or "", each.committed_leader_epoch
                    )
        return found

    async def _fetch_topics(
        self, connection: Connection, by_topic: Mapping[str, list[i32]]
    ) -> Iterable[
        fetch_many.response.OffsetFetchResponseTopics | fetch_alone.response.OffsetFetchResponseTopic
    ]:
        timeout_ms = self._options.request_timeout_ms
        group_id = GroupId(self._group_id)
        if connection.version_of(ApiKey.OFFSET_FETCH, 9) < FIRST_FETCH_OF_MANY:
            alone = fetch_alone.OffsetFetchRequest(
                group_id=group_id,
                topics=tuple(
                    OffsetFetchRequestTopic(name=TopicName(name), partition_indexes=tuple(indexes))
                    for name, indexes in by_topic.items()
                ),
                require_stable=connection.version_of(ApiKey.OFFSET_FETCH, 7) >= 7,
            )
            answer = await connection.request(alone, fetch_alone.OffsetFetchResponse, timeout_ms=timeout_ms)
            raise_for(answer.error_code, self._group_id)
            return answer.topics
        identity = self._member.identity
        is_member = self._options.group_protocol == CONSUMER and identity.member_id
        asked = OffsetFetchRequestGroup(
            group_id=group_id,
            member_id=identity.member_id if is_member else None,
            member_epoch=i32(identity.generation_id if is_member else -1),
            topics=tuple(
                OffsetFetchRequestTopics(name=TopicName(name), partition_indexes=tuple(indexes))
                for name, indexes in by_topic.items()
            ),
        )
        many = fetch_many.OffsetFetchRequest(groups=(asked,), require_stable=True)
        response = await connection.request(many, fetch_many.OffsetFetchResponse, timeout_ms=timeout_ms)
        (group,) = response.groups
        raise_for(group.error_code, self._group_id)
        return group.topics


def _commit_error(partition: TopicPartition, code: int, group_instance_id: str | None) -> Exception:
    if code in NO_LONGER_OURS:
        return CommitFailed(
            f"the offset of {partition} was not committed, the group has rebalanced "
            f"({ErrorCode(code).name}): commit, or ask for records, more often"
        )
    if code == ErrorCode.fenced_instance_id:
        return FencedInstanceId(
            f"another consumer has our group_instance_id, {group_instance_id!r}: "
            "give every process one of its own"
        )
    return error_for(code, str(partition))


log = logging.getLogger(__name__)

CommitCallback = Callable[[Offsets, Exception | None], None]


class CommitQueue:
    """Commits in the background, in the order of calls, and the timer of automatic commits."""

    def __init__(self, commits: Commits, interval_ms: int, on_due: Callable[[], None]) -> None:
        self._commits = commits
        self._interval_s = interval_ms / 1000
        self._on_due = on_due
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._last: asyncio.Task[None] | None = None
        self._posted: set[asyncio.Task[None]] = set()

    def post(self, offsets: Offsets, on_done: CommitCallback | None = None) -> asyncio.Task[None]:
        """Commit after the earlier ones; `on_done` gets the offsets and the error."""
        task = self._loop.create_task(self._commit(offsets, on_done, self._last), name="ottla commit")
        self._last = task
        self._posted.add(task)
        task.add_done_callback(self._posted.discard)
        return task

    def is_due(self) -> bool:
        """Return whether an automatic commit is due, and start the timer for the next one."""
        if self._timer is not None:
            return False
        self.start_timer()
        return not self._posted

    def start_timer(self) -> None:
        """Start the timer of the next automatic commit."""
        self._timer = self._loop.call_later(self._interval_s, self._fire)

    async def finish(self, timeout_s: float) -> None:
        """Wait for the commits in the background."""
        if self._posted:
            await asyncio.wait(self._posted, timeout=timeout_s)

    async def close(self) -> None:
        """Cancel the commits in the background."""
        if self._timer is not None:
            self._timer.cancel()
        tasks = list(self._posted)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _fire(self) -> None:
        self._timer = None
        self._on_due()

    async def _commit(
        self, offsets: Offsets, on_done: CommitCallback | None, before: asyncio.Task[None] | None
    ) -> None:
        if before is not None and not before.done():
            await asyncio.wait([before])
        error: Exception | None = None
        try:
            await self._commits.commit(offsets)
        except (KafkaError, ClientError) as failure:
            error = failure
            log.warning("could not commit offsets: %s", error)
        if on_done is not None:
            try:
                on_done(offsets, error)
            except Exception:
                log.exception("the on_done callback of a commit failed")
