"""Which partition a record goes to, decided as every Kafka client decides it.

With a key: murmur2 of the key, sign bit cleared, modulo the number of partitions; so records of
one key stay together, whichever client wrote them. Without a key: one partition until a
batch of it is full, then the next one (sticky), which keeps batches large.
"""

from __future__ import annotations

from ottla.common.ids import new_uuid

_SEED = 0x9747B28C
_M = 0x5BD1E995
_MASK = 0xFFFFFFFF


def murmur2(data: bytes) -> int:
    """Return the 32-bit murmur2 hash of `data`, with the seed that Kafka's clients use."""
    size = len(data)
    value = (_SEED ^ size) & _MASK
    whole = size & ~3
    for at in range(0, whole, 4):
        word = int.from_bytes(data[at : at + 4], "little") * _M & _MASK
        word = (word ^ word >> 24) * _M & _MASK
        value = value * _M & _MASK ^ word
    if whole < size:
        value = (value ^ int.from_bytes(data[whole:], "little")) * _M & _MASK
    value = (value ^ value >> 13) * _M & _MASK
    return value ^ value >> 15


def partition_of(key: bytes, partition_count: int) -> int:
    """Return the partition of a key."""
    return (murmur2(key) & 0x7FFFFFFF) % partition_count


class StickyPartition:
    """The partition that records without a key go to, until a batch is full."""

    def __init__(self) -> None:
        self._current = new_uuid().int  # any start will do, as long as not all producers share it

    def current(self, partition_count: int) -> int:
        """Return the partition for now."""
        return self._current % partition_count

    def advance(self) -> None:
        """Go to the next partition: a batch has been filled."""
        self._current += 1
