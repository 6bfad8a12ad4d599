"""`ottla consume`: read records of a topic to standard output."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from dataclasses import dataclass
from datetime import UTC, datetime

import click

from ottla.cli.support import session
from ottla.cli.support.completing import topic_names
from ottla.cli.support.offset_range import FROM_END, Span, check_fits, ends, parse_span, positions
from ottla.cli.support.options import bootstrap_option, is_terminal, named_argument, same_cluster
from ottla.cli.support.output import count, echo_err, write_bytes
from ottla.cli.support.problem_kinds import NO_SUCH_OFFSET
from ottla.cli.support.problems import Problem
from ottla.cli.support.progress import progress
from ottla.cli.support.records import Formatter, template, to_json
from ottla.cli.support.schemas import decoding, schema_options, schema_settings
from ottla.cli.support.session import settings_for
from ottla.client.cluster import Cluster
from ottla.client.consumer import AsyncConsumer, ConsumerOptions, ConsumerRecord
from ottla.client.offsets import offset_ranges
from ottla.common.ids import TopicPartition
from ottla.protocol.errors import OffsetOutOfRange

# A record as one line of text, safe for a terminal.

NO_TIMESTAMP = "-"


def pretty_formatter() -> Formatter:
    """Return the formatter for terminals; coloured, unless NO_COLOR is set."""
    colours = is_terminal(sys.stdout) and not os.environ.get("NO_COLOR")

    def write(record: ConsumerRecord) -> bytes:
        line = pretty(record)
        return (line if colours else click.unstyle(line)).encode() + b"\n"

    return write


def pretty(record: ConsumerRecord) -> str:
    """Return `partition:offset  time  key  value  headers`; control characters are escaped."""
    parts = [click.style(f"{record.partition}:{record.offset}", dim=True)]
    parts.append(click.style(_moment(record.timestamp), dim=True))
    if record.key is not None:
        parts.append(click.style(_text(record.key), fg="cyan"))
    parts.append(click.style("null", dim=True) if record.value is None else _text(record.value))
    if record.headers:
        shown = ", ".join(f"{_clean(name)}={_text(value or b'')}" for name, value in record.headers)
        parts.append(click.style(f"[{shown}]", dim=True))
    return "  ".join(parts)


def _moment(timestamp_ms: int) -> str:
    if timestamp_ms < 0:
        return NO_TIMESTAMP
    try:
        moment = datetime.fromtimestamp(timestamp_ms / 1000, UTC).astimezone()
    except (OverflowError, ValueError, OSError):
        return str(timestamp_ms)
    return moment.strftime("%Y-%m-%d %H:%M:%S.") + f"{timestamp_ms % 1000:03d}"


def _text(data: bytes) -> str:
    try:
        return _clean(data.decode())
    except UnicodeDecodeError:
        return "".join(chr(each) if 32 <= each < 127 else f"\\x{each:02x}" for each in data)


def _clean(text: str) -> str:
    """Return text without control sequences that could move the cursor or change colours."""
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)


# Reading: from where to where, and the message at the end.

MAX_FETCH_BYTES = 4 * 1024 * 1024

Offsets = dict[TopicPartition, int]


@dataclass(frozen=True, slots=True)
class ConsumeOptions:
    """What to read and when to stop."""

    topic: str
    partitions: tuple[int, ...]
    span: Span
    max_records: int | None
    exit_at_end: bool
    write: Formatter


async def read_topic(cluster: Cluster, options: ConsumeOptions) -> None:
    """Read as requested; Ctrl-C ends it, and prints how to resume."""
    partitions = await _partitions(cluster, options)
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
            f"Waiting for new records of {options.topic}; use --from-beginning to read all. Ctrl-C ends."
        )
    consumer_options = settings_for(
        ConsumerOptions, auto_offset_reset="none", max_partition_fetch_bytes=MAX_FETCH_BYTES
    )
    consumer = AsyncConsumer.on(cluster, consumer_options)
    reading = asyncio.ensure_future(_TopicReader(options, next_offsets, until).run(consumer))
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):  # the usual way to end it, not a failure
        loop.add_signal_handler(number, reading.cancel)
    try:
        await reading
    except asyncio.CancelledError:
        rest = ",".join(f"{each.partition}={offset}" for each, offset in sorted(next_offsets.items()))
        echo_err(f"stopped; to resume:  ottla consume {options.topic}{same_cluster()} --offset {rest}")
    except OffsetOutOfRange as error:
        raise Problem(
            f"{error}: retention or DeleteRecords removed it while it was being read",
            f"continue with what is left: ottla consume {options.topic} --offset start",
            kind=NO_SUCH_OFFSET,
        ) from None


async def _partitions(cluster: Cluster, options: ConsumeOptions) -> list[TopicPartition]:
    known = (await cluster.topic(options.topic)).partitions
    for index in options.partitions:
        if index not in known:
            raise Problem(
                f"{options.topic} has no partition {index}: it has {len(known)}, numbered from 0",
                f"see: ottla topic describe {options.topic}",
            )
    return [TopicPartition(options.topic, index) for index in options.partitions or known]


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
        with progress(options.topic, self._total(), quiet=is_terminal(sys.stdout)) as shown:
            async with consumer:
                consumer.assign(left)
                for partition in left:
                    consumer.seek(partition, self.next_offsets[partition])
                while left and self.written != options.max_records:
                    most = None if options.max_records is None else options.max_records - self.written
                    fetched = await consumer.getmany(timeout_ms=None, max_records=most)
                    self._write([record for each in fetched.values() for record in each])
                    shown(self.written)
                    if until is not None:
                        unfinished = {each for each in left if await consumer.position(each) < until[each]}
                        if unfinished != left:
                            left = unfinished
                            consumer.assign(left)
        if is_terminal(sys.stderr):
            echo_err(f"Read {count(self.written, 'record')} from {options.topic}")

    def _write(self, records: list[ConsumerRecord]) -> None:
        if self.until is not None:
            records = [each for each in records if each.offset < self.until[TopicPartition(*each[:2])]]
        write_bytes(b"".join(map(self.options.write, records)))
        self.written += len(records)
        for each in records:
            self.next_offsets[TopicPartition(*each[:2])] = each.offset + 1

    def _total(self) -> int | None:
        if self.until is None:
            return self.options.max_records
        records = sum(max(0, end - self.next_offsets[each]) for each, end in self.until.items())
        return records if self.options.max_records is None else min(records, self.options.max_records)


AUTOMATIC = "auto"


@click.command(
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Templates: %t topic, %p partition, %o offset, %T timestamp, %k key, %v value, %h headers, "
    r"%K and %V sizes, \n \t \xHH.",
)
@named_argument("topic", "--topic", "TOPIC", topic_names)
@click.option("--from-beginning", is_flag=True, help="Same as --offset start.")
@click.option(
    "-o",
    "--offset",
    metavar="WHERE",
    help="start, end (default), N, -N (the last N of each partition), @TIME (milliseconds or ISO 8601), "
    "FROM:TO of these, or P=N,P=N (an offset for each partition).",
)
@click.option(
    "-p",
    "--partition",
    "partitions",
    type=click.IntRange(0),
    metavar="N",
    multiple=True,
    help="Only this partition; repeatable.",
)
@click.option(
    "-n",
    "--max-messages",
    "max_records",
    type=click.IntRange(1),
    metavar="N",
    help="Stop after that many records.",
)
@click.option("-e", "--exit", "exit_at_end", is_flag=True, help="Stop at the current end of the topic.")
@click.option(
    "-f",
    "--format",
    "output_format",
    metavar="FORMAT",
    default=AUTOMATIC,
    help="table, json (one object per line), or a template such as '%k=%v\\n'.  "
    "[default: table on a terminal, else json]",
)
@schema_options(writes=False)
@bootstrap_option
def consume(
    topic: str,
    from_beginning: bool,
    offset: str | None,
    partitions: tuple[int, ...],
    max_records: int | None,
    exit_at_end: bool,
    output_format: str,
    bootstrap: str,
) -> None:
    """Read records of TOPIC until Ctrl-C, or as the options say.

    \b
    ottla consume orders --from-beginning --exit
    ottla consume orders --offset -5 --format '%p:%o %k=%v\\n'
    ottla consume orders --offset @2026-11-15T13:00:00 --format json
    ottla consume orders --partition 0 --offset 100:200
    ottla consume orders --from-beginning --value-format registry
    """
    if from_beginning and offset is not None:
        raise click.UsageError("--from-beginning and --offset exclude each other")
    try:
        span = parse_span(offset or ("start" if from_beginning else "end"))
        write = formatter(output_format)
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    chosen = tuple(dict.fromkeys(partitions)) or tuple(span.start.each)
    if span.start.each and set(chosen) != set(span.start.each):
        raise click.UsageError("--offset P=N names the partitions itself: remove --partition")
    write = decoding(write, schema_settings())
    options = ConsumeOptions(topic, chosen, span, max_records, exit_at_end, write)
    session.run(bootstrap, lambda cluster: read_topic(cluster, options), topic=topic)


def formatter(name: str) -> Formatter:
    """Return the formatter; ValueError says what is wrong with a template."""
    if name == AUTOMATIC:
        name = "table" if is_terminal(sys.stdout) else "json"
    if name == "table":
        return pretty_formatter()
    return to_json if name == "json" else template(name)
