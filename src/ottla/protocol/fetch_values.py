"""What a consumer says in a fetch, and what it is told: the values of fetch_client.py."""

from __future__ import annotations

from typing import NamedTuple
from uuid import UUID

from ottla.protocol.hot_path import Leader, NodeEndpoint


class Topic(NamedTuple):
    """A topic by both of its names; older versions use the first, newer ones the second."""

    name: str
    topic_id: UUID | None


class Asked(NamedTuple):
    """From where a partition is to be read, and how much at most."""

    offset: int
    leader_epoch: int
    max_bytes: int


class FetchSettings(NamedTuple):
    """What holds for a whole request."""

    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    isolation_level: int
    rack_id: str = ""


class Fetched(NamedTuple):
    """What came back for one partition."""

    partition: int
    error_code: int
    high_watermark: int
    last_stable_offset: int
    log_start_offset: int
    aborted: tuple[tuple[int, int], ...]
    """(producer id, first offset) of each transaction that was aborted; readers of committed records only."""
    preferred_replica: int
    records: memoryview
    current_leader: Leader | None


class FetchReply(NamedTuple):
    """The whole response; topics by name or by id, as they were asked for."""

    throttle_ms: int
    error_code: int
    session_id: int
    topics: list[tuple[str | None, UUID | None, list[Fetched]]]
    endpoints: list[NodeEndpoint]
