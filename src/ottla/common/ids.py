"""Identifiers: topic ids, cluster ids, topic-partitions. The only source of randomness."""

from __future__ import annotations

import base64
import os
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

_random_bytes: Callable[[int], bytes] = os.urandom


@contextmanager
def chance_from(random_bytes: Callable[[int], bytes]) -> Iterator[None]:
    """Take all randomness from `random_bytes(size)` for a while, e.g. from `Random(seed).randbytes`."""
    global _random_bytes
    before, _random_bytes = _random_bytes, random_bytes
    try:
        yield
    finally:
        _random_bytes = before


class TopicPartition(NamedTuple):
    """One partition of one topic; as a directory name it is `topic-partition`."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


def new_uuid() -> uuid.UUID:
    """Return a random id that does not start with a dash when written as Kafka writes it."""
    while True:
        candidate = _uuid4()
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
    return _uuid4().int % (2**31 - 1) + 1


def random_fraction() -> float:
    """Return a random number from 0 up to, not including, 1: to spread out retries, to pick a partition."""
    return int.from_bytes(_random_bytes(7), "big") / 2**56


def new_nonce() -> str:
    """Return a random text that cannot be guessed."""
    return base64.urlsafe_b64encode(_random_bytes(24)).decode()


def new_salt() -> bytes:
    """Return 24 random bytes."""
    return _random_bytes(24)


def _uuid4() -> uuid.UUID:
    return uuid.UUID(bytes=_random_bytes(16), version=4)
