"""`ottla produce`: write records to a topic, from arguments, lines or JSON."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import stat
import sys
import threading
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass
from typing import Any

import click

from ottla.cli.support import session
from ottla.cli.support.completing import topic_names
from ottla.cli.support.options import (
    batch_options,
    bootstrap_option,
    is_terminal,
    named_argument,
    same_cluster,
)
from ottla.cli.support.output import count, echo_err
from ottla.cli.support.problem_kinds import BAD_RECORD
from ottla.cli.support.problems import Interrupted, Problem
from ottla.cli.support.progress import Update, progress
from ottla.cli.support.records import NewRecord, from_json
from ottla.cli.support.schemas import Encoder, SchemaSettings, schema_options, schema_settings, value_kinds
from ottla.cli.support.table_input import RowError, avro_rows, csv_rows, in_portions
from ottla.client.cluster import Cluster
from ottla.client.producer import AsyncProducer, ProducerOptions
from ottla.client.producer.sender import SenderStats
from ottla.protocol.errors import UnknownTopicOrPartition

# Standard input by lines, read in a daemon thread so that it never blocks the event loop: nothing can wake a
# thread that waits for input, and the program must be able to end without it. It reads a few chunks ahead.

CHUNK_BYTES = 256 * 1024
CHUNKS_AHEAD = 8
MAX_LINE_BYTES = 64 * 1024 * 1024


async def read_lines(descriptor: int = 0) -> AsyncIterator[list[bytes]]:
    """Yield the available lines of a file, without their line ends.

    Raise ValueError for a line that does not end within MAX_LINE_BYTES.
    """
    rest = bytearray()
    async for chunk in _chunks(descriptor):
        searched = len(rest)
        rest += chunk
        cut = rest.rfind(b"\n", searched) + 1
        if cut:
            data = bytes(rest[:cut])
            lines = data.split(b"\n")
            del rest[:cut], lines[-1]
            yield [line.removesuffix(b"\r") for line in lines] if b"\r\n" in data else lines
        if len(rest) > MAX_LINE_BYTES:
            raise ValueError(
                f"a line is longer than {MAX_LINE_BYTES // 2**20} MiB: records end with a newline"
            )
    if rest:
        yield [bytes(rest).removesuffix(b"\r")]


async def _chunks(descriptor: int) -> AsyncIterator[bytes]:
    loop = asyncio.get_running_loop()
    arrived: asyncio.Queue[bytes | OSError] = asyncio.Queue()
    ahead = threading.Semaphore(CHUNKS_AHEAD)

    def pump() -> None:
        item: bytes | OSError = b"?"
        while item and not isinstance(item, OSError):
            ahead.acquire()
            try:
                item = os.read(descriptor, CHUNK_BYTES)
            except OSError as error:
                item = error
            try:
                loop.call_soon_threadsafe(arrived.put_nowait, item)
            except RuntimeError:  # the event loop has ended
                return

    threading.Thread(target=pump, name="stdin", daemon=True).start()
    while True:
        item = await arrived.get()
        ahead.release()
        if isinstance(item, OSError):
            raise item
        if not item:
            return
        yield item


REASON_INTERVAL_S = 5.0
TABLES = ("csv", "avro")


@dataclass(frozen=True, slots=True)
class LineReader:
    """Converts a line of input into a record."""

    key: str | None
    key_separator: str | None
    headers: tuple[tuple[str, bytes | None], ...]
    partition: int | None
    empty_is_null: bool
    is_json: bool
    keeps_partitions: bool
    encoder: Encoder | None = None
    key_field: str | None = None
    is_row: bool = False
    """Whether a line is a row of a table, as JSON."""

    def in_bulk(self, lines: list[bytes]) -> tuple[list[bytes], list[bytes] | None] | None:
        """Return the values and keys of lines that need no object each; None if they do, or one is wrong."""
        if self.is_json or self.key_field is not None or self.encoder is not None:
            return None
        if self.key_separator is None:
            if self.empty_is_null and (not self.key or b"" in lines):
                return None
            return lines, None if self.key is None else [self.key.encode()] * len(lines)
        separator = self.key_separator.encode()
        keys, found, values = zip(*[line.partition(separator) for line in lines], strict=True)
        if b"" in found or (self.empty_is_null and (b"" in keys or b"" in values)):
            return None
        return list(values), list(keys)

    def record(self, line: bytes) -> NewRecord:
        """Return the record; ValueError says what is wrong with the line."""
        found = self._record(line)
        return found if self.encoder is None else self.encoder.encode(found)

    def _record(self, line: bytes) -> NewRecord:
        if self.is_json:
            return self._completed(from_json(line, self.encoder.fields if self.encoder else ()))
        key_bytes = self.key.encode() if self.key is not None else None
        value: bytes | None = line
        if self.key_field is not None:
            key_bytes = _key_of(line, self.key_field)
        if self.key_separator is not None:
            key_bytes, found, value = line.partition(self.key_separator.encode())
            if not found:
                raise ValueError(f"no {self.key_separator!r} between key and value")
        if self.empty_is_null:
            key_bytes, value = key_bytes or None, value or None
        return NewRecord(key_bytes, value, self.headers, None, self.partition)

    def _completed(self, record: NewRecord) -> NewRecord:
        """Return a record from JSON, with the values of the options."""
        return record._replace(
            key=self.key.encode() if self.key is not None else record.key,
            headers=record.headers + self.headers,
            partition=record.partition if self.keeps_partitions else self.partition,
        )


def _key_of(row: bytes, field: str) -> bytes | None:
    cells = json.loads(row)
    if not isinstance(cells, dict) or field not in cells:
        raise ValueError(f"there is no field {field!r}")
    found = cells[field]
    if found is None:
        return None
    return found.encode() if isinstance(found, str) else json.dumps(found).encode()


def _headers(
    ctx: click.Context, param: click.Parameter, texts: tuple[str, ...]
) -> tuple[tuple[str, bytes | None], ...]:
    headers: list[tuple[str, bytes | None]] = []
    for text in texts:
        name, equals, value = text.partition("=")
        if not name:
            raise click.BadParameter(f"{text!r} is not name=value", ctx, param)
        headers.append((name, value.encode() if equals else None))
    return tuple(headers)


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@named_argument("topic", "--topic", "TOPIC", topic_names)
@click.argument("values", nargs=-1, metavar="[VALUE]...")
@click.option("-k", "--key", help="The key of every record.")
@click.option("-K", "--key-separator", metavar="TEXT", help="Lines are KEY SEPARATOR VALUE.")
@click.option(
    "-H",
    "--header",
    "headers",
    multiple=True,
    metavar="NAME=VALUE",
    callback=_headers,
    help="A header; repeatable.",
)
@click.option(
    "-p",
    "--partition",
    type=click.IntRange(0),
    metavar="N",
    help="The partition.  [default: by key, or round robin]",
)
@batch_options
@click.option(
    "-f",
    "--format",
    "input_format",
    type=click.Choice(["lines", "json", "csv", "avro"]),
    default="lines",
    show_default=True,
    help="json: the format of `ottla consume --format json`. csv: rows under a first row of names. "
    "avro: an Avro object container file. A row becomes a JSON object, or what the schema says.",
)
@click.option("--key-field", metavar="NAME", help="The field of a csv or avro row that is the key.")
@click.option("--keep-partitions", is_flag=True, help="Use the partitions in the JSON.")
@click.option("-Z", "--empty-null", is_flag=True, help="Empty keys and values become null (a tombstone).")
@schema_options(writes=True)
@bootstrap_option
def produce(
    topic: str,
    values: tuple[str, ...],
    key: str | None,
    key_separator: str | None,
    headers: tuple[tuple[str, bytes | None], ...],
    partition: int | None,
    acks: str,
    compression: str,
    input_format: str,
    key_field: str | None,
    keep_partitions: bool,
    empty_null: bool,
    bootstrap: str,
) -> None:
    """Write records to TOPIC: the VALUEs, or else one per line of standard input.

    \b
    ottla produce greetings hello "good morning"
    ottla produce users --key-separator : < users.txt
    ottla consume a -o start -e -f json | ottla produce b -f json
    ottla produce orders '{"id": 7}' --value-schema order.avsc
    ottla produce users -f csv --key-field id --value-schema u.avsc < u.csv
    """
    if key is not None and key_separator is not None:
        raise click.UsageError("--key and --key-separator exclude each other")
    if key_separator is not None and (not key_separator or input_format != "lines"):
        raise click.UsageError(
            f"--key-separator must not be empty, and needs lines rather than {input_format}"
        )
    if key_field is not None and (key is not None or input_format not in TABLES):
        raise click.UsageError("--key-field needs --format csv or avro, and excludes --key")
    if values and input_format in TABLES:
        raise click.UsageError(f"--format {input_format} reads standard input: remove {values[0]!r}")
    if keep_partitions and (partition is not None or input_format != "json"):
        raise click.UsageError("--keep-partitions needs --format json, and excludes --partition")
    settings = schema_settings()
    encoder = Encoder(topic, settings) if settings.fields else None
    reader = LineReader(
        key,
        key_separator,
        headers,
        partition,
        empty_null,
        input_format == "json",
        keep_partitions,
        encoder,
        key_field,
        input_format in TABLES,
    )
    options = session.settings_for(ProducerOptions, acks=acks, compression_type=compression)
    first = click.get_current_context().meta.get("ottla.first_value")
    values = values if first is None else (first, *values)
    if input_format in TABLES:
        lines = _table(input_format, topic, settings)
    else:
        lines = _given(values) if values else read_lines()
    if not values and is_terminal(sys.stdin):
        echo_err(f"One record per line for {topic}; Ctrl-D ends.")
    session.run(bootstrap, lambda cluster: _produce(cluster, topic, lines, reader, options), topic=topic)


def _table(input_format: str, topic: str, settings: SchemaSettings) -> AsyncIterator[list[bytes]]:
    """Return the rows of standard input, as JSON."""
    file = sys.stdin.buffer
    if input_format == "avro":
        return in_portions(avro_rows(file))
    return in_portions(csv_rows(file, value_kinds(topic, settings)))


async def _given(values: Iterable[str]) -> AsyncIterator[list[bytes]]:
    yield [value.encode("utf-8", "surrogateescape") for value in values]


async def _produce(
    cluster: Cluster,
    topic: str,
    lines: AsyncIterator[list[bytes]],
    reader: LineReader,
    options: ProducerOptions,
) -> None:
    await _ensure_topic(cluster, topic)
    producer = AsyncProducer.on(cluster, options)
    waiting: asyncio.Task[None] | None = None
    stopping = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGINT, stopping.set)
    try:
        with progress(f"to {topic}", _input_bytes(), quiet=is_terminal(sys.stdin)) as shown:
            async with producer:
                waiting = asyncio.ensure_future(_print_retry_reason(producer.stats()))
                sent = await _send_all(producer, topic, _until(stopping, lines), reader, shown)
                # Records that were read are delivered; a second Ctrl-C ends at once.
                asyncio.get_running_loop().remove_signal_handler(signal.SIGINT)
    finally:
        if waiting is not None:
            waiting.cancel()
        echo_err(f"Wrote {count(producer.stats().records, 'record')} to {topic}")
    if stopping.is_set() and is_terminal(sys.stdin):
        raise Interrupted("what was typed before is written; Ctrl-D ends without this message")
    if stopping.is_set():
        raise Interrupted(f"to resume:  tail -n +{sent + 1} FILE | ottla produce {topic}{same_cluster()}")


async def _print_retry_reason(stats: SenderStats) -> None:
    """While nothing is delivered, print the reason now and then: retries last until delivery.timeout.ms."""
    while True:
        delivered, error = stats.records, stats.last_error
        await asyncio.sleep(REASON_INTERVAL_S)
        if stats.records == delivered and stats.last_error is not error:
            clear_bar = "\n" if is_terminal(sys.stderr) else ""
            echo_err(f"{clear_bar}retrying: {stats.last_error}")


async def _until(stopping: asyncio.Event, lines: AsyncIterator[list[bytes]]) -> AsyncIterator[list[bytes]]:
    """Yield lines until the stop event is set, even while there is no input."""
    stop = asyncio.ensure_future(stopping.wait())
    try:
        while not stopping.is_set():
            more: asyncio.Future[list[bytes] | None] = asyncio.ensure_future(anext(lines, None))
            either: list[asyncio.Future[Any]] = [more, stop]
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
            if not more.done():
                more.cancel()
            elif (some := more.result()) is not None:
                yield some
            else:
                return
    finally:
        stop.cancel()


def _input_bytes() -> int | None:
    """Return the size of standard input, if it is a file."""
    try:
        found = os.fstat(sys.stdin.fileno())
    except (OSError, ValueError):
        return None
    return found.st_size if stat.S_ISREG(found.st_mode) and found.st_size else None


async def _ensure_topic(cluster: Cluster, topic: str) -> None:
    """Let the broker auto-create the topic if it does that, and say so: the name may be a typo."""
    try:
        info = await cluster.topic(topic)
    except UnknownTopicOrPartition:
        info = await cluster.topic(topic, create=True)
        echo_err(
            f"{topic} is a new topic: the broker created it with {count(len(info.partitions), 'partition')}"
        )
    if (
        len(cluster.brokers) == 1
    ):  # an unreachable advertised address fails now, not after the delivery timeout
        await cluster.broker(next(iter(cluster.brokers)))


async def _send_all(
    producer: AsyncProducer,
    topic: str,
    lines: AsyncIterator[list[bytes]],
    reader: LineReader,
    shown: Update,
) -> int:
    """Send the record of each line and return the number of lines."""
    number = read_bytes = 0
    try:
        async for some in lines:
            bulk = reader.in_bulk(some)
            if bulk is not None:
                values, keys = bulk
                await producer.send_values(
                    topic, values, keys=keys, partition=reader.partition, headers=reader.headers
                )
                number += len(some)
                read_bytes += sum(map(len, some)) + len(some)
                shown(read_bytes, producer.stats().records)
                continue
            for line in some:
                number += 1
                read_bytes += len(line) + 1
                if reader.is_json and not line.strip():
                    continue
                key, value, headers, timestamp, partition = reader.record(line)
                await producer.send(
                    topic, value, key=key, headers=headers, timestamp_ms=timestamp, partition=partition
                )
            shown(read_bytes, producer.stats().records)
    except ValueError as error:
        await producer.flush()
        where = "" if isinstance(error, RowError) else f"line {number}: "
        raise Problem(f"{where}{error}", "the lines before it were sent", kind=BAD_RECORD) from None
    except OSError as error:
        await producer.flush()
        raise Problem(f"cannot read standard input: {error.strerror}") from None
    return number
