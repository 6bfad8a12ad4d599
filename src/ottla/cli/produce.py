"""`ottla produce`: records from arguments, lines or JSON into a topic."""

from __future__ import annotations

import sys
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import click

from ottla.cli import session
from ottla.cli.lines import read_lines
from ottla.cli.options import bootstrap_option, is_terminal
from ottla.cli.output import count, talk
from ottla.cli.problems import Problem
from ottla.cli.records import NewRecord, from_json
from ottla.client.cluster import Cluster
from ottla.client.producer import AsyncProducer, ProducerOptions
from ottla.protocol.errors import UnknownTopicOrPartition

ACKS = ("all", "-1", "0", "1")
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
PROGRESS_INTERVAL_S = 0.1


@dataclass(frozen=True, slots=True)
class LineReader:
    """Turns a line of input into a record."""

    key: str | None
    key_separator: str | None
    headers: tuple[tuple[str, bytes | None], ...]
    partition: int | None
    empty_is_null: bool
    is_json: bool
    keeps_partitions: bool

    def record(self, line: bytes) -> NewRecord:
        """Return the record; ValueError says what is wrong with the line."""
        if self.is_json:
            return self._completed(from_json(line))
        key_bytes = self.key.encode() if self.key is not None else None
        value: bytes | None = line
        if self.key_separator is not None:
            key_bytes, found, value = line.partition(self.key_separator.encode())
            if not found:
                raise ValueError(f"there is no {self.key_separator!r} to separate a key from the value")
        if self.empty_is_null:
            key_bytes, value = key_bytes or None, value or None
        return NewRecord(key_bytes, value, self.headers, None, self.partition)

    def _completed(self, record: NewRecord) -> NewRecord:
        """Return a record from JSON with what the options say on top of it."""
        return record._replace(
            key=self.key.encode() if self.key is not None else record.key,
            headers=record.headers + self.headers,
            partition=record.partition if self.keeps_partitions else self.partition,
        )


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
@click.argument("topic")
@click.argument("values", nargs=-1, metavar="[VALUE]...")
@click.option("-k", "--key", help="The key of every record.")
@click.option("-K", "--key-separator", metavar="TEXT", help="Lines are KEY, this, VALUE.")
@click.option(
    "-H", "--header", "headers", multiple=True, metavar="NAME=VALUE", callback=_headers, help="Repeatable."
)
@click.option(
    "-p", "--partition", type=click.IntRange(0), metavar="N", help="Else by key, or one after the other."
)
@click.option(
    "--acks",
    type=click.Choice(ACKS),
    default="all",
    show_default=True,
    help="Which replicas must have it.",
)
@click.option(
    "-z",
    "--compression",
    type=click.Choice(CODECS),
    default="none",
    show_default=True,
    help="Of batches.",
)
@click.option(
    "-f",
    "--format",
    "input_format",
    type=click.Choice(["lines", "json"]),
    default="lines",
    show_default=True,
    help="json: what `ottla consume --format json` writes.",
)
@click.option("--keep-partitions", is_flag=True, help="Into the partitions that the JSON names.")
@click.option("-Z", "--empty-null", is_flag=True, help="Empty keys and values are null (a tombstone).")
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
    keep_partitions: bool,
    empty_null: bool,
    bootstrap: str,
) -> None:
    """Write records to TOPIC: the VALUEs, or else one per line of standard input.

    \b
    ottla produce greetings hello "good morning"
    ottla produce users --key-separator : < users.txt
    ottla consume a -o start -e -f json | ottla produce b -f json
    """
    if key is not None and key_separator is not None:
        raise click.UsageError("--key and --key-separator exclude each other")
    if key_separator is not None and (not key_separator or input_format == "json"):
        raise click.UsageError("--key-separator needs a text, and lines rather than json")
    if keep_partitions and (partition is not None or input_format != "json"):
        raise click.UsageError("--keep-partitions needs --format json, and no --partition")
    reader = LineReader(
        key, key_separator, headers, partition, empty_null, input_format == "json", keep_partitions
    )
    options = ProducerOptions(acks=acks, compression_type=compression)
    lines = _given(values) if values else read_lines()
    if not values and is_terminal(sys.stdin):
        talk(f"One record per line for {topic}; Ctrl-D ends.")
    session.run(bootstrap, lambda cluster: _produce(cluster, topic, lines, reader, options), topic=topic)


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
    try:
        with _progress(topic, producer) as update:
            async with producer:
                await _send_all(producer, topic, lines, reader, update)
    finally:
        talk(f"{count(producer.stats().records, 'record')} to {topic}")


async def _ensure_topic(cluster: Cluster, topic: str) -> None:
    """Let the broker create the topic if it does that, and say so: it may be a slip of the finger."""
    try:
        await cluster.topic(topic)
    except UnknownTopicOrPartition:
        info = await cluster.topic(topic, create=True)
        talk(f"{topic} is a new topic: the broker created it with {count(len(info.partitions), 'partition')}")


async def _send_all(
    producer: AsyncProducer,
    topic: str,
    lines: AsyncIterator[list[bytes]],
    reader: LineReader,
    update: Callable[[], None],
) -> None:
    number = 0
    try:
        async for some in lines:
            for line in some:
                number += 1
                if reader.is_json and not line.strip():
                    continue
                key, value, headers, timestamp, partition = reader.record(line)
                await producer.send(
                    topic, value, key=key, headers=headers, timestamp_ms=timestamp, partition=partition
                )
            update()
    except ValueError as error:
        await producer.flush()
        raise Problem(f"line {number}: {error}", "the lines before it have been sent") from None
    except OSError as error:
        await producer.flush()
        raise Problem(f"cannot read standard input: {error.strerror}") from None


@contextmanager
def _progress(topic: str, producer: AsyncProducer) -> Iterator[Callable[[], None]]:
    """Show how far it is, if a person watches and is not the one who types the records."""
    if not is_terminal(sys.stderr) or is_terminal(sys.stdin):
        yield lambda: None
        return
    from rich.console import Console

    with Console(stderr=True).status(f"to {topic} ...") as status:
        shown_at = 0.0

        def update() -> None:
            nonlocal shown_at
            if (now := time.monotonic()) - shown_at > PROGRESS_INTERVAL_S:
                shown_at = now
                status.update(f"{count(producer.stats().records, 'record')} to {topic} ...")

        yield update
