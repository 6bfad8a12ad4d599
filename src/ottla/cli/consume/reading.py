"""Read partitions of topics: from where, to where, and the message at the end."""

from __future__ import annotations

import asyncio
import re
import signal
import sys
from collections.abc import Coroutine
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

from ottla.cli.support.offset_range import FROM_END, Span, check_fits, ends, positions
from ottla.cli.support.options import is_terminal, same_cluster
from ottla.cli.support.output import count, echo_err, write_bytes
from ottla.cli.support.problem_kinds import NO_SUCH_OFFSET
from ottla.cli.support.problems import Problem
from ottla.cli.support.progress import progress
from ottla.cli.support.records import Formatter, Template, row_formatter
from ottla.cli.support.session import settings_for
from ottla.client.cluster import Cluster
from ottla.client.consumer import AsyncConsumer, ConsumerOptions
from ottla.client.offsets import offset_ranges
from ottla.common.ids import TopicPartition
from ottla.common.topic_names import is_internal
from ottla.protocol.errors import OffsetOutOfRange

READ_UNCOMMITTED = "read_uncommitted"
MAX_FETCH_BYTES = 4 * 1024 * 1024

Offsets = dict[TopicPartition, int]
_value = itemgetter(6)


@dataclass(frozen=True, slots=True)
class ConsumeOptions:
    """What to read and when to stop."""

    topics: tuple[str, ...]
    partitions: tuple[int, ...]
    span: Span
    max_records: int | None
    exit_at_end: bool
    write: Formatter
    is_regex: bool = False
    """Whether `topics` are regular expressions."""
    isolation: str = READ_UNCOMMITTED

    @property
    def shown(self) -> str:
        """Return the topics as text."""
        return " ".join(self.topics)


async def read_topics(cluster: Cluster, options: ConsumeOptions) -> None:
    """Read as requested; Ctrl-C ends it, and prints how to resume."""
    topics = await matching_topics(cluster, options)
    partitions = [each for topic in topics for each in await _partitions(cluster, topic, options)]
    start, stop = options.span.start, options.span.stop
    for each in (start, stop):
        if each is not None:
            check_fits(each, partitions)
    ranges = await offset_ranges(cluster, partitions)
    next_offsets = await positions(cluster, start, ranges)
    until = await ends(cluster, stop, ranges) if stop is not None else None
    if options.exit_at_end:
        here = {each: end for each, (_, end) in ranges.items()}
        until = here if until is None else {each: min(end, here[each]) for each, end in until.items()}
    if is_terminal(sys.stderr) and until is None and start is FROM_END:
        echo_err(
            f"Waiting for new records of {options.shown}; use --from-beginning to read all. Ctrl-C ends."
        )
    consumer_options = settings_for(
        ConsumerOptions,
        auto_offset_reset="none",
        max_partition_fetch_bytes=MAX_FETCH_BYTES,
        isolation_level=options.isolation,
    )
    consumer = AsyncConsumer.on(cluster, consumer_options)
    run = _TopicReader(options, next_offsets, until).run(consumer)
    try:
        await until_signal(run)
    except asyncio.CancelledError:
        echo_err(f"stopped; {_how_to_resume(options, next_offsets)}")
    except OffsetOutOfRange as error:
        raise Problem(
            f"{error}: retention or DeleteRecords removed it while it was being read",
            f"continue with what is left: ottla consume {options.shown} --offset start",
            kind=NO_SUCH_OFFSET,
        ) from None


async def until_signal(reading: Coroutine[Any, Any, None]) -> None:
    """Run until it ends; SIGINT and SIGTERM cancel it: the usual way to end it, not a failure."""
    task = asyncio.ensure_future(reading)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, task.cancel)
    await task


def _how_to_resume(options: ConsumeOptions, next_offsets: Offsets) -> str:
    if len({each.topic for each in next_offsets}) != 1:
        return f"to resume where this ends, use a group:  ottla consume {options.shown} --group NAME"
    topic = next(iter(next_offsets)).topic
    rest = ",".join(f"{each.partition}={offset}" for each, offset in sorted(next_offsets.items()))
    return f"to resume:  ottla consume {topic}{same_cluster()} --offset {rest}"


async def matching_topics(cluster: Cluster, options: ConsumeOptions) -> list[str]:
    """Return the topics that are named, or that match; raise Problem if a pattern matches none."""
    if not options.is_regex:
        return list(options.topics)
    patterns = [re.compile(each) for each in options.topics]
    names = [name for name in sorted(await cluster.refresh(None)) if not is_internal(name)]
    found = [name for name in names if any(each.fullmatch(name) for each in patterns)]
    if not found:
        raise Problem(f"no topic matches {options.shown}", "see the topics:  ottla topic list")
    return found


async def _partitions(cluster: Cluster, topic: str, options: ConsumeOptions) -> list[TopicPartition]:
    known = (await cluster.topic(topic)).partitions
    for index in options.partitions:
        if index not in known:
            raise Problem(
                f"{topic} has no partition {index}: it has {len(known)}, numbered from 0",
                f"see: ottla topic describe {topic}",
            )
    return [TopicPartition(topic, index) for index in options.partitions or known]


class _TopicReader:
    """One run: the position of each partition, and where it ends."""

    def __init__(self, options: ConsumeOptions, next_offsets: Offsets, until: Offsets | None) -> None:
        self.options = options
        self.next_offsets = next_offsets
        self.until = until
        self.written = 0

    async def run(self, consumer: AsyncConsumer) -> None:
        """Read and write until the end, if there is one."""
        options, until = self.options, self.until
        left = {each for each, offset in self.next_offsets.items() if until is None or offset < until[each]}
        with progress(options.shown, self._total(), quiet=is_terminal(sys.stdout)) as shown:
            async with consumer:
                consumer.assign(left)
                for partition in left:
                    consumer.seek(partition, self.next_offsets[partition])
                read = self._read_all if options.max_records is None else self._read_some
                while left and self.written != options.max_records:
                    await read(consumer)
                    shown(self.written)
                    if until is not None:
                        unfinished = {each for each in left if await consumer.position(each) < until[each]}
                        if unfinished != left:
                            left = unfinished
                            consumer.assign(left)
        if is_terminal(sys.stderr):
            echo_err(f"Read {count(self.written, 'record')} from {options.shown}")

    async def _read_all(self, consumer: AsyncConsumer) -> None:
        """Write everything that was fetched; the text of a record is made as it is decoded."""
        write = self.options.write
        after = write.after_value if isinstance(write, Template) else None
        make = _value if after is not None else row_formatter(write)
        for each in await consumer.poll_rows(make, None, until=self.until):
            made = each.made
            if after is None:
                write_bytes(b"".join(made))
            elif made:
                if None in made:
                    made = [value or b"" for value in made]
                made.append(b"")
                write_bytes(after.join(made))
                made.pop()
            self.written += len(made)
            self.next_offsets[each.partition] = each.next_offset

    async def _read_some(self, consumer: AsyncConsumer) -> None:
        """Write what is left until the limit."""
        most = None if self.options.max_records is None else self.options.max_records - self.written
        for partition, records in (await consumer.getmany(timeout_ms=None, max_records=most)).items():
            if self.until is not None:
                records = [each for each in records if each.offset < self.until[partition]]
            if records:
                write_bytes(b"".join(map(self.options.write, records)))
                self.written += len(records)
                self.next_offsets[partition] = records[-1].offset + 1

    def _total(self) -> int | None:
        if self.until is None:
            return self.options.max_records
        records = sum(max(0, end - self.next_offsets[each]) for each, end in self.until.items())
        return records if self.options.max_records is None else min(records, self.options.max_records)
