"""Scans a topic and counts: records, keys, sizes, times, tombstones, compression.

Sizes are kept as counts of sizes rounded to six significant bits, so percentiles are at most 3 % off, and
different keys are estimated (HyperLogLog, 2 % off): memory does not grow with the topic.
"""

from __future__ import annotations

import asyncio
import math
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

from ottla.client.cluster import Cluster
from ottla.client.consumer import ConsumerRecord
from ottla.common.clock import Clock
from ottla.console.messages.positions import Ranges
from ottla.console.messages.reader import Chunk, read, records_by_batch
from ottla.protocol.records.compression import CODEC_NAMES

PROGRESS_EVERY_MS = 500
PERCENTILES = (50, 95, 99)
_REGISTER_BITS = 12
_HASH_BITS = 61


@dataclass(slots=True)
class Sizes:
    """How large keys or values are, in bytes."""

    counts: Counter[int] = field(default_factory=Counter)
    total: int = 0
    smallest: int = 0
    largest: int = 0

    def add(self, sizes: list[int]) -> None:
        """Count sizes."""
        if not sizes:
            return
        low = min(sizes)
        self.smallest = min(low, self.smallest) if self.counts else low
        self.largest = max(self.largest, max(sizes))
        self.total += sum(sizes)
        self.counts.update(map(_rounded, sizes))

    def as_json(self) -> dict[str, Any]:
        """Return the numbers; without those of which there are none."""
        count = self.counts.total()
        found: dict[str, Any] = {"count": count, "bytes": self.total}
        if count:
            found |= {"min": self.smallest, "average": self.total / count, "max": self.largest}
            found |= {f"p{each}": min(self._percentile(each, count), self.largest) for each in PERCENTILES}
        return found

    def _percentile(self, percent: int, count: int) -> int:
        left = math.ceil(count * percent / 100)
        for size, times in sorted(self.counts.items()):
            left -= times
            if left <= 0:
                return size
        return self.largest


def _rounded(size: int) -> int:
    dropped = max(0, size.bit_length() - 6)
    return size >> dropped << dropped


class DistinctKeys:
    """Estimates how many different keys there are."""

    def __init__(self) -> None:
        self._registers = bytearray(1 << _REGISTER_BITS)

    def add(self, keys: list[bytes]) -> None:
        """Count keys."""
        registers = self._registers
        for key in set(keys):
            hashed = hash((key, 0)) & ((1 << _HASH_BITS) - 1)
            index, rest = hashed & ((1 << _REGISTER_BITS) - 1), hashed >> _REGISTER_BITS
            rank = _HASH_BITS - _REGISTER_BITS - rest.bit_length() + 1
            if rank > registers[index]:
                registers[index] = rank

    def estimate(self) -> int:
        """Return about how many there were."""
        size = len(self._registers)
        raw = 0.7213 / (1 + 1.079 / size) * size * size / sum(2.0**-each for each in self._registers)
        unused = self._registers.count(0)
        if raw <= 2.5 * size and unused:
            return round(size * math.log(size / unused))
        return round(raw)


@dataclass(slots=True)
class Statistics:
    """What was counted so far."""

    total: int
    scanned: int = 0
    seconds: float = 0.0
    is_done: bool = False
    first_ms: int | None = None
    last_ms: int | None = None
    null_keys: int = 0
    null_values: int = 0
    keys: Sizes = field(default_factory=Sizes)
    values: Sizes = field(default_factory=Sizes)
    distinct: DistinctKeys = field(default_factory=DistinctKeys)
    headers: int = 0
    batches: Counter[str] = field(default_factory=Counter)
    """How many batches each codec compressed."""
    stored_bytes: int = 0
    partitions: Counter[int] = field(default_factory=Counter)

    def add(self, chunk: Chunk) -> None:
        """Count the batches and the records of a chunk."""
        for header, _ in chunk.batches:
            self.batches[CODEC_NAMES[header.codec] if header.codec < len(CODEC_NAMES) else "unknown"] += 1
            self.stored_bytes += header.size_bytes
        for records in records_by_batch(chunk):
            if records:
                self._add_records(chunk, records)
        self.scanned += min(chunk.next_offset, chunk.end) - chunk.position

    def _add_records(self, chunk: Chunk, records: list[ConsumerRecord]) -> None:
        self.partitions[chunk.partition.partition] += len(records)
        times = [each.timestamp for each in records]
        first, last = min(times), max(times)
        self.first_ms = first if self.first_ms is None else min(self.first_ms, first)
        self.last_ms = last if self.last_ms is None else max(self.last_ms, last)
        keys = [each.key for each in records if each.key is not None]
        values = [each.value for each in records if each.value is not None]
        self.null_keys += len(records) - len(keys)
        self.null_values += len(records) - len(values)
        self.keys.add([len(each) for each in keys])
        self.values.add([len(each) for each in values])
        self.headers += sum(bool(each.headers) for each in records)
        self.distinct.add(keys)

    def as_json(self) -> dict[str, Any]:
        """Return the numbers."""
        records = self.partitions.total()
        return {
            "scanned": self.scanned,
            "total": self.total,
            "seconds": round(self.seconds, 2),
            "rate": round(self.scanned / self.seconds) if self.seconds else 0,
            "done": self.is_done,
            "records": records,
            "first_ms": self.first_ms,
            "last_ms": self.last_ms,
            "null_keys": self.null_keys,
            "null_values": self.null_values,
            "distinct_keys": self.distinct.estimate(),
            "with_headers": self.headers,
            "keys": self.keys.as_json(),
            "values": self.values.as_json(),
            "batches": dict(self.batches.most_common()),
            "records_per_batch": records / self.batches.total() if self.batches else None,
            "stored_bytes": self.stored_bytes,
            "partitions": [
                {"partition": index, "records": count, "part": count / records}
                for index, count in sorted(self.partitions.items())
            ],
        }


async def analyze(cluster: Cluster, topic: str, ranges: Ranges, clock: Clock) -> AsyncIterator[Statistics]:
    """Yield what was counted, twice a second, until all partitions are read to their present ends."""
    positions = {index: first for index, (first, _) in ranges.items()}
    ends = {index: end for index, (_, end) in ranges.items()}
    found = Statistics(sum(end - first for first, end in ranges.values()))
    began = reported_ms = clock.mono_ms()
    async for chunk in read(cluster, topic, positions, ends):
        await asyncio.to_thread(found.add, chunk)
        now = clock.mono_ms()
        found.seconds = (now - began) / 1000
        if now - reported_ms >= PROGRESS_EVERY_MS:
            reported_ms = now
            yield found
    found.is_done = True
    yield found
