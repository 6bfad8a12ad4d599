"""Reset the offsets of a group: `ottla group seek --to-earliest` and related options."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

import click

from ottla.cli.group.view import NOTHING
from ottla.cli.support.offset_range import FROM_END, FROM_START, Start, parse_time_ms, positions
from ottla.cli.support.output import print_table
from ottla.cli.support.problems import Problem
from ottla.client.cluster import Cluster
from ottla.client.offsets import offset_ranges
from ottla.common.ids import TopicPartition

Command = TypeVar("Command", bound=Callable[..., Any])
MAX_OFFSET = 2**63 - 1


class Move(NamedTuple):
    """One partition's offset before (None: not committed) and after."""

    partition: TopicPartition
    before: int | None
    after: int


class Target(NamedTuple):
    """The target: a position in each partition, or a shift from the committed offset."""

    start: Start | None = None
    by: int | None = None


def target_options(command: Command) -> Command:
    """Add the options that name the target; `target_of` reads them."""
    for option in (
        click.option("--by", type=int, metavar="N", help="Shift by N records; negative to rewind."),
        click.option(
            "--to-datetime", metavar="TIME", help="The first record at or after an ISO 8601 time (UTC)."
        ),
        click.option(
            "--to-offset",
            type=click.IntRange(0),
            metavar="N",
            help="An offset, of one partition.",
        ),
        click.option("--to-latest", is_flag=True, help="The end: skip all existing records."),
        click.option("--to-earliest", is_flag=True, help="The first record."),
    ):
        command = option(command)
    return command


def target_of(
    to_earliest: bool, to_latest: bool, to_offset: int | None, to_datetime: str | None, by: int | None
) -> Target:
    """Return the target; raise UsageError unless exactly one was given."""
    targets = []
    if to_earliest:
        targets.append(Target(FROM_START))
    if to_latest:
        targets.append(Target(FROM_END))
    if to_offset is not None and to_offset > MAX_OFFSET:
        raise click.UsageError(f"--to-offset: {to_offset} is larger than any offset")
    if to_offset is not None:
        targets.append(Target(Start(at_offset=to_offset)))
    if to_datetime is not None:
        try:
            targets.append(Target(Start(at_time_ms=parse_time_ms(to_datetime))))
        except ValueError as error:
            raise click.UsageError(str(error)) from None
    if by is not None:
        targets.append(Target(by=by))
    if len(targets) != 1:
        raise click.UsageError(
            "name exactly one target: --to-earliest, --to-latest, --to-offset, --to-datetime or --by"
        )
    return targets[0]


async def plan(
    cluster: Cluster,
    group_id: str,
    target: Target,
    partitions: Sequence[TopicPartition],
    committed: Mapping[TopicPartition, int],
) -> list[Move]:
    """Return the new offset of each partition."""
    ranges = await offset_ranges(cluster, partitions)
    if target.start is None:
        after = {
            each: _moved(group_id, each, committed.get(each), target.by or 0, ranges[each])
            for each in partitions
        }
    else:
        _check_offset(group_id, target.start, ranges)
        after = await positions(cluster, target.start, ranges)
    return [Move(each, committed.get(each), after[each]) for each in partitions]


def _moved(
    group_id: str, partition: TopicPartition, before: int | None, by: int, span: tuple[int, int]
) -> int:
    """Return the offset shifted by `by` records, within the partition."""
    if before is None:
        raise Problem(
            f"{group_id} has no committed offset in {partition} to shift",
            "name a target: --to-earliest, --to-latest, --to-offset or --to-datetime",
        )
    start, end = span
    return min(max(before + by, start), end)


def _check_offset(group_id: str, start: Start, ranges: Mapping[TopicPartition, tuple[int, int]]) -> None:
    """Raise Problem for an offset that is not in its partition, or that is for several partitions."""
    if start.at_offset is None or start is FROM_START:
        return
    if len(ranges) > 1:
        topic = next(iter(ranges)).topic
        raise Problem(
            f"an offset belongs to one partition, but these are {len(ranges)}",
            f"name one:  ottla group seek {group_id} --topic {topic}:0 --to-offset {start.at_offset}",
        )
    for partition, (first, end) in ranges.items():
        if not first <= start.at_offset <= end:
            raise Problem(
                f"{partition} has no offset {start.at_offset}: its range is {first} to {end}",
                "use either end: --to-earliest, --to-latest",
            )


def print_moves(moves: Sequence[Move]) -> None:
    """Print one line per partition."""
    rows = [
        [
            each.partition.topic,
            str(each.partition.partition),
            NOTHING if each.before is None else str(each.before),
            str(each.after),
            NOTHING if each.before is None else f"{each.after - each.before:+d}",
        ]
        for each in moves
    ]
    print_table(["topic", "partition", "from", "to", "by"], rows, right=["partition", "from", "to", "by"])


def move_as_json(move: Move) -> dict[str, object]:
    """Return a move as JSON."""
    topic, partition = move.partition
    return {"topic": topic, "partition": partition, "from": move.before, "to": move.after}
