"""Which partition a record goes to: by its key as every Kafka client decides it, or in turns.

    name               with a key         without a key                         as in
    sticky             murmur2            one partition per batch (the default) Java
    murmur2            murmur2            murmur2 of nothing                    librdkafka
    murmur2_random     murmur2            any                                   librdkafka
    consistent         CRC-32             CRC-32 of nothing                     librdkafka
    consistent_random  CRC-32             any, also for empty keys              librdkafka's default
    fnv1a              FNV-1a             FNV-1a of nothing                     librdkafka, Sarama
    fnv1a_random       FNV-1a             any                                   librdkafka
    random             any                any                                   librdkafka
    round_robin        one after another  one after another                     Java

Hashes are taken modulo the number of partitions, so records of one key stay together, whichever client
wrote them, until the topic grows.

A partitioner of one's own is a function of the key's bytes (or None), all partitions, and those that
have a leader; it returns one of them: `def by_length(key, partitions, available): ...`.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from functools import lru_cache
from types import ModuleType

from ottla.client.producer import murmur2 as _murmur2_source
from ottla.common.ids import random_fraction
from ottla.protocol.records.compiled import compiled_or_source

Partitioner = Callable[[bytes | None, Sequence[int], Sequence[int]], int]

STICKY = "sticky"

_MASK = 0xFFFFFFFF
_POSITIVE = 0x7FFFFFFF
_REMEMBERED_KEYS = 8_192

_murmur2: ModuleType = compiled_or_source(_murmur2_source)
murmur2: Callable[[bytes], int] = _murmur2.murmur2
by_partition: Callable[[list[bytes], list[bytes], int], list[tuple[list[bytes], list[bytes]]]] = (
    _murmur2.by_partition
)


@lru_cache(maxsize=_REMEMBERED_KEYS)
def positive_murmur2(key: bytes) -> int:
    """Return the hash of a key without its sign bit; cached, because keys repeat."""
    return murmur2(key) & _POSITIVE


def fnv1a(data: bytes) -> int:
    """Return the 32-bit FNV-1a hash of `data` as a signed number without its sign, as Sarama takes it."""
    value = 0x811C9DC5
    for byte in data:
        value = (value ^ byte) * 0x01000193 & _MASK
    return value if value <= _POSITIVE else 0x100000000 - value


def partition_of(key: bytes, partition_count: int) -> int:
    """Return the partition of a key, by murmur2."""
    return positive_murmur2(key) % partition_count


def any_of(partitions: Sequence[int]) -> int:
    """Return any of some partitions."""
    if len(partitions) == 1:
        return partitions[0]  # chance costs a system call
    return partitions[int(random_fraction() * len(partitions))]


def partitioner_of(name: str) -> Partitioner:
    """Return the partitioner of a name of the table above; what sticks for `sticky` is the caller's."""
    if name == "round_robin":
        return _round_robin()
    return _BY_NAME[name]


def _hashed(hash_of: Callable[[bytes], int]) -> Partitioner:
    def choose(key: bytes | None, partitions: Sequence[int], available: Sequence[int]) -> int:
        return hash_of(key or b"") % len(partitions)

    return choose


def _hashed_or_any(hash_of: Callable[[bytes], int], *, empty_is_none: bool = False) -> Partitioner:
    def choose(key: bytes | None, partitions: Sequence[int], available: Sequence[int]) -> int:
        if key is None or (empty_is_none and not key):
            return any_of(available or partitions)
        return hash_of(key) % len(partitions)

    return choose


def _random(key: bytes | None, partitions: Sequence[int], available: Sequence[int]) -> int:
    return any_of(available or partitions)


def _round_robin() -> Partitioner:
    turn = int(random_fraction() * 1_000_000)  # not all producers begin with the same partition

    def choose(key: bytes | None, partitions: Sequence[int], available: Sequence[int]) -> int:
        nonlocal turn
        turn += 1
        candidates = available or partitions
        return candidates[turn % len(candidates)]

    return choose


_BY_NAME: dict[str, Partitioner] = {
    STICKY: _hashed_or_any(positive_murmur2),
    "murmur2": _hashed(positive_murmur2),
    "murmur2_random": _hashed_or_any(positive_murmur2),
    "consistent": _hashed(zlib.crc32),
    "consistent_random": _hashed_or_any(zlib.crc32, empty_is_none=True),
    "fnv1a": _hashed(fnv1a),
    "fnv1a_random": _hashed_or_any(fnv1a),
    "random": _random,
}

PARTITIONERS = (*_BY_NAME, "round_robin")
"""The names that can be given instead of a function."""
