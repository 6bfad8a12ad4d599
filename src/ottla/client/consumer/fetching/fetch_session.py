"""One broker's fetch session (KIP-227): after the first request, only what has changed is sent.

The broker remembers which partitions we read from where. A request with epoch 0 begins a new session (and
ends the old one of that id), each further one counts the epoch up; a broker that has no room for sessions
answers with the id 0, and then every request is a whole one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from ottla.common.ids import TopicPartition
from ottla.protocol.fetch_client import NO_SESSION, FetchPartitionRequest, Topic

BEGIN = 0
LAST_EPOCH = 2**31 - 1


class FetchPosition(NamedTuple):
    """A partition of a request, and its topic by name and id."""

    topic: Topic
    asked: FetchPartitionRequest


class Difference(NamedTuple):
    """What to send: the session's id and epoch, what is new or has changed, what has left."""

    session: tuple[int, int]
    topics: dict[Topic, dict[int, FetchPartitionRequest]]
    forgotten: dict[Topic, list[int]]


class FetchSession:
    """What the broker knows of us."""

    def __init__(self) -> None:
        self._id = NO_SESSION
        self._epoch = BEGIN
        self._version = -1
        self._known: dict[TopicPartition, FetchPosition] = {}

    def prepare(self, wanted: Mapping[TopicPartition, FetchPosition], version: int) -> Difference:
        """Return what to send so that the broker reads exactly these partitions."""
        if version != self._version:
            self.reset()  # topics go by name in some versions and by id in others
            self._version = version
        if self._epoch == BEGIN:
            self._known = {}
        topics: dict[Topic, dict[int, FetchPartitionRequest]] = {}
        forgotten: dict[Topic, list[int]] = {}
        kept = 0
        for partition, each in wanted.items():
            known = self._known.get(partition)
            kept += known is not None and known.topic == each.topic
            if known != each:
                topics.setdefault(each.topic, {})[partition.partition] = each.asked
        if kept < len(self._known):
            for partition, known in self._known.items():
                now = wanted.get(partition)
                if now is None or now.topic != known.topic:
                    forgotten.setdefault(known.topic, []).append(partition.partition)
        self._known = dict(wanted)
        return Difference((self._id, self._epoch), topics, forgotten)

    def answered(self, session_id: int) -> None:
        """Take note that the last request was answered, without an error, in this session."""
        if session_id == NO_SESSION:
            self._id = NO_SESSION
            self.reset()
        elif self._epoch == BEGIN:
            self._id, self._epoch = session_id, 1
        else:
            self._epoch = 1 if self._epoch == LAST_EPOCH else self._epoch + 1

    def reset(self) -> None:
        """Begin anew with the next request: the broker has lost the session, or we do not know."""
        self._epoch = BEGIN
        self._known = {}
