"""Send what is read until the input ends, or Ctrl-C."""

from __future__ import annotations

import asyncio
import os
import signal
import stat
import sys
from collections.abc import AsyncIterator
from typing import Any

from ottla.cli.produce.line_reader import LineReader
from ottla.cli.support.options import is_terminal, same_cluster
from ottla.cli.support.output import count, echo_err
from ottla.cli.support.problem_kinds import BAD_RECORD
from ottla.cli.support.problems import Interrupted, Problem
from ottla.cli.support.progress import Update, progress
from ottla.cli.support.table_input import RowError
from ottla.client.cluster import Cluster
from ottla.client.producer import AsyncProducer, ProducerOptions
from ottla.client.producer.sender import SenderStats
from ottla.protocol.errors import UnknownTopicOrPartition

REASON_INTERVAL_S = 5.0


async def send_lines(
    cluster: Cluster,
    topic: str,
    lines: AsyncIterator[list[bytes]],
    reader: LineReader,
    options: ProducerOptions,
) -> None:
    """Send the record of each line; print how many were written."""
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
