"""Scans a topic for the messages that an expression matches, and says how far it is.

Batches are decoded and tested in a thread, so that pages are served meanwhile. If the expression says which
bytes a match must contain, batches without them are not decoded; if values may be written by schemas, where
texts need not be among the bytes, records are looked at one by one.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
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
from ottla.console.messages.reader import Chunk, read, records_by_batch
from ottla.protocol.errors import CorruptMessage, InvalidRecord
from ottla.protocol.records.records import record_data

PROGRESS_EVERY_MS = 250
ESCAPE = b"\\u"
HELD_BYTES = 64 * 1024 * 1024
"""Of hits, before they are handed out."""


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


class Matched(NamedTuple):
    """The messages of a chunk that match, and how many others could only be searched in part."""

    hits: list[Message]
    partly: int
    left: Chunk | None
    """The batches that were not looked at, because the hits before them are large."""


def matches(chunk: Chunk, reading: Reading, expression: Expression) -> Matched:
    """Look for the messages of a chunk that match."""
    is_as_written = not {reading.key_format, reading.value_format} & {"hex", "base64"}
    needles = expression.needles if is_as_written else ()
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
