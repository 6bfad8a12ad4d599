"""Fetch sessions (KIP-227): a client names its partitions once, and afterwards only changes.

For each partition, a session stores the client's position and the last state that the client received. Its
epoch increases with every fetch, so a lost or repeated request is detected, and the client starts a new
session. Sessions are cached: limited in number and in partitions, the least recently used is evicted first.
"""

from __future__ import annotations

from collections.abc import Iterator, ValuesView
from uuid import UUID

from ottla.common.clock import Clock
from ottla.common.ids import new_session_id
from ottla.protocol.errors import (
    FetchSessionIdNotFound,
    FetchSessionTopicIdError,
    InvalidFetchSessionEpoch,
    InvalidRequest,
)
from ottla.protocol.fetch_codec import FetchPartition, FetchRequest

INITIAL_EPOCH = 0
FINAL_EPOCH = -1
EVICT_AFTER_MS = 120_000
MAX_PARTITIONS = 20_000
"""Per fetch: each costs some microseconds on the event loop, in every fetch, even if nothing has changed."""
MAX_CACHED_PARTITIONS = 500_000
"""Of all sessions."""
_MAX_EPOCH = 2**31 - 1

TopicKey = str | UUID
"""Topics are named by name up to version 12 and by id from version 13 on."""


class FetchPartitionState:
    """One partition of a session, and the last state that the client received."""

    __slots__ = (
        "current_leader_epoch",
        "fetch_offset",
        "index",
        "last_fetched_epoch",
        "log_start_offset",
        "max_bytes",
        "told_high_watermark",
        "told_log_start_offset",
        "topic",
        "verified_epoch",
    )

    def __init__(self, topic: TopicKey, asked: FetchPartition) -> None:
        self.topic = topic
        self.index = asked.partition
        self.told_high_watermark = -2
        self.told_log_start_offset = -2
        self.update(asked)

    def update(self, asked: FetchPartition) -> None:
        """Apply the client's new position and limits."""
        self.fetch_offset = asked.fetch_offset
        self.max_bytes = asked.max_bytes
        self.current_leader_epoch = asked.current_leader_epoch
        self.last_fetched_epoch = asked.last_fetched_epoch
        self.log_start_offset = asked.log_start_offset
        self.verified_epoch = -1
        """The leader epoch in which the follower's log was found not to diverge."""

    def has_changed(self, high_watermark: int, log_start_offset: int) -> bool:
        """Return whether the client has not received these values yet, and store them."""
        if high_watermark == self.told_high_watermark and log_start_offset == self.told_log_start_offset:
            return False
        self.told_high_watermark = high_watermark
        self.told_log_start_offset = log_start_offset
        return True


class FetchSession:
    """The partitions that one client fetches. `session_id` 0: for this request only."""

    __slots__ = ("by_id", "epoch", "last_used_ms", "owner", "partitions", "session_id")

    def __init__(self, session_id: int, by_id: bool, owner: str = "") -> None:
        self.session_id = session_id
        self.by_id = by_id
        self.owner = owner
        """The principal that started it."""
        self.epoch = INITIAL_EPOCH
        self.last_used_ms = 0
        self.partitions: dict[tuple[TopicKey, int], FetchPartitionState] = {}

    def add(self, request: FetchRequest) -> None:
        """Add the partitions that the request names, or update them."""
        for topic, asked in _asked(request):
            key = (topic, asked.partition)
            known = self.partitions.get(key)
            if known is None:
                self.partitions[key] = FetchPartitionState(topic, asked)
            else:
                known.update(asked)

    def forget(self, request: FetchRequest) -> None:
        """Remove the partitions that the request forgets."""
        for forgotten in request.forgotten:
            topic = _key(forgotten.name, forgotten.topic_id)
            for index in forgotten.partitions:
                self.partitions.pop((topic, index), None)

    def wanted(self) -> ValuesView[FetchPartitionState]:
        """Return the partitions, the longest unserved first."""
        return self.partitions.values()

    def move_to_back(self, served: list[FetchPartitionState]) -> None:
        """Move the served partitions to the back, so that a busy partition does not starve the others."""
        for wanted in served:
            key = (wanted.topic, wanted.index)
            if self.partitions.pop(key, None) is not None:
                self.partitions[key] = wanted


