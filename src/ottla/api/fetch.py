"""Fetch: read record batches, waiting until there are enough.

v4 brings today's batch format, v5 log start offsets, v7 fetch sessions, v9 leader epochs, v10 zstd, v11
follower fetching, v12 is flexible, v13 names topics by id, v15 moves the replica id into a tagged field, v16
names endpoints of new leaders, v17 and v18 are for followers. Records are sent as file ranges and never
decoded.
"""

from __future__ import annotations

from collections.abc import Awaitable
from uuid import UUID

from ottla.api.support.authorization import deny, refusal
from ottla.api.support.context import RequestContext
from ottla.api.support.fetch_sessions import FetchPartitionState, FetchSession, TopicKey
from ottla.api.support.results import leader_hint
from ottla.api.table import Reply
from ottla.common.file_range import FileRange
from ottla.protocol.errors import (
    InvalidRequest,
    KafkaError,
    NotLeaderOrFollower,
    OffsetNotAvailable,
    OffsetOutOfRange,
    TopicAuthorizationFailed,
)
from ottla.protocol.fetch_codec import (
    FetchPartitionResult,
    FetchRequest,
    FetchTopicResult,
    decode_fetch_request,
    encode_fetch_response,
)
from ottla.replication.partition import Partition
from ottla.security.acls import Operation, ResourceType

RACK_AWARE = "RackAwareReplicaSelector"


def preferred_replica(ctx: RequestContext, partition: Partition, offset: int, rack: str) -> int | None:
    """Return the replica that a consumer in `rack` should read from; None for this one."""
    services = ctx.services
    selector = services.config.replica_selector_class
    leader = partition.leader_state
    if selector is None or leader is None or selector.rsplit(".", 1)[-1] != RACK_AWARE:
        return None
    brokers = services.cluster.image.brokers
    own = brokers.get(services.node_id)
    if own is not None and own.rack == rack:
        return None
    ends = {
        node_id: follower.log_end_offset
        for node_id in leader.isr_state.isr
        if (follower := leader.isr_state.followers.get(node_id)) is not None
        and follower.log_start_offset <= offset <= follower.log_end_offset
        and (broker := brokers.get(node_id)) is not None
        and broker.rack == rack
        and not broker.fenced
    }
    return max(sorted(ends), key=lambda node_id: ends[node_id], default=None)


def check_follower_has(partition: Partition, offset: int, rack: str) -> None:
    """Redirect a consumer to the leader if this follower's log does not contain its offset.

    OFFSET_OUT_OF_RANGE would be wrong: the consumer would reset its position. A consumer that names no rack
    does not fetch from followers on purpose, and looks up the leader; the others return to this follower
    later.
    """
    log = partition.log
    if log.log_start_offset <= offset <= log.log_end_offset:
        return
    text = f"offset {offset} is not in this follower's log ({log.log_start_offset} to {log.log_end_offset})"
    if not rack:
        raise NotLeaderOrFollower(text)
    if offset > log.log_end_offset:
        raise OffsetNotAvailable(text)
    raise OffsetOutOfRange(text)  # on this error clients ask the leader (KIP-392)


def redirect(index: int, partition: Partition, preferred: int) -> FetchPartitionResult:
    """Return the response that redirects a consumer to another replica."""
    return FetchPartitionResult(
        index,
        high_watermark=partition.high_watermark,
        last_stable_offset=partition.last_stable_offset,
        log_start_offset=partition.log_start_offset,
        preferred_read_replica=preferred,
    )


READ_UNCOMMITTED, READ_COMMITTED = 0, 1
_NOTHING_DENIED: dict[TopicKey, KafkaError] = {}
FIRST_FROM_FOLLOWERS = 11
FIRST_BY_ID = 13


def fetch(frame: memoryview, body_at: int, ctx: RequestContext) -> Reply | Awaitable[Reply]:
    """Answer at once if `min_bytes` are available; otherwise when they are, or after `max_wait_ms`."""
    request = decode_fetch_request(frame, body_at, ctx.version)
    try:
        if not READ_UNCOMMITTED <= request.isolation_level <= READ_COMMITTED:
            raise InvalidRequest(f"unknown isolation level {request.isolation_level}")
        by_id, owner = ctx.version >= FIRST_BY_ID, ctx.connection.principal
        session, continued = ctx.services.fetch_sessions.open(request, by_id, owner)
    except KafkaError as error:
        return encode_fetch_response(ctx.version, ctx.correlation_id, 0, int(error.code), 0, [])
    if request.replica_id >= 0:
        if refusal(ctx, ResourceType.CLUSTER) is not None:
            return _refuse_follower(session, ctx)
        return replica_fetch(request, session, continued, ctx)
    ctx.connection.has_fetched = True
    if ctx.services.quotas is not None:
        request = ctx.services.quotas.limited(ctx, request)
    reading = FetchOperation(request, session, continued, ctx)
    reading.read()
    if reading.is_complete():
        return reading.reply()
    missing = max(1, request.min_bytes - reading.size_bytes)
    return ctx.services.purgatory.park(
        ctx.connection,
        reading.partitions,
        missing,
        request.max_wait_ms,
        reading.read_and_reply,
        committed_only=request.isolation_level == READ_COMMITTED,
    )


