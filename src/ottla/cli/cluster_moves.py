"""`ottla cluster reassign` and `decommission`: partitions that move to other brokers."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import click

from ottla.cli import session
from ottla.cli.cluster_view import plan_as_json, print_plan
from ottla.cli.move_progress import watch
from ottla.cli.options import bootstrap_option, format_option
from ottla.cli.output import count, print_json, talk
from ottla.cli.partition_names import partitions_named
from ottla.cli.problems import Problem
from ottla.client.cluster import Cluster
from ottla.client.cluster_admin import ClusterAdmin, ClusterInfo, MoveInfo
from ottla.client.moves import MoveWatch, lift_throttle, throttle
from ottla.client.spread import Plan, spread
from ottla.common.ids import TopicPartition
from ottla.common.units import GIB, KIB, MIB

MOVES_PER_REQUEST = 500
_throttle_option = click.option(
    "--throttle",
    "throttle_text",
    metavar="BYTES",
    help="Copy at most this much a second on each broker, such as 50MB.",
)
_yes_option = click.option("-y", "--yes", is_flag=True, help="Do not ask.")
_dry_run_option = click.option("--dry-run", is_flag=True, help="Only show the plan.")
_no_wait_option = click.option("--no-wait", is_flag=True, help="Do not wait until all has moved.")


def _node_ids(ctx: click.Context, param: click.Parameter, text: str | None) -> tuple[int, ...] | None:
    if text is None:
        return None
    parts = [each.strip() for each in text.split(",")]
    if not all(each.isdecimal() for each in parts):
        raise click.BadParameter(f"{text!r} is not a list of broker ids: 1,2,3", ctx, param)
    return tuple(map(int, parts))


@click.command(short_help="Move partitions to other brokers, evenly.")
@click.argument("partitions", nargs=-1, metavar="[TOPIC[:PARTITION]]...")
@click.option("--all", "everything", is_flag=True, help="All partitions of all topics.")
@click.option("--to", "targets", metavar="1,2,3", callback=_node_ids, help="Spread over these brokers only.")
@click.option(
    "-r", "--replication-factor", type=click.IntRange(1), metavar="N", help="Copies of each partition."
)
@click.option(
    "--plan",
    "plan_file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Move as this file says (Kafka's reassignment JSON).",
)
@click.option("--cancel", is_flag=True, help="Cancel moves that are under way.")
@click.option("--watch", "only_watch", is_flag=True, help="Show the moves that are under way until they end.")
@_throttle_option
@_dry_run_option
@_yes_option
@_no_wait_option
@format_option
@bootstrap_option
def reassign(
    partitions: tuple[str, ...],
    everything: bool,
    targets: tuple[int, ...] | None,
    replication_factor: int | None,
    plan_file: Path | None,
    cancel: bool,
    only_watch: bool,
    throttle_text: str | None,
    dry_run: bool,
    yes: bool,
    no_wait: bool,
    output_format: str,
    bootstrap: str,
) -> None:
    """Move partitions to other brokers, spread evenly over brokers and racks.

    The plan is shown first; as JSON it is one that --plan reads.

    \b
    ottla cluster reassign --all                  after a broker was added
    ottla cluster reassign orders -r 3            three copies of each partition
    ottla cluster reassign orders:0 --to 2,3,4
    ottla cluster reassign --cancel
    """
    rate = _rate(throttle_text)

    async def command(connected: Cluster) -> None:
        info = await ClusterAdmin(connected).describe()
        if only_watch or cancel:
            chosen = set(partitions_named(info, partitions)) if partitions else set(info.moves)
            await _those_under_way(connected, info, chosen, cancel)
            return
        if plan_file is not None:
            plan = _read_plan(plan_file, info)
        else:
            if not (partitions or everything):
                raise click.UsageError("name topics or partitions, or say --all")
            chosen_now = partitions_named(info, partitions) if partitions else list(info.partitions)
            plan = _spread(info, chosen_now, targets, replication_factor)
        changes = _show(info, plan, output_format)
        await _carry_out(connected, info, changes, rate, dry_run=dry_run, yes=yes, wait=not no_wait)

    session.run(bootstrap, command)


@click.command(short_help="Move everything off a broker, then forget it.")
@click.argument("broker", type=click.IntRange(0))
@_throttle_option
@_dry_run_option
@_yes_option
@format_option
@bootstrap_option
def decommission(
    broker: int, throttle_text: str | None, dry_run: bool, yes: bool, output_format: str, bootstrap: str
) -> None:
    """Take BROKER out of the cluster: move what it holds to the others, then forget it.

    A broker that is alive is forgotten only when it has been stopped: run the command again then.
    """
    rate = _rate(throttle_text)

    async def command(connected: Cluster) -> None:
        admin = ClusterAdmin(connected)
        info = await admin.describe()
        if broker not in info.brokers:
            known = ", ".join(map(str, info.brokers))
            raise Problem(f"there is no broker {broker}", f"the brokers are {known}")
        held = [at for at in info.partitions if broker in info.target(at)]
        if held:
            others = tuple(each for each in info.alive if each != broker)
            plan = _spread(info, held, others, None, even=False)
            changes = _show(info, plan, output_format)
            await _carry_out(connected, info, changes, rate, dry_run=dry_run, yes=yes, wait=True)
        if dry_run:
            return
        info = await admin.describe()
        held = [at for at in info.partitions if broker in info.target(at)]
        if held:  # made since then
            again = f"ottla cluster decommission {broker}"
            raise Problem(f"broker {broker} holds {count(len(held), 'partition')} again", f"again:  {again}")
        if info.brokers[broker].is_alive:
            talk(
                f"broker {broker} holds nothing any more. Stop it, then:  ottla cluster decommission {broker}"
            )
            return
        await admin.unregister(broker)
        talk(f"broker {broker} is forgotten")

    session.run(bootstrap, command)


def _spread(
    info: ClusterInfo,
    partitions: Sequence[TopicPartition],
    targets: tuple[int, ...] | None,
    replication_factor: int | None,
    *,
    even: bool = True,
) -> Plan:
    chosen = info.alive if targets is None else targets
    for node_id in chosen:
        if node_id not in info.alive:
            raise Problem(f"broker {node_id} is not there", f"alive are {', '.join(map(str, info.alive))}")
    racks = {node_id: info.brokers[node_id].rack for node_id in chosen}
    try:
        return spread(
            {at: info.target(at) for at in partitions},
            racks,
            replication_factor=replication_factor,
            even=even,
        )
    except ValueError as error:
        fewer = f"ottla cluster reassign {partitions[0].topic} --replication-factor {len(chosen)}"
        raise Problem(str(error), f"start another broker, or keep fewer copies:  {fewer}") from None


def _read_plan(path: Path, info: ClusterInfo) -> Plan:
    try:
        listed = json.loads(path.read_text())["partitions"]
        plan = {
            TopicPartition(str(each["topic"]), int(each["partition"])): tuple(map(int, each["replicas"]))
            for each in listed
        }
    except (ValueError, KeyError, TypeError) as error:
        shape = '{"partitions": [{"topic": "orders", "partition": 0, "replicas": [1, 2, 3]}]}'
        raise Problem(f"{path} is not a plan: {error!r}", f"it looks like this: {shape}") from None
    unknown = [at for at in plan if at not in info.partitions]
    if unknown:
        raise Problem(f"{path} names {unknown[0]}, which does not exist")
    return plan


def _show(info: ClusterInfo, plan: Plan, output_format: str) -> Plan:
    """Print what of the plan is still to be done, and return it."""
    changes = {at: target for at, target in plan.items() if target != info.target(at)}
    if output_format == "json":
        print_json(plan_as_json(changes))
    elif changes:
        print_plan((at, info.target(at), target) for at, target in changes.items())
    return changes


async def _carry_out(
    connected: Cluster,
    info: ClusterInfo,
    changes: Plan,
    rate: int | None,
    *,
    dry_run: bool,
    yes: bool,
    wait: bool,
) -> None:
    """Ask, begin to move, and wait for the end."""
    if not changes:
        talk("every partition is where it should be")
        return
    if dry_run:
        return
    if not yes:
        click.confirm(f"Move {count(len(changes), 'partition')}?", abort=True, err=True)
    topics = sorted({at.topic for at in changes})
    if rate is not None:
        await throttle(connected, topics, info.alive, rate)
    try:
        await _begin(connected, changes)
        if wait:
            await watch(MoveWatch(connected, _moves(info, changes)))
        else:
            talk("the moves have begun; see them with:  ottla cluster reassign --watch")
    except Problem:
        await lift_throttle(connected, topics)
        raise
    if not wait and rate is not None:
        talk("they are throttled until that command has seen their end, or they are cancelled")
    elif wait:
        await lift_throttle(connected, topics if rate is not None else ())


def _moves(info: ClusterInfo, changes: Plan) -> dict[TopicPartition, MoveInfo]:
    """Return the moves that were asked for; small ones have ended before one can look."""
    found, partitions = {}, info.partitions
    for at, target in changes.items():
        before = info.moves[at].before if at in info.moves else {*partitions[at].replicas}
        removing = tuple(sorted(before - {*target}))
        adding = tuple(node for node in target if node not in before)
        found[at] = MoveInfo((*target, *removing), adding, removing)
    return found


async def _begin(connected: Cluster, changes: Mapping[TopicPartition, Sequence[int] | None]) -> None:
    failed: list[str] = []
    items = list(changes.items())
    for first in range(0, len(items), MOVES_PER_REQUEST):
        outcomes = await ClusterAdmin(connected).reassign(dict(items[first : first + MOVES_PER_REQUEST]))
        failed += [f"{at}: {error}" for at, error in outcomes.items() if error is not None]
    if failed:
        raise Problem(f"{count(len(failed), 'partition')} cannot be moved", *failed[:20])


async def _those_under_way(
    connected: Cluster, info: ClusterInfo, chosen: set[TopicPartition], cancel: bool
) -> None:
    moves = {at: move for at, move in info.moves.items() if at in chosen}
    if not moves:
        talk("nothing is being moved")
    elif cancel:
        await _begin(connected, dict.fromkeys(moves))
        talk(f"{count(len(moves), 'move')} cancelled")
    else:
        await watch(MoveWatch(connected, moves))
    await lift_throttle(connected)


def _rate(text: str | None) -> int | None:
    """Return bytes per second: `50MB`, `800kB`, `1000000`."""
    if text is None:
        return None
    found = re.fullmatch(r"(\d+)\s*([kmg]?)i?b?", text.strip(), re.IGNORECASE)
    if found is None:
        raise click.BadParameter(f"{text!r} is not a size: 50MB", param_hint="--throttle")
    return int(found[1]) * {"": 1, "k": KIB, "m": MIB, "g": GIB}[found[2].lower()]
