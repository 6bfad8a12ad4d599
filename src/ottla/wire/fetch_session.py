"""Incremental fetch sessions (KIP-227), the fetching side: after the first request, send only changes.

The broker remembers the partitions of a session and their offsets. A request with epoch 0 starts a new
session (and ends the old one of that id), each further one increments the epoch. A broker that has no room
for sessions responds with the id 0; then every request names all partitions.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Generic, NamedTuple, TypeVar

from ottla.protocol.fetch_client import NO_SESSION, FetchPartitionRequest, Topic

INITIAL_EPOCH = 0
MAX_EPOCH = 2**31 - 1

Key = TypeVar("Key")


class FetchPosition(NamedTuple):
    """A partition of a request."""

    topic: Topic
    partition: int
    request: FetchPartitionRequest


class SessionRequest(NamedTuple):
    """The content of a request: session id and epoch, new or changed partitions, forgotten ones."""

    session: tuple[int, int]
    topics: dict[Topic, dict[int, FetchPartitionRequest]]
    forgotten: dict[Topic, list[int]]


class FetchSession(Generic[Key]):
    """What a broker knows of the partitions that are fetched from it; `Key` identifies one to the caller."""

    def __init__(self) -> None:
        self._id = NO_SESSION
        self._epoch = INITIAL_EPOCH
        self._version = -1
        self._known: dict[Key, FetchPosition] = {}

    def prepare(self, wanted: Mapping[Key, FetchPosition], version: int) -> SessionRequest:
        """Return what to send so that the session consists of exactly these partitions."""
        if version != self._version:
            self.reset()  # topics go by name in some versions and by id in others
            self._version = version
        topics: dict[Topic, dict[int, FetchPartitionRequest]] = {}
        forgotten: dict[Topic, list[int]] = {}
        kept = 0
        for key, each in wanted.items():
            known = self._known.get(key)
            kept += known is not None and known.topic == each.topic
            if known != each:
                topics.setdefault(each.topic, {})[each.partition] = each.request
        if kept < len(self._known):
            for key, known in self._known.items():
                now = wanted.get(key)
                if now is None or now.topic != known.topic:
                    forgotten.setdefault(known.topic, []).append(known.partition)
        self._known = dict(wanted)
        return SessionRequest((self._id, self._epoch), topics, forgotten)

    def succeeded(self, session_id: int) -> None:
        """Continue after a response without an error, in this session."""
        if session_id == NO_SESSION:
            self._id = NO_SESSION
            self.reset()
        elif self._epoch == INITIAL_EPOCH or session_id != self._id:
            self._id, self._epoch = session_id, 1
        else:
            self._epoch = 1 if self._epoch == MAX_EPOCH else self._epoch + 1

    def reset(self) -> None:
        """Start a new session with the next request: a response was lost, or the broker lost the session.

        The id is kept, so that the broker can drop the old session.
        """
        self._epoch = INITIAL_EPOCH
        self._known = {}
