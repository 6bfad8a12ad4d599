"""Where to begin reading a topic, and pages of messages from there.

Pages go either way: forward from an offset or a time, backward from the end. A cursor is an offset for each
partition, written as `0=42,1=17`: forward it is the first to be read, backward the first not to be.
"""

from __future__ import annotations

import heapq
import re
from collections.abc import Mapping
from dataclasses import dataclass

from ottla.client.cluster import Cluster
from ottla.client.consumer import ConsumerRecord
from ottla.client.offsets import list_offsets, offset_ranges
from ottla.common.ids import TopicPartition
from ottla.console.messages.decoding import PARSED_BYTES
from ottla.console.messages.expression import time_ms
from ottla.console.messages.reader import read, records_of

NEWEST, OLDEST, OFFSET, TIME = "newest", "oldest", "offset", "time"
STARTS = (NEWEST, OLDEST, OFFSET, TIME)
MAX_ROUNDS = 6
PARTITION_BYTES = 256 * 1024
PAGE_BYTES = 64 * 1024 * 1024
LEAST_BYTES = 4 * 1024
"""Of each key and value on a page, however many there are."""
_CURSOR = re.compile(r"\d{1,9}=\d{1,18}(,\d{1,9}=\d{1,18})*", re.ASCII)

Ranges = dict[int, tuple[int, int]]
Offsets = dict[int, int]


@dataclass(frozen=True, slots=True)
class Page:
    """Records in the order in which they are shown, and the cursor of the page after it."""

    records: list[ConsumerRecord]
    ranges: Ranges
    next_cursor: str | None


def parse_cursor(text: str) -> Offsets:
    """Return the offsets of a cursor; ValueError if it is none."""
    if not _CURSOR.fullmatch(text):
        raise ValueError(f"{text!r} is not a cursor: write 0=42,1=17")
    return {int(at): int(offset) for at, offset in (each.split("=") for each in text.split(","))}


def cursor_text(offsets: Mapping[int, int]) -> str:
    """Return a cursor as it is written in links."""
    return ",".join(f"{at}={offset}" for at, offset in sorted(offsets.items()))


async def ranges_of(cluster: Cluster, topic: str, partitions: list[int] | None = None) -> Ranges:
    """Return the first and the end offset of partitions that have a leader; of all by default."""
    info = (await cluster.retrying(lambda: cluster.refresh([topic])))[topic]
    chosen = [
        TopicPartition(topic, index)
        for index, each in sorted(info.partitions.items())
        if each.leader >= 0 and (partitions is None or index in partitions)
    ]
    found = await offset_ranges(cluster, chosen)
    return {at.partition: span for at, span in found.items()}


async def start_offsets(cluster: Cluster, topic: str, ranges: Ranges, start: str, at: str) -> Offsets:
    """Return where to begin to read forward; ValueError says what `at` should be."""
    if start == OFFSET:
        if not (at.isascii() and at.isdigit()):
            raise ValueError(f"{at!r} is not an offset: it is a number from 0")
        return {index: min(max(int(at), first), end) for index, (first, end) in ranges.items()}
    if start == TIME:
        wanted = dict.fromkeys((TopicPartition(topic, index) for index in ranges), time_ms(at))
        found = await list_offsets(cluster, wanted)
        return {
            index: found[TopicPartition(topic, index)].offset
            if found[TopicPartition(topic, index)].offset >= 0
            else end
            for index, (_, end) in ranges.items()
        }
    return {index: first if start == OLDEST else end for index, (first, end) in ranges.items()}


def _kept_bytes(limit: int, ranges: Ranges) -> int:
    """Return how much of each key and value is kept, for a list that shows their beginnings."""
    return min(PARSED_BYTES, max(LEAST_BYTES, PAGE_BYTES // (limit * max(1, len(ranges)))))


async def forward(cluster: Cluster, topic: str, ranges: Ranges, begin: Offsets, limit: int) -> Page:
    """Return the first records from `begin` on, by time."""
    positions = {index: max(offset, ranges[index][0]) for index, offset in begin.items() if index in ranges}
    by_partition: dict[int, list[ConsumerRecord]] = {}
    keep = _kept_bytes(limit, ranges)
    for _ in range(MAX_ROUNDS):
        left = {
            index: offset
            for index, offset in positions.items()
            if offset < ranges[index][1] and len(by_partition.get(index, ())) < limit
        }
        if not left or (
            by_partition and sum(map(len, by_partition.values())) >= limit and len(left) < len(positions)
        ):
            break
        ends = {index: min(ranges[index][1], offset + limit) for index, offset in left.items()}
        async for chunk in read(cluster, topic, left, ends, partition_bytes=PARTITION_BYTES):
            index = chunk.partition.partition
            by_partition.setdefault(index, []).extend(records_of(chunk, keep))
            positions[index] = min(chunk.next_offset, ends[index])
    merged = heapq.merge(*by_partition.values(), key=lambda each: (each.timestamp, each.partition))
    taken = [each for each, _ in zip(merged, range(limit), strict=False)]
    following = dict(positions)
    for index, found in by_partition.items():
        count = sum(each.partition == index for each in taken)
        if count < len(found):
            following[index] = found[count].offset
    has_more = any(following[index] < ranges[index][1] for index in following)
    return Page(taken, ranges, cursor_text(following) if has_more and following else None)


async def backward(cluster: Cluster, topic: str, ranges: Ranges, before: Offsets, limit: int) -> Page:
    """Return the last records before `before`, the newest first."""
    tops = {index: min(offset, ranges[index][1]) for index, offset in before.items() if index in ranges}
    bottoms = dict(tops)
    by_partition: dict[int, list[ConsumerRecord]] = {index: [] for index in tops}
    window, keep = limit, _kept_bytes(limit, ranges)
    for _ in range(MAX_ROUNDS):
        left = {
            index: bottom
            for index, bottom in bottoms.items()
            if bottom > ranges[index][0] and len(by_partition[index]) < limit
        }
        if not left:
            break
        begin = {index: max(ranges[index][0], bottom - window) for index, bottom in left.items()}
        found: dict[int, list[ConsumerRecord]] = {}
        async for chunk in read(cluster, topic, begin, left, partition_bytes=PARTITION_BYTES):
            found.setdefault(chunk.partition.partition, []).extend(records_of(chunk, keep))
        for index, records in found.items():
            by_partition[index] = records + by_partition[index]
        bottoms.update(begin)
        window *= 4
    merged = sorted(
        (each for records in by_partition.values() for each in records),
        key=lambda each: (each.timestamp, each.offset),
        reverse=True,
    )
    taken = merged[:limit]
    following = dict(bottoms)
    for index, records in by_partition.items():
        shown = {each.offset for each in taken if each.partition == index}
        hidden = [each.offset for each in records if each.offset not in shown]
        if hidden:
            following[index] = min(shown) if shown else tops[index]
    has_more = any(following[index] > ranges[index][0] for index in following)
    return Page(taken, ranges, cursor_text(following) if has_more else None)


async def one_record(cluster: Cluster, topic: str, partition: int, offset: int) -> ConsumerRecord | None:
    """Return the record at an offset; None if there is none."""
    ranges = await ranges_of(cluster, topic, [partition])
    span = ranges.get(partition)
    if span is None or not span[0] <= offset < span[1]:
        return None
    async for chunk in read(cluster, topic, {partition: offset}, {partition: offset + 1}, partition_bytes=1):
        for record in records_of(chunk):
            if record.offset == offset:
                return record
    return None