class FetchOperation:
    """One Fetch request, read once or twice: when it arrives, and again when its wait ends."""

    __slots__ = (
        "_continued",
        "_ctx",
        "_quotas",
        "_request",
        "_results",
        "_session",
        "failed",
        "partitions",
        "size_bytes",
    )

    def __init__(
        self, request: FetchRequest, session: FetchSession, continued: bool, ctx: RequestContext
    ) -> None:
        self._request = request
        self._session = session
        self._continued = continued
        self._ctx = ctx
        self._quotas = ctx.services.quotas
        self._results: list[tuple[FetchPartitionState, FetchPartitionResult, Partition | None]] = []
        self.partitions: list[Partition] = []
        self.size_bytes = 0
        self.failed = False

    def is_complete(self) -> bool:
        """Return whether the request is answered without waiting."""
        request = self._request
        return (
            self.size_bytes >= request.min_bytes
            or request.max_wait_ms <= 0
            or self.failed
            or not self.partitions
        )

    def read_and_reply(self) -> Reply:
        """Read again, and answer with what is available."""
        self.read()
        return self.reply()

    def read(self) -> None:
        """Read every partition of the session, within the byte limits of the request."""
        self._results = []
        self.partitions = []
        self.size_bytes = 0
        left = min(self._request.max_bytes, self._ctx.services.config.fetch_max_bytes)
        served: Partition | None
        denied = self._denied_topics()
        for wanted in self._session.wanted():
            try:
                if denied and wanted.topic in denied:
                    raise denied[wanted.topic]
                partition = self._find(wanted.topic, wanted.index)
                partition.check_leader_epoch(wanted.current_leader_epoch)
                data = self._read_one(partition, wanted, max(0, min(left, wanted.max_bytes)))
            except KafkaError as error:
                self.failed = True
                data, served = self._failure(wanted, error), None
            else:
                self.partitions.append(partition)
                served = partition
                size = len(data.records) if isinstance(data.records, bytes) else data.records.size
                self.size_bytes += size
                left -= size
            self._results.append((wanted, data, served))

    def reply(self) -> Reply:
        """Encode the response; an incremental session gets only the partitions that changed."""
        if self._quotas is not None and not self._quotas.fetched(self._ctx, self.size_bytes):
            return self._throttled()
        topics: dict[TopicKey, list[FetchPartitionResult]] = {}
        served: list[FetchPartitionState] = []
        for wanted, data, partition in self._results:
            has_records = isinstance(data.records, FileRange) or len(data.records) > 0
            self._count(wanted.topic, partition, data)
            has_changed = wanted.has_changed(data.high_watermark, data.log_start_offset)
            is_redirected = data.preferred_read_replica >= 0
            has_error = data.error_code != 0 or data.diverging_epoch is not None or is_redirected
            if has_records:
                served.append(wanted)
            elif self._continued and not has_changed and not has_error:
                continue
            topics.setdefault(wanted.topic, []).append(data)
        self._session.move_to_back(served)
        ctx = self._ctx
        return encode_fetch_response(
            ctx.version,
            ctx.correlation_id,
            ctx.throttle_ms,
            0,
            self._session.session_id,
            [_topic(key, partitions) for key, partitions in topics.items()],
        )

    def _throttled(self) -> Reply:
        """Answer without records; the session of a first fetch is forgotten, as its client does."""
        ctx, session_id = self._ctx, self._session.session_id
        if not self._continued:
            ctx.services.fetch_sessions.forget(session_id)
            session_id = 0
        return encode_fetch_response(ctx.version, ctx.correlation_id, ctx.throttle_ms, 0, session_id, [])

    def _count(self, topic: TopicKey, partition: Partition | None, data: FetchPartitionResult) -> None:
        """Count the bytes and records that one partition is answered with."""
        if partition is None:
            self._ctx.services.partitions.traffic_of(topic).failed_fetches += 1
            return
        traffic, records = partition.traffic, data.records
        traffic.fetches += 1
        traffic.bytes_out += len(records) if isinstance(records, bytes) else records.size

    def _denied_topics(self) -> dict[TopicKey, KafkaError]:
        """Return the errors of the topics that the client may not read; an unknown id has no name."""
        authorizer = self._ctx.services.authorizer
        if authorizer is None:
            return _NOTHING_DENIED
        names_by_id = self._ctx.services.cluster.image.names_by_id
        principal, host = self._ctx.connection.principal, self._ctx.connection.host
        denied: dict[TopicKey, KafkaError] = {}
        last: TopicKey | None = None
        for wanted in self._session.wanted():
            topic = wanted.topic
            if topic == last or topic in denied:
                continue
            last = topic
            name = topic if isinstance(topic, str) else names_by_id.get(topic)
            if name is None or authorizer.allows(principal, host, Operation.READ, ResourceType.TOPIC, name):
                continue
            denied[topic] = deny(self._ctx, ResourceType.TOPIC, name, is_named=isinstance(topic, str))
        return denied

    def _find(self, topic: TopicKey, index: int) -> Partition:
        registry = self._ctx.services.partitions
        try:
            if isinstance(topic, UUID):
                return registry.get_by_id(topic, index)
            return registry.get(topic, index)
        except NotLeaderOrFollower:
            if self._ctx.version < FIRST_FROM_FOLLOWERS:
                raise
            return registry.get_replica(topic, index)

    def _failure(self, wanted: FetchPartitionState, error: KafkaError) -> FetchPartitionResult:
        hint = leader_hint(self._ctx, error, wanted.topic, wanted.index)
        return failure(wanted.index, error)._replace(current_leader=hint)

    def _read_one(
        self, partition: Partition, wanted: FetchPartitionState, max_bytes: int
    ) -> FetchPartitionResult:
        if not partition.is_leader:
            check_follower_has(partition, wanted.fetch_offset, self._request.rack_id)
        if wanted.last_fetched_epoch >= 0:
            diverging = partition.diverging_epoch(wanted.last_fetched_epoch, wanted.fetch_offset)
            if diverging is not None:
                self.failed = True  # the reader's log has diverged: answer at once, so that it truncates
                return FetchPartitionResult(
                    wanted.index,
                    high_watermark=partition.high_watermark,
                    last_stable_offset=partition.last_stable_offset,
                    log_start_offset=partition.log_start_offset,
                    diverging_epoch=diverging,
                )
        if self._request.rack_id:
            preferred = preferred_replica(self._ctx, partition, wanted.fetch_offset, self._request.rack_id)
            if preferred is not None:
                self.failed = True  # the end of the log is behind the reader: no reason to wait
                return redirect(wanted.index, partition, preferred)
        committed_only = self._request.isolation_level == READ_COMMITTED
        end_offset = partition.last_stable_offset if committed_only else partition.high_watermark
        # The first partition gets a whole batch, however large: otherwise the reader would never advance.
        found = partition.read(wanted.fetch_offset, max_bytes, end_offset, self.size_bytes == 0)
        return FetchPartitionResult(
            wanted.index,
            0,
            partition.high_watermark,
            end_offset if committed_only else partition.last_stable_offset,
            partition.log_start_offset,
            found.records,
            partition.aborted_transactions_in(wanted.fetch_offset, found) if committed_only else None,
        )


