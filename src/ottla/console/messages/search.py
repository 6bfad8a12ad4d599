"""Scans a topic for the messages that an expression matches, forward or from the newest back, and says how
far it is.

Batches are decoded and tested in a thread, so that pages are served meanwhile. If the expression says which
bytes a match must contain, batches without them are not decoded; if values may be written by schemas, where
texts need not be among the bytes, records are looked at one by one.
"""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from ottla.client.cluster import Cluster
from ottla.client.consumer import ConsumerRecord
from ottla.client.consumer.fetching.record import MAX_DECOMPRESSED_BYTES
from ottla.common.clock import Clock
from ottla.console.messages.decoding import GZIP
from ottla.console.messages.expression import Expression
from ottla.console.messages.message import Message, Reading
from ottla.console.messages.positions import Offsets, Ranges
from ottla.console.messages.reader import Chunk, read, records_by_batch, shortened
from ottla.protocol.errors import CorruptMessage, InvalidRecord
from ottla.protocol.records.records import record_data

PROGRESS_EVERY_MS = 250
ESCAPE = b"\\u"
HELD_BYTES = 64 * 1024 * 1024
"""Of hits, before they are handed out."""
INITIAL_WINDOW, MAX_WINDOW = 1_000, 1_000_000
"""Offsets that are scanned before the hits among them are handed out, the newest first."""
WINDOW_MS = 500
KEPT_BYTES = 64 * 1024
"""Of each key and value, if a window has more hits than may be held."""


@dataclass(slots=True)
class Progress:
    """How far a scan is; `hits` are those since the last one."""

    scanned: int
    total: int
    found: int
    seconds: float
    hits: list[Message] = field(default_factory=list)
    is_done: bool = False
    cursor: Offsets = field(default_factory=dict)
    """Where to continue, if it ended because it found enough."""
    partly: int = 0
    """How many messages were too large to be searched as a whole, and did not match in their beginning."""

    @property
    def rate(self) -> float:
        """Records per second."""
        return self.scanned / self.seconds if self.seconds else 0.0

    def as_json(self) -> dict[str, object]:
        """Return it as JSON, without the hits."""
        return {
            "scanned": self.scanned,
            "total": self.total,
            "found": self.found,
            "seconds": round(self.seconds, 2),
            "rate": round(self.rate),
            "done": self.is_done,
            "partly": self.partly,
        }


async def search(
    cluster: Cluster,
    reading: Reading,
    expression: Expression,
    begin: Offsets,
    ranges: Ranges,
    clock: Clock,
    *,
    limit: int,
) -> AsyncIterator[Progress]:
    """Yield how far the scan is and what it found since, several times a second; end after `limit` hits."""
    positions = {index: max(begin.get(index, first), first) for index, (first, _) in ranges.items()}
    ends = {index: end for index, (_, end) in ranges.items()}
    total = sum(max(0, ends[index] - offset) for index, offset in positions.items())
    began = reported_ms = clock.mono_ms()
    state = Progress(0, total, 0, 0.0)
    async for chunk in read(cluster, reading.topic, positions, ends):
        left: Chunk | None = chunk
        index = chunk.partition.partition
        is_full = False
        while left is not None and not is_full:
            position = left.position
            hits, partly, left = await asyncio.to_thread(matches, left, reading, expression)
            state.partly += partly
            room = limit - state.found
            is_full = len(hits) >= room
            reached = min(chunk.next_offset, chunk.end) if left is None else left.position
            if is_full:
                reached = hits[room - 1].record.offset + 1
            state.hits += hits[:room]
            state.found += min(len(hits), room)
            state.scanned += reached - position
            positions[index] = reached
            now = clock.mono_ms()
            state.seconds = (now - began) / 1000
            is_due = now - reported_ms >= PROGRESS_EVERY_MS or (hits and state.found == len(state.hits))
            if not is_full and (is_due or left is not None):
                reported_ms = now
                yield state
                state.hits = []
        if is_full:
            break
    state.is_done = True
    if any(positions[index] < ends[index] for index in positions):
        state.cursor = positions
    yield state


