"""`ottla consume`: records of a topic to standard output."""

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
from ottla.cli.support.output import count, talk, write_bytes
from ottla.cli.support.problem_kinds import NO_SUCH_OFFSET
from ottla.cli.support.problems import Problem
from ottla.cli.support.progress import progress
from ottla.cli.support.records import Formatter, template, to_json
from ottla.cli.support.schemas import decoding, schema_options, schema_wishes
from ottla.cli.support.session import settings_for
from ottla.client.cluster import Cluster
from ottla.client.consumer import AsyncConsumer, ConsumerOptions, ConsumerRecord
from ottla.client.offsets import offset_ranges
from ottla.common.ids import TopicPartition
from ottla.protocol.errors import OffsetOutOfRange

# A record as `ottla consume` shows it to a person: one line, safe for a terminal.

NO_TIMESTAMP = "-"


def pretty_formatter() -> Formatter:
    """Return what writes a record for people; in colours on a terminal, unless NO_COLOR is set."""
    colours = is_terminal(sys.stdout) and not os.environ.get("NO_COLOR")

    def write(record: ConsumerRecord) -> bytes:
        line = pretty(record)
        return (line if colours else click.unstyle(line)).encode() + b"\n"

    return write


def pretty(record: ConsumerRecord) -> str:
    """Return `partition:offset  time  key  value  headers`; control characters are written as escapes."""
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
    """Return text without anything that could move the cursor or change colours."""
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)


# The work of `ottla consume`: from where to where, and what to say at the end.

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


AUTOMATIC = "auto"


@click.command(
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Templates: %t topic, %p partition, %o offset, %T timestamp, %k key, %v value, %h headers, "
    r"%K and %V sizes, \n \t \xHH.",
)
@named_argument("topic", "--topic", "TOPIC", topic_names)
@click.option("--from-beginning", is_flag=True, help="Short for --offset start.")
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
@click.option("-e", "--exit", "exit_at_end", is_flag=True, help="Stop at the end of what there is now.")
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
    """Read records of TOPIC, until Ctrl-C or as long as the options say.

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
        raise click.UsageError("--offset P=N names the partitions itself: leave --partition away")
    write = decoding(write, schema_wishes())
    wish = Wish(topic, chosen, span, max_records, exit_at_end, write)
    session.run(bootstrap, lambda cluster: read_topic(cluster, wish), topic=topic)


def formatter(name: str) -> Formatter:
    """Return what writes a record; ValueError says what is wrong with a template."""
    if name == AUTOMATIC:
        name = "table" if is_terminal(sys.stdout) else "json"
    if name == "table":
        return pretty_formatter()
    return to_json if name == "json" else template(name)
