"""Reassignment plans: computed, shown, carried out and watched."""

from __future__ import annotations

import asyncio
import re
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence

import click

from ottla.cli.cluster.balance import loads, print_loads
from ottla.cli.cluster.view import SHOWN, plan_as_json, print_plan
from ottla.cli.support.options import confirm, is_terminal
from ottla.cli.support.output import count, echo_err, print_json
from ottla.cli.support.problems import Problem
from ottla.client.admin.cluster_admin import ClusterAdmin, ClusterInfo, MoveInfo
from ottla.client.admin.moves import MoveWatch, Progress, lift_throttle, throttle
from ottla.client.cluster import Cluster
from ottla.common.ids import TopicPartition
from ottla.common.placement import NO_WEIGHTS, Plan, Weights, spread
from ottla.common.units import GIB, KIB, MIB

# Progress of a reassignment: a bar with rate and remaining time, or a line now and then.

LINE_EVERY_S = 10.0


async def watch(moves: MoveWatch) -> None:
    """Show progress until all moves have ended; raise Problem if some were cancelled."""
    try:
        end = await (_watch_bar(moves) if is_terminal(sys.stderr) else _watch_lines(moves))
    except asyncio.CancelledError:
        echo_err("the moves continue in the background; to watch them:  ottla cluster reassign --watch")
        raise
    if end.cancelled:
        raise Problem(
            f"{count(end.cancelled, 'move')} of {end.partitions:,} cancelled",
            "see where the partitions are:  ottla topic describe TOPIC",
        )
    echo_err(f"{count(end.partitions, 'partition')} moved")