def replica_fetch(
    request: FetchRequest, session: FetchSession, continued: bool, ctx: RequestContext
) -> Reply | Awaitable[Reply]:
    """Answer a follower; imported on first use, because that module builds on this one."""
    from ottla.api.support.replica_fetch import answer_follower

    return answer_follower(request, session, continued, ctx)


def _refuse_follower(session: FetchSession, ctx: RequestContext) -> Reply:
    """Answer a fetch as a follower from a client that may not be one, as Kafka does."""
    topics: dict[TopicKey, list[FetchPartitionResult]] = {}
    for wanted in session.wanted():
        topics.setdefault(wanted.topic, []).append(failure(wanted.index, TopicAuthorizationFailed()))
    results = [_topic(key, partitions) for key, partitions in topics.items()]
    return encode_fetch_response(ctx.version, ctx.correlation_id, 0, 0, session.session_id, results)


def failure(index: int, error: KafkaError) -> FetchPartitionResult:
    """Return the response of a partition that cannot be read."""
    return FetchPartitionResult(index, int(error.code))


def _topic(key: TopicKey, partitions: list[FetchPartitionResult]) -> FetchTopicResult:
    if isinstance(key, UUID):
        return FetchTopicResult(None, key, partitions)
    return FetchTopicResult(key, None, partitions)
