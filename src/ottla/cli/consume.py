"""`ottla consume`: records of a topic to standard output."""

from __future__ import annotations

import asyncio
import signal
import sys
from dataclasses import dataclass

import click

from ottla.cli import session
from ottla.cli.options import bootstrap_option, is_terminal
from ottla.cli.output import count, talk, write_bytes
from ottla.cli.problems import Problem
from ottla.cli.records import Formatter, template, to_json
from ottla.cli.start import FROM_END, FROM_START, Start, check_fits, parse_start, positions
from ottla.client.cluster import Cluster
from ottla.client.consumer import AsyncConsumer, ConsumerOptions
from ottla.client.offsets import offset_ranges
from ottla.common.ids import TopicPartition
from ottla.protocol.errors import OffsetOutOfRange

VALUES_BY_LINE = r"%v\n"
READING = ConsumerOptions(auto_offset_reset="none", max_partition_fetch_bytes=4 * 1024 * 1024)


@dataclass(frozen=True, slots=True)
class Wish:
    """What to read and when to stop."""

    topic: str
    partitions: tuple[int, ...]
    start: Start
    max_records: int | None
    exit_at_end: bool
    write: Formatter


@click.command(
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Templates: %t topic, %p partition, %o offset, %T timestamp, %k key, %v value, %h headers, "
    r"%K and %V sizes, \n \t \xHH.",
)
@click.argument("topic")
@click.option("--from-beginning", is_flag=True, help="Short for --offset start.")
@click.option(
    "-o",
    "--offset",
    metavar="WHERE",
    help="start, end (default), N, -N (the last N of each partition), or @TIME: milliseconds or ISO 8601.",
)
@click.option(
    "-p",
    "--partition",
    "partitions",
    type=click.IntRange(0),
    metavar="N",
    multiple=True,
    help="Repeatable; else all.",
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
    metavar="TEMPLATE|json",
    default=VALUES_BY_LINE,
    show_default=True,
    help="How to write a record; json: one object per line.",
)
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
    """
    if from_beginning and offset is not None:
        raise click.UsageError("--from-beginning and --offset exclude each other")
    try:
        start = parse_start(offset) if offset is not None else FROM_START if from_beginning else FROM_END
        write = to_json if output_format == "json" else template(output_format)
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    wish = Wish(topic, tuple(dict.fromkeys(partitions)), start, max_records, exit_at_end, write)
    session.run(bootstrap, lambda cluster: _consume(cluster, wish), topic=topic)


async def _consume(cluster: Cluster, wish: Wish) -> None:
    partitions = await _partitions(cluster, wish)
    check_fits(wish.start, partitions)
    ranges = await offset_ranges(cluster, partitions)
    begin = await positions(cluster, wish.start, ranges)
    ends = {each: end for each, (_, end) in ranges.items()} if wish.exit_at_end else None
    if is_terminal(sys.stderr) and ends is None and wish.start is FROM_END:
        talk(f"Waiting for new records of {wish.topic}; --from-beginning reads all. Ctrl-C ends.")
    reading = asyncio.ensure_future(_read(AsyncConsumer.on(cluster, READING), wish, begin, ends))
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):  # the usual way to end it, not a failure
        loop.add_signal_handler(number, reading.cancel)
    try:
        await reading
    except asyncio.CancelledError:
        pass
    except OffsetOutOfRange as error:
        raise Problem(
            f"{error}: it was deleted by retention or by hand while it was being read",
            f"go on with what is left: ottla consume {wish.topic} --offset start",
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


async def _read(
    consumer: AsyncConsumer,
    wish: Wish,
    begin: dict[TopicPartition, int],
    ends: dict[TopicPartition, int] | None,
) -> None:
    written = 0
    left = {each for each, offset in begin.items() if ends is None or offset < ends[each]}
    async with consumer:
        consumer.assign(left)
        for partition in left:
            consumer.seek(partition, begin[partition])
        while left and written != wish.max_records:
            most = None if wish.max_records is None else wish.max_records - written
            fetched = await consumer.getmany(timeout_ms=None, max_records=most)
            records = [record for each in fetched.values() for record in each]
            if ends is not None:
                records = [each for each in records if each.offset < ends[TopicPartition(*each[:2])]]
                unfinished = {each for each in left if await consumer.position(each) < ends[each]}
                if unfinished != left:
                    left = unfinished
                    consumer.assign(left)
            write_bytes(b"".join(map(wish.write, records)))
            written += len(records)
    if is_terminal(sys.stderr):
        talk(f"{count(written, 'record')} of {wish.topic}")