async def _watch_bar(moves: MoveWatch) -> Progress:
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Task, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar
    from rich.progress import ProgressColumn as Column
    from rich.text import Text

    class Rate(Column):
        """In the unit of the sizes beside it, unlike rich's own column."""

        def render(self, task: Task) -> Text:
            return Text("" if not task.speed else f"{task.speed / MIB:,.1f} MiB/s")

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(binary_units=True),
        Rate(),
        TimeRemainingColumn(),
    )
    with Bar(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task("moving", total=None)
        reported: tuple[int, ...] = ()
        async for each in moves.progress():
            if each.silent and each.silent != reported:
                reported = each.silent
                bar.console.print(_waiting(each))
            done = each.partitions - each.partitions_left - each.cancelled
            bar.update(
                task,
                description=f"{done} of {count(each.partitions, 'partition')}",
                completed=each.copied_bytes,
                total=max(each.total_bytes, 1) if each.total_bytes or each.partitions_left else None,
            )
    return each


async def _watch_lines(moves: MoveWatch) -> Progress:
    loop = asyncio.get_running_loop()
    began = shown = loop.time()
    first_bytes: int | None = None
    async for each in moves.progress():
        now = loop.time()
        first_bytes = each.copied_bytes if first_bytes is None else first_bytes
        if each.partitions_left and now - shown >= LINE_EVERY_S:
            shown = now
            echo_err(_line(each, (each.copied_bytes - first_bytes) / (now - began)))
    return each


def _line(progress: Progress, bytes_per_second: float) -> str:
    copied, total = progress.copied_bytes / MIB, progress.total_bytes / MIB
    line = f"{count(progress.partitions_left, 'partition')} left, {copied:,.0f} of {total:,.0f} MiB"
    if progress.silent or bytes_per_second <= 0:
        return f"{line}; {_waiting(progress)}" if progress.silent else line
    left_s = (progress.total_bytes - progress.copied_bytes) / bytes_per_second
    return f"{line}, {bytes_per_second / MIB:,.1f} MiB/s, {left_s:,.0f} s left"


def _waiting(progress: Progress) -> str:
    """Return which brokers the moves wait for, and what ends the wait."""
    one = len(progress.silent) == 1
    silent = ", ".join(map(str, progress.silent))
    which = f"broker {silent}, which does not answer" if one else f"brokers {silent}, which do not answer"
    return f"waiting for {which}: start {'it' if one else 'them'}, or: ottla cluster reassign --cancel"


MOVES_PER_REQUEST = 500


def plan_moves(
    info: ClusterInfo,
    partitions: Sequence[TopicPartition],
    targets: tuple[int, ...] | None,
    replication_factor: int | None,
    *,
    even: bool = True,
    weights: Weights = NO_WEIGHTS,
    closed: Collection[int] = (),
) -> Plan:
    """Return the new replicas of these partitions; raise Problem if there are too few brokers.

    Brokers in `closed` are in maintenance: they get nothing. Without `even` only what must move does, to
    where the least is.
    """
    chosen = info.alive if targets is None else list(dict.fromkeys(targets))
    for node_id in chosen:
        if node_id not in info.alive:
            raise Problem(
                f"broker {node_id} is not alive", f"live brokers: {', '.join(map(str, info.alive))}"
            )
    racks = {node_id: info.brokers[node_id].rack for node_id in chosen}
    try:
        return spread(
            {at: info.target(at) for at in partitions},
            racks,
            replication_factor=replication_factor,
            even=even,
            weights=weights,
            closed=() if targets else closed,
            beside=None if even else {at: info.target(at) for at in info.partitions.keys() - {*partitions}},
        )
    except ValueError as error:
        raise Problem(str(error), _hint_for_more_brokers(info, partitions, len(chosen))) from None


def _hint_for_more_brokers(info: ClusterInfo, partitions: Sequence[TopicPartition], brokers: int) -> str:
    if not brokers:
        return "start another broker first: there is no other to move them to"
    topics = {at.topic: None for at in partitions if len(info.target(at)) > brokers}
    if not topics:
        return "start another broker, or use a lower replication factor"
    fewer = f"ottla cluster reassign {' '.join(topics)} --replication-factor {brokers}"
    return f"start another broker, or lower the replication factor:  {fewer}"


def show(info: ClusterInfo, plan: Plan, output_format: str, weights: Weights = NO_WEIGHTS) -> Plan:
    """Print the outstanding part of the plan, with what each broker has before and after; return it."""
    changes = {at: target for at, target in plan.items() if target != info.target(at)}
    if output_format == "json":
        print_json(plan_as_json(changes) | {"brokers": loads(info, changes, weights)})
    elif changes:
        print_plan((at, info.target(at), target) for at, target in changes.items())
        print_loads(loads(info, changes, weights))
    return changes


async def execute(
    connected: Cluster,
    info: ClusterInfo,
    changes: Plan,
    rate: int | None,
    *,
    dry_run: bool,
    yes: bool,
    wait: bool,
    batch: int = 0,
) -> None:
    """Ask for confirmation, start the moves, and wait for their end; `batch` partitions at a time.

    After an interruption the same command continues: what is in place is not moved again.
    """
    if not changes:
        echo_err("every partition is already in place")
        return
    if dry_run:
        return
    if wait:
        check_leaders(info, changes)
    confirm(f"Move {count(len(changes), 'partition')}?", yes)
    topics = sorted({at.topic for at in changes})
    if rate is not None:
        await throttle(connected, topics, info.alive, rate)
    not_begun = len(changes)
    try:
        for part in _batches(changes, batch if wait else 0):
            await begin(connected, part)
            not_begun -= len(part)
            if wait:
                await watch(MoveWatch(connected, _moves(info, part)))
                await ClusterAdmin(connected).elect_leaders(list(part))  # by the new order
        if not wait:
            echo_err("the moves have started; watch them with:  ottla cluster reassign --watch")
    except Problem:
        await lift_throttle(connected, topics)
        raise
    except asyncio.CancelledError:
        if not_begun:
            left = f"{not_begun:,} of {count(len(changes), 'partition')}"
            echo_err(f"{left} did not begin to move; to continue, run this command again")
        raise
    if not wait and rate is not None:
        echo_err("they are throttled until that command has seen them end, or until they are cancelled")
    elif wait:
        await lift_throttle(connected, topics if rate is not None else ())


def _batches(changes: Plan, size: int) -> Iterator[Plan]:
    items = list(changes.items())
    for first in range(0, len(items), size or len(items)):
        yield dict(items[first : first + (size or len(items))])


def check_leaders(info: ClusterInfo, changes: Plan) -> None:
    """Raise Problem if a partition has no leader: it cannot be copied."""
    holders = {at: _holders(info, at) for at in changes if info.partitions[at].leader < 0}
    stuck = [at for at, on in holders.items() if not {*changes[at]} <= on]
    if not stuck:
        return
    first = f"{stuck[0].topic}:{stuck[0].partition}"
    raise Problem(
        f"{count(len(stuck), 'partition')} without a leader: the brokers that have the records are not alive",
        *(f"{at} is on {', '.join(map(str, sorted(holders[at])))}" for at in stuck[:SHOWN]),
        "start those brokers, then run this command again",
        f"or give up the records:  ottla cluster reassign {first} --to {info.alive[0]} -y --no-wait",
        f"and then:  ottla cluster elect --unclean {first}",
    )


def _holders(info: ClusterInfo, at: TopicPartition) -> set[int]:
    """Return the brokers that have a partition's records, as far as they are known to be replicated."""
    return info.moves[at].before if at in info.moves else {*info.partitions[at].replicas}


def _moves(info: ClusterInfo, changes: Plan) -> dict[TopicPartition, MoveInfo]:
    """Return the moves that were requested; small ones may have ended already."""
    found = {}
    for at, target in changes.items():
        before = _holders(info, at)
        removing = tuple(sorted(before - {*target}))
        adding = tuple(node for node in target if node not in before)
        found[at] = MoveInfo((*target, *removing), adding, removing)
    return found


async def begin(connected: Cluster, changes: Mapping[TopicPartition, Sequence[int] | None]) -> None:
    """Start these moves; None cancels one."""
    failed: list[str] = []
    items = list(changes.items())
    for first in range(0, len(items), MOVES_PER_REQUEST):
        outcomes = await ClusterAdmin(connected).reassign(dict(items[first : first + MOVES_PER_REQUEST]))
        failed += [f"{at}: {error}" for at, error in outcomes.items() if error is not None]
    if failed:
        raise Problem(f"{count(len(failed), 'partition')} cannot be moved", *failed[:SHOWN])


def parse_rate(text: str | None) -> int | None:
    """Return bytes per second: `50MB`, `800kB`, `1000000`."""
    if text is None:
        return None
    found = re.fullmatch(r"(\d+)\s*([kmg]?)i?b?", text.strip(), re.IGNORECASE)
    if found is None:
        raise click.BadParameter(f"{text!r} is not a size; write e.g. 50MB", param_hint="--throttle")
    return int(found[1]) * {"": 1, "k": KIB, "m": MIB, "g": GIB}[found[2].lower()]