async def search_back(
    cluster: Cluster,
    reading: Reading,
    expression: Expression,
    before: Offsets,
    ranges: Ranges,
    clock: Clock,
    *,
    limit: int,
) -> AsyncIterator[Progress]:
    """Search from before these offsets to the beginning; yield hits the newest first.

    Brokers are read forward only. So a window of offsets is scanned, then the window before it, each as large
    as half a second allows.
    """
    tops = {index: min(before.get(index, end), end) for index, (_, end) in ranges.items()}
    firsts = {index: first for index, (first, _) in ranges.items()}
    began = reported_ms = clock.mono_ms()
    state = Progress(0, sum(max(0, tops[index] - first) for index, first in firsts.items()), 0, 0.0)
    window = least = max(1, INITIAL_WINDOW // max(1, len(ranges)))
    most = max(least, MAX_WINDOW // max(1, len(ranges)))
    while state.found < limit and any(tops[index] > first for index, first in firsts.items()):
        window_began = clock.mono_ms()
        ends = {index: top for index, top in tops.items() if top > firsts[index]}
        positions = {index: max(firsts[index], top - window) for index, top in ends.items()}
        room = limit - state.found
        found = _Window(room)
        async for chunk in read(cluster, reading.topic, positions, ends):
            left: Chunk | None = chunk
            while left is not None:
                position = left.position
                hits, partly, left = await asyncio.to_thread(matches, left, reading, expression)
                found.add(chunk.partition.partition, hits)
                state.partly += partly
                reached = min(chunk.next_offset, chunk.end) if left is None else left.position
                state.scanned += reached - position
            now = clock.mono_ms()
            state.seconds = (now - began) / 1000
            if now - reported_ms >= PROGRESS_EVERY_MS:
                reported_ms = now
                yield state
        state.hits = found.newest()
        state.found += len(state.hits)
        tops = {**tops, **(positions if len(state.hits) < room else found.left(positions, ends))}
        if state.hits and state.found < limit:
            yield state
            state.hits = []
        took_ms = clock.mono_ms() - window_began
        if took_ms < WINDOW_MS:
            window = min(window * 2, most)
        elif took_ms > WINDOW_MS * 3:
            window = max(window // 2, least)
    state.is_done = True
    if any(tops[index] > first for index, first in firsts.items()):
        state.cursor = tops
    yield state


class _Window:
    """The hits of one window of offsets, no more of them than may be shown and held."""

    def __init__(self, room: int) -> None:
        self._room = room
        self._hits: dict[int, list[Message]] = {}
        """By partition, in order of their offsets."""
        self._held = 0
        self._is_cut = False

    def add(self, index: int, hits: list[Message]) -> None:
        """Add hits of a partition, which come in order of their offsets."""
        if not hits:
            return
        self._hits.setdefault(index, []).extend(each if not self._is_cut else _cut(each) for each in hits)
        self._held += sum(map(_size, hits))
        if self._held > HELD_BYTES and not self._is_cut:
            self._is_cut = True
            self._hits = {index: [_cut(each) for each in found] for index, found in self._hits.items()}
        if sum(map(len, self._hits.values())) > 2 * self._room:
            self.newest()

    def newest(self) -> list[Message]:
        """Keep and return the newest hits by time; those of one partition by offset, so none is skipped."""
        newest_first: Iterable[Iterable[Message]] = (reversed(each) for each in self._hits.values())
        merged = heapq.merge(*newest_first, key=lambda each: -each.record.timestamp)
        taken = [each for each, _ in zip(merged, range(self._room), strict=False)]
        self._hits = {index: [] for index in self._hits}
        for each in reversed(taken):
            self._hits[each.record.partition].append(each)
        return taken

    def left(self, begin: Offsets, ends: Offsets) -> Offsets:
        """Return before which offsets there may be hits beside the newest ones."""
        found = dict(begin)
        for index, hits in self._hits.items():
            found[index] = hits[0].record.offset if hits else ends[index]
        return found


def _size(message: Message) -> int:
    return len(message.record.value or b"") + len(message.record.key or b"")


def _cut(message: Message) -> Message:
    return Message(shortened(message.record, KEPT_BYTES), message.reading)


class Matched(NamedTuple):
    """The messages of a chunk that match, and how many others could only be searched in part."""

    hits: list[Message]
    partly: int
    left: Chunk | None
    """The batches that were not looked at, because the hits before them are large."""


def matches(chunk: Chunk, reading: Reading, expression: Expression) -> Matched:
    """Look for the messages of a chunk that match."""
    is_as_written = not {reading.key_format, reading.value_format} & {"hex", "base64"}
    shows_all = not reading.masking  # how fast batches are skipped would tell which hidden texts exist
    needles = expression.needles if is_as_written and shows_all else ()
    skips_batches = needles and not reading.decoder.has_registry
    test = expression.test
    hits: list[Message] = []
    held = partly = 0
    for count, batch in enumerate(chunk.batches, 1):
        header = batch[0]
        if skips_batches and (header.is_control or not header.record_count or not _may_match(batch, needles)):
            continue
        for record in next(records_by_batch(chunk._replace(batches=[batch]))):
            if needles and not skips_batches and not _record_may_match(record, needles):
                continue
            message = Message(record, reading)
            if test(message):
                hits.append(message.without_decoded())
                held += len(record.value or b"") + len(record.key or b"")
            elif len(record.value or b"") > reading.limit:
                partly += 1
        if held > HELD_BYTES and count < len(chunk.batches):
            left = chunk._replace(batches=chunk.batches[count:], position=header.next_offset)
            return Matched(hits, partly, left)
    return Matched(hits, partly, None)


def _may_match(batch: tuple[object, object], needles: tuple[bytes, ...]) -> bool:
    try:
        data = record_data(batch[0], batch[1], MAX_DECOMPRESSED_BYTES)  # type: ignore[arg-type]
    except (InvalidRecord, CorruptMessage):
        return False
    return all(each in data for each in needles) or GZIP in data or ESCAPE in data


def _record_may_match(record: ConsumerRecord, needles: tuple[bytes, ...]) -> bool:
    key, value = record.key or b"", record.value or b""
    if value[:1] == b"\0" or key[:1] == b"\0" or value[:2] == GZIP or ESCAPE in value or record.headers:
        return True
    return all(each in value or each in key for each in needles)
