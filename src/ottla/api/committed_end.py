"""The committed end of a partition right after a failover: not to be told before it is known.

A new leader has everything that is committed, but learns from its followers how much that is. Until then its
high watermark may be lower than what its predecessor told, and an end offset must never go back (KIP-207).
"""

from __future__ import annotations

from ottla.protocol.errors import KafkaError, LeaderNotAvailable, OffsetNotAvailable
from ottla.replication.partition import Partition

OFFSET_NOT_AVAILABLE_FROM = 5


def end_not_known(partition: Partition, version: int) -> KafkaError | None:
    """Return why the end of a partition cannot be told yet in this version of ListOffsets; None if it can."""
    if partition.is_end_known:
        return None
    error = OffsetNotAvailable if version >= OFFSET_NOT_AVAILABLE_FROM else LeaderNotAvailable
    return error(f"{partition.topic_partition} is committed to {partition.high_watermark} at least")
