"""Identifiers: topic ids, cluster ids, topic-partitions. The only source of randomness."""

from __future__ import annotations

import base64
import uuid
from typing import NamedTuple


class TopicPartition(NamedTuple):
    """One partition of one topic; as a directory name it is `topic-partition`."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


def new_uuid() -> uuid.UUID:
    """Return a random id that does not start with a dash when written as Kafka writes it."""
    while True:
        candidate = uuid.uuid4()
        if not uuid_text(candidate).startswith("-"):
            return candidate


def uuid_text(value: uuid.UUID) -> str:
    """Return `value` as Kafka writes ids: 22 characters of URL-safe base64."""
    return base64.urlsafe_b64encode(value.bytes).rstrip(b"=").decode()


def parse_uuid(text: str) -> uuid.UUID:
    """Return the id that `uuid_text` wrote; raise ValueError if it is none."""
    raw = base64.urlsafe_b64decode(text + "==")
    return uuid.UUID(bytes=raw)


def new_session_id() -> int:
    """Return a random id of a fetch session: 1 to 2^31 - 1."""
    return uuid.uuid4().int % (2**31 - 1) + 1
