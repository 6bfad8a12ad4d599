"""A follower's side of a fetch session (KIP-227): the leader is told only what changed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple
from uuid import UUID

from ottla.protocol.fetch_codec import FetchPartition

Key = tuple[UUID, int]
"""A partition: its topic's id, and its index."""

_MAX_EPOCH = 2**31 - 1


class SessionRequest(NamedTuple):
    """What to send."""

    session: tuple[int, int]
    """(session_id, session_epoch)"""
    wanted: dict[UUID, list[FetchPartition]]
    forgotten: dict[UUID, list[int]]


class FollowerSession:
    """What the leader knows of the partitions that this broker fetches from it."""

    def __init__(self) -> None:
        self._session_id = 0
        self._epoch = 0
        self._known: dict[Key, FetchPartition] = {}

    def request(self, wanted: Mapping[Key, FetchPartition]) -> SessionRequest:
        """Return what to send so that the leader knows `wanted` and nothing else."""
        known = self._known if self._epoch else {}
        news: dict[UUID, list[FetchPartition]] = {}
        for (topic_id, index), each in wanted.items():
            if known.get((topic_id, index)) != each:
                news.setdefault(topic_id, []).append(each)
        forgotten: dict[UUID, list[int]] = {}
        for topic_id, index in known:
            if (topic_id, index) not in wanted:
                forgotten.setdefault(topic_id, []).append(index)
        self._known = dict(wanted)
        return SessionRequest((self._session_id, self._epoch), news, forgotten)

    def answered(self, session_id: int) -> None:
        """Take in an answer without an error; a leader without room for sessions gives the id 0."""
        if session_id == 0:
            self.start_over()
        elif session_id != self._session_id:
            self._session_id, self._epoch = session_id, 1
        else:
            self._epoch = self._epoch + 1 if self._epoch < _MAX_EPOCH else 1

    def start_over(self) -> None:
        """Forget the session: an answer was lost, or the leader has forgotten it.

        The id stays, so that the leader can let go of the old one.
        """
        self._epoch = 0
        self._known = {}
