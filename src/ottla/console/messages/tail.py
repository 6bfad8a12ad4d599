"""The newest messages as they come, no more of them than a person can read.

Every quarter of a second the end offsets are asked for. Where more was written than can be shown, the rest is
skipped and counted, not fetched: a tail costs the same whatever is written. With an expression more is read,
because most of it may not match, but not without bound either.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

from ottla.client.offsets import LATEST, list_offsets
from ottla.common.ids import TopicPartition
from ottla.console.clusters.live import LiveCluster
from ottla.console.messages.expression import Expression
from ottla.console.messages.message import Message, Reading
from ottla.console.messages.positions import Offsets
from ottla.console.messages.reader import Chunk, read, shortened
from ottla.console.messages.search import matches

TICK_S = 0.25
SHOWN = 40
READ_FOR_MATCHES = 20_000
PARTITION_BYTES = 256 * 1024
KEPT_BYTES = 1024 * 1024


@dataclass(slots=True)
class TailUpdate:
    """The messages since the last update, for the page."""

    messages: list[Message] = field(default_factory=list)
    written: int = 0
    skipped: int = 0
    seconds: float = TICK_S

    def add(self, messages: list[Message]) -> None:
        """Add messages; keep the newest ones."""
        found = sorted(
            [*self.messages, *messages], key=lambda each: (each.record.timestamp, each.record.offset)
        )
        self.skipped += max(0, len(found) - SHOWN)
        self.messages = found[-SHOWN:]

    def as_json(self) -> dict[str, object]:
        """Return the numbers as JSON."""
        return {"written": self.written, "skipped": self.skipped, "rate": round(self.written / self.seconds)}


async def tail(
    live: LiveCluster, reading: Reading, expression: Expression, partitions: list[int]
) -> AsyncIterator[TailUpdate]:
    """Yield what is written from now on, until the caller has enough."""
    cluster, topic = live.admin.cluster, reading.topic
    asked = dict.fromkeys((TopicPartition(topic, each) for each in partitions), LATEST)
    room = READ_FOR_MATCHES if expression.text else SHOWN
    positions: Offsets | None = None
    before = live.clock.mono_ms()
    while True:
        ends = {at.partition: each.offset for at, each in (await list_offsets(cluster, asked)).items()}
        now = live.clock.mono_ms()
        update = TailUpdate(seconds=max(0.001, (now - before) / 1000))
        before = now
        if positions is not None:
            for index, end in ends.items():
                update.written += max(0, end - positions[index])
                first = max(positions[index], end - room)
                update.skipped += first - positions[index]
                positions[index] = min(first, end)
            async for chunk in read(cluster, topic, positions, ends, partition_bytes=PARTITION_BYTES):
                left: Chunk | None = chunk
                while left is not None:
                    hits, _, left = await asyncio.to_thread(matches, left, reading, expression)
                    update.add([Message(shortened(each.record, KEPT_BYTES), reading) for each in hits])
        positions = dict(ends)
        yield update
        await asyncio.sleep(TICK_S)
