"""The work of `ottla consume`: from where to where, and what to say at the end."""

from __future__ import annotations

import asyncio
import signal
import sys
from dataclasses import dataclass

from ottla.cli.options import is_terminal, same_cluster
from ottla.cli.output import count, talk, write_bytes
from ottla.cli.problem_kinds import NO_SUCH_OFFSET
from ottla.cli.problems import Problem
from ottla.cli.progress import progress
from ottla.cli.records import Formatter
from ottla.cli.session import settings_for
from ottla.cli.start import FROM_END, Span, check_fits, ends, positions
from ottla.client.cluster import Cluster
from ottla.client.consumer import AsyncConsumer, ConsumerOptions, ConsumerRecord
from ottla.client.offsets import offset_ranges
from ottla.common.ids import TopicPartition
from ottla.protocol.errors import OffsetOutOfRange

MAX_FETCH_BYTES = 4 * 1024 * 1024

Offsets = dict[TopicPartition, int]


@dataclass(frozen=True, slots=True)
class Wish:
    """What to read and when to stop."""

    topic: str
    partitions: tuple[int, ...]
    span: Span
    max_records: int | None
    exit_at_end: bool
    write: Formatter


async def read_topic(cluster: Cluster, wish: Wish) -> None:
    """Read as wished; Ctrl-C ends it, and says how to go on."""
    partitions = await _partitions(cluster, wish)
    start, stop = wish.span.start, wish.span.stop
    for each in (start, stop):
        if each is not None:
            check_fits(each, partitions)
    ranges = await offset_ranges(cluster, partitions)
    at = await positions(cluster, start, ranges)
    until = await ends(cluster, stop, ranges) if stop is not None else None
    if wish.exit_at_end:
        here = {each: end for each, (_, end) in ranges.items()}
        until = here if until is None else {each: min(end, here[each]) for each, end in until.items()}
    if is_terminal(sys.stderr) and until is None and start is FROM_END:
        talk(f"Waiting for new records of {wish.topic}; --from-beginning reads all. Ctrl-C ends.")
    options = settings_for(
        ConsumerOptions, auto_offset_reset="none", max_partition_fetch_bytes=MAX_FETCH_BYTES
    )
    reading = asyncio.ensure_future(_Reading(wish, at, until).run(AsyncConsumer.on(cluster, options)))
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):  # the usual way to end it, not a failure
        loop.add_signal_handler(number, reading.cancel)
    try:
        await reading
    except asyncio.CancelledError:
        rest = ",".join(f"{each.partition}={offset}" for each, offset in sorted(at.items()))
        talk(f"stopped; to go on:  ottla consume {wish.topic}{same_cluster()} --offset {rest}")
    except OffsetOutOfRange as error:
        raise Problem(
            f"{error}: it was deleted by retention or by hand while it was being read",
            f"go on with what is left: ottla consume {wish.topic} --offset start",
            kind=NO_SUCH_OFFSET,
        ) from None


async def _partitions(cluster: Cluster, wish: Wish) -> list[TopicPartition]:
    known = (await cluster.topic(wish.topic)).partitions
    for index in wish.partitions:
        if index not in known:
            raise Problem(
                f"{wish.topic} has no partition {index}: it has {len(known)}, numbered from 0",
                f"look at it: ottla topic describe {wish.topic}",
            )
    return [TopicPartition(wish.topic, index) for index in wish.partitions or known]


class _Reading:
    """One run: where each partition is (`at`, kept up to date), and where it ends."""

    def __init__(self, wish: Wish, at: Offsets, until: Offsets | None) -> None:
        self.wish = wish
        self.at = at
        self.until = until
        self.written = 0

    async def run(self, consumer: AsyncConsumer) -> None:
        """Read and write until the end, if there is one."""
        wish, until = self.wish, self.until
        left = {each for each, offset in self.at.items() if until is None or offset < until[each]}
        with progress(wish.topic, self._total(), quiet=is_terminal(sys.stdout)) as shown:
            async with consumer:
                consumer.assign(left)
                for partition in left:
                    consumer.seek(partition, self.at[partition])
                while left and self.written != wish.max_records:
                    most = None if wish.max_records is None else wish.max_records - self.written
                    fetched = await consumer.getmany(timeout_ms=None, max_records=most)
                    self._write([record for each in fetched.values() for record in each])
                    shown(self.written)
                    if until is not None:
                        unfinished = {each for each in left if await consumer.position(each) < until[each]}
                        if unfinished != left:
                            left = unfinished
                            consumer.assign(left)
        if is_terminal(sys.stderr):
            talk(f"{count(self.written, 'record')} of {wish.topic}")

    def _write(self, records: list[ConsumerRecord]) -> None:
        if self.until is not None:
            records = [each for each in records if each.offset < self.until[TopicPartition(*each[:2])]]
        write_bytes(b"".join(map(self.wish.write, records)))
        self.written += len(records)
        for each in records:
            self.at[TopicPartition(*each[:2])] = each.offset + 1

    def _total(self) -> int | None:
        if self.until is None:
            return self.wish.max_records
        records = sum(max(0, end - self.at[each]) for each, end in self.until.items())
        return records if self.wish.max_records is None else min(records, self.wish.max_records)
