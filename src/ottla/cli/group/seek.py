"""Where to move a group: `ottla group seek --to-earliest` and its sisters."""

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
LARGEST_OFFSET = 2**63 - 1


class Move(NamedTuple):
    """One partition's offset before (None: nothing was committed) and after."""

    partition: TopicPartition
    before: int | None
    after: int


class Target(NamedTuple):
    """Where to: a place in each partition, or so many records from where the group is."""

    start: Start | None = None
    by: int | None = None


def target_options(command: Command) -> Command:
    """Add the options that say where to; `target_of` reads them."""
    for option in (
        click.option("--by", type=int, metavar="N", help="N records on; back with a negative number."),
        click.option(
            "--to-datetime", metavar="TIME", help="To the first record at or after an ISO 8601 time (UTC)."
        ),
        click.option(
            "--to-offset",
            type=click.IntRange(0),
            metavar="N",
            help="To one offset, of one partition.",
        ),
        click.option("--to-latest", is_flag=True, help="To the end: skip all that is there."),
        click.option("--to-earliest", is_flag=True, help="To the first record that is there."),
    ):
        command = option(command)
    return command


def target_of(
    to_earliest: bool, to_latest: bool, to_offset: int | None, to_datetime: str | None, by: int | None
) -> Target:
    """Return the one target that was given; UsageError if it is none, or several."""
    targets = []
    if to_earliest:
        targets.append(Target(FROM_START))
    if to_latest:
        targets.append(Target(FROM_END))
    if to_offset is not None and to_offset > LARGEST_OFFSET:
        raise click.UsageError(f"--to-offset: {to_offset} is more than an offset can be")
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
            "say where to, once: --to-earliest, --to-latest, --to-offset, --to-datetime or --by"
        )
    return targets[0]


async def plan(
    cluster: Cluster,
    group_id: str,
    target: Target,
    partitions: Sequence[TopicPartition],
    committed: Mapping[TopicPartition, int],
) -> list[Move]:
    """Return where each partition would go."""
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
    """Return the offset `by` records on, kept within what there is."""
    if before is None:
        raise Problem(
            f"{group_id} has committed nothing in {partition}, so there is nowhere to move on from",
            "say where to: --to-earliest, --to-latest, --to-offset or --to-datetime",
        )
    start, end = span
    return min(max(before + by, start), end)


def _check_offset(group_id: str, start: Start, ranges: Mapping[TopicPartition, tuple[int, int]]) -> None:
    """Refuse an offset that is not in its partition, or that is for several of them."""
    if start.at_offset is None or start is FROM_START:
        return
    if len(ranges) > 1:
        topic = next(iter(ranges)).topic
        raise Problem(
            f"an offset belongs to one partition, and these are {len(ranges)}",
            f"say which one:  ottla group seek {group_id} --topic {topic}:0 --to-offset {start.at_offset}",
        )
    for partition, (first, end) in ranges.items():
        if not first <= start.at_offset <= end:
            raise Problem(
                f"{partition} has no offset {start.at_offset}: it goes from {first} to {end}",
                "move to either end: --to-earliest, --to-latest",
            )


def print_moves(moves: Sequence[Move]) -> None:
    """Print one line for each partition that moves."""
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
    """Return a move for programs."""
    topic, partition = move.partition
    return {"topic": topic, "partition": partition, "from": move.before, "to": move.after}