class FetchSessions:
    """The sessions of all clients."""

    def __init__(self, slots: int, clock: Clock) -> None:
        self._slots = slots
        self._clock = clock
        self._sessions: dict[int, FetchSession] = {}
        self._cached_partitions = 0

    def __len__(self) -> int:
        return len(self._sessions)

    def open(self, request: FetchRequest, by_id: bool, owner: str = "") -> tuple[FetchSession, bool]:
        """Return the session that `request` continues or starts, and whether it continues one.

        A session of another principal is not found: guessing its id must not reveal its topics.
        """
        if request.session_epoch in (INITIAL_EPOCH, FINAL_EPOCH):
            known = self._sessions.get(request.session_id)
            if known is not None and known.owner == owner:
                self._drop(request.session_id)
            session = FetchSession(0, by_id, owner)
            session.add(request)
            if len(session.partitions) > MAX_PARTITIONS:
                raise InvalidRequest(f"a fetch may name {MAX_PARTITIONS} partitions")
            if request.session_epoch == INITIAL_EPOCH:
                self._keep(session, request.replica_id >= 0)
            return session, False
        return self._continue(request, by_id, owner), True

    def forget(self, session_id: int) -> None:
        """Remove a session whose id was not sent to its client."""
        self._drop(session_id)

    def _continue(self, request: FetchRequest, by_id: bool, owner: str) -> FetchSession:
        session = self._sessions.get(request.session_id)
        if session is None or session.owner != owner:
            raise FetchSessionIdNotFound(f"unknown fetch session {request.session_id}")
        if request.session_epoch != session.epoch:
            raise InvalidFetchSessionEpoch(
                f"fetch session epoch {request.session_epoch}, expected {session.epoch}"
            )
        if session.by_id != by_id:
            raise FetchSessionTopicIdError(
                "the session names topics by name and this request by id, or the reverse"
            )
        self._cached_partitions -= len(session.partitions)
        session.add(request)
        session.forget(request)
        self._cached_partitions += len(session.partitions)
        if len(session.partitions) > MAX_PARTITIONS or self._cached_partitions > MAX_CACHED_PARTITIONS:
            self._drop(session.session_id)
            raise FetchSessionIdNotFound("the session has more partitions than may be cached")
        self._touch(session)
        return session

    def _keep(self, session: FetchSession, is_follower: bool) -> None:
        """Give the session an id if it fits into the cache; followers evict sessions of consumers."""
        size = len(session.partitions)
        if not size or not self._make_room(size, is_follower):
            return
        session_id = new_session_id()
        while session_id in self._sessions:
            session_id = new_session_id()
        session.session_id = session_id
        self._sessions[session_id] = session
        self._cached_partitions += size
        self._touch(session)

    def _touch(self, session: FetchSession) -> None:
        session.epoch = session.epoch + 1 if session.epoch < _MAX_EPOCH else 1
        session.last_used_ms = self._clock.mono_ms()
        # Insertion order is the order of last use: the first is evicted first.
        self._sessions[session.session_id] = self._sessions.pop(session.session_id)

    def _make_room(self, size: int, is_follower: bool) -> bool:
        while self._sessions and (
            len(self._sessions) >= self._slots or self._cached_partitions + size > MAX_CACHED_PARTITIONS
        ):
            oldest = next(iter(self._sessions.values()))
            if not is_follower and self._clock.mono_ms() - oldest.last_used_ms < EVICT_AFTER_MS:
                return False
            self._drop(oldest.session_id)
        return self._slots > 0 and size <= MAX_CACHED_PARTITIONS

    def _drop(self, session_id: int) -> None:
        session = self._sessions.pop(session_id, None)
        if session is not None:
            self._cached_partitions -= len(session.partitions)


def _asked(request: FetchRequest) -> Iterator[tuple[TopicKey, FetchPartition]]:
    for topic in request.topics:
        key = _key(topic.name, topic.topic_id)
        for asked in topic.partitions:
            yield key, asked


def _key(name: str | None, topic_id: UUID | None) -> TopicKey:
    if topic_id is not None:
        return topic_id
    return name or ""
