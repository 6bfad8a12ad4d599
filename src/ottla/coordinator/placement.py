"""Which partition of `__consumer_offsets` a group lives on; every broker and every client tool agrees."""

from __future__ import annotations

from functools import lru_cache


def partition_for(group_id: str, partition_count: int) -> int:
    """Return the partition of a group."""
    return _positive_hash(group_id) % partition_count


@lru_cache(maxsize=10_000)
def _positive_hash(text: str) -> int:
    """Return the absolute value of Java's String.hashCode: a polynomial over UTF-16 units in 32 bits."""
    value = 0
    encoded = text.encode("utf-16-be", "surrogatepass")
    for at in range(0, len(encoded), 2):
        value = (value * 31 + (encoded[at] << 8 | encoded[at + 1])) & 0xFFFFFFFF
    if value >= 0x80000000:
        value -= 0x100000000
    return 0 if value == -0x80000000 else abs(value)
