"""`ottla pipeline dlq`: the newest dead letters of a pipeline, with their reasons and origins."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from ottla.cli.pipeline.options import guarded, root_option
from ottla.cli.pipeline.status import find_state, remote_state
from ottla.cli.support import session
from ottla.cli.support.options import bootstrap_option, format_option
from ottla.cli.support.output import count, echo_err, print_json, print_table
from ottla.cli.support.problems import Problem
from ottla.client.cluster import Cluster
from ottla.client.consumer import AsyncConsumer, ConsumerOptions, ConsumerRecord
from ottla.client.offsets import EARLIEST, LATEST, list_offsets
from ottla.common.ids import TopicPartition
from ottla.spark.pipelines.records import REASON, SOURCE_OFFSET, SOURCE_PARTITION, SOURCE_TOPIC

POLL_MS = 1_000
SHOWN_LENGTH = 200
READ_COMMITTED = 1


@click.command("dlq")
@click.argument("name")
@click.option(
    "--topic", "topics", multiple=True, help="A dead-letter topic.  [default: those of the pipeline]"
)
@click.option(
    "--limit",
    type=click.IntRange(1),
    default=20,
    show_default=True,
    metavar="N",
    help="Show the newest N.",
)
@format_option
@root_option
@bootstrap_option
@guarded
def dlq_command(
    name: str, topics: tuple[str, ...], limit: int, output_format: str, root: Path, bootstrap: str
) -> None:
    """Show the newest dead letters of a pipeline: reason, origin and value, the oldest of them first.

    \b
    ottla pipeline dlq shop
    ottla pipeline dlq shop --topic dead-orders --limit 100 --format json
    """
    wanted = list(topics)
    if not wanted:
        state = remote_state(name) if name.startswith(("http://", "https://")) else find_state(name, root)
        wanted = state.dead_letters
    if not wanted:
        raise Problem(f"{name} writes no dead letters", "see: dp.dead_letters, or name a topic with --topic")

    async def work(cluster: Cluster) -> list[DeadLetter]:
        return await newest_letters(cluster, wanted, limit)

    found = session.run(bootstrap, work)
    if output_format == "json":
        print_json([each.as_json() for each in found])
        return
    if found:
        columns = ["time", "origin", "reason", "key", "value"]
        print_table(columns, [each.cells() for each in found])
    echo_err(f"{count(len(found), 'dead letter')} of {', '.join(wanted)}")


@dataclass(frozen=True)
class DeadLetter:
    """A record that a flow could not process."""

    record: ConsumerRecord

    @property
    def headers(self) -> dict[str, str]:
        """The headers as text."""
        return {key: _text(value) for key, value in self.record.headers}

    @property
    def reason(self) -> str:
        """Why it could not be processed; empty if the record does not say."""
        return self.headers.get(REASON, "")

    @property
    def origin(self) -> str:
        """The record that it was: topic-partition@offset."""
        found = self.headers
        if SOURCE_TOPIC not in found:
            return ""
        return f"{found[SOURCE_TOPIC]}-{found.get(SOURCE_PARTITION, '?')}@{found.get(SOURCE_OFFSET, '?')}"

    def cells(self) -> list[str]:
        """Return one row of the table."""
        at = datetime.fromtimestamp(self.record.timestamp / 1000, UTC)
        shown = [self.reason, _text(self.record.key), _text(self.record.value)]
        return [at.strftime("%Y-%m-%d %H:%M:%S"), self.origin, *(each[:SHOWN_LENGTH] for each in shown)]

    def as_json(self) -> dict[str, Any]:
        """Return all of it."""
        record = self.record
        return {
            "topic": record.topic,
            "partition": record.partition,
            "offset": record.offset,
            "timestamp": record.timestamp,
            "origin": self.origin,
            "reason": self.reason,
            "key": None if record.key is None else _text(record.key),
            "value": None if record.value is None else _text(record.value),
        }


async def newest_letters(cluster: Cluster, topics: list[str], limit: int) -> list[DeadLetter]:
    """Return the newest committed records of topics, the oldest of them first."""
    places = [
        TopicPartition(topic, index)
        for topic in topics
        for index in sorted((await cluster.topic(topic)).partitions)
    ]
    firsts = await list_offsets(cluster, dict.fromkeys(places, EARLIEST))
    stable = await list_offsets(cluster, dict.fromkeys(places, LATEST), isolation_level=READ_COMMITTED)
    ends = {each: end.offset for each, end in stable.items() if end.offset > firsts[each].offset}
    if not ends:
        return []
    options = session.settings_for(
        ConsumerOptions, auto_offset_reset="earliest", isolation_level="read_committed"
    )
    found: list[ConsumerRecord] = []
    async with AsyncConsumer.on(cluster, options) as consumer:
        consumer.assign(list(ends))
        for each, end in ends.items():
            # Twice as far back: every other offset may be the end of a transaction.
            consumer.seek(each, max(firsts[each].offset, end - 2 * limit))
        while any([await consumer.position(each) < end for each, end in ends.items()]):
            for records in (await consumer.poll(POLL_MS)).values():
                found += records
    found.sort(key=lambda record: record.timestamp)
    return [DeadLetter(each) for each in found[-limit:]]


def _text(value: bytes | str | None) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else value.decode("utf-8", errors="replace")
