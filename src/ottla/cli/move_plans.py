"""Plans of moves, from what was typed to brokers that carry them out."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import click

from ottla.cli.cluster_view import SHOWN, plan_as_json, print_plan
from ottla.cli.move_progress import watch
from ottla.cli.options import confirm
from ottla.cli.output import count, print_json, talk
from ottla.cli.problems import Problem
from ottla.client.admin.cluster_admin import ClusterAdmin, ClusterInfo, MoveInfo
from ottla.client.admin.moves import MoveWatch, lift_throttle, throttle
from ottla.client.admin.reassignment_planner import Plan, spread
from ottla.client.cluster import Cluster
from ottla.common.ids import TopicPartition
from ottla.common.units import GIB, KIB, MIB

MOVES_PER_REQUEST = 500


def spread_over(
    info: ClusterInfo,
    partitions: Sequence[TopicPartition],
    targets: tuple[int, ...] | None,
    replication_factor: int | None,
    *,
    even: bool = True,
) -> Plan:
    """Return where these partitions go; raise Problem if there are not brokers enough."""
    chosen = info.alive if targets is None else list(dict.fromkeys(targets))
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
        raise Problem(str(error), _how_to_fit(info, partitions, len(chosen))) from None


def _how_to_fit(info: ClusterInfo, partitions: Sequence[TopicPartition], brokers: int) -> str:
    if not brokers:
        return "start another broker first: there is none to move them to"
    topics = {at.topic: None for at in partitions if len(info.target(at)) > brokers}
    if not topics:
        return "start another broker, or ask for fewer copies"
    fewer = f"ottla cluster reassign {' '.join(topics)} --replication-factor {brokers}"
    return f"start another broker, or keep fewer copies:  {fewer}"


def show(info: ClusterInfo, plan: Plan, output_format: str) -> Plan:
    """Print what of the plan is still to be done, and return it."""
    changes = {at: target for at, target in plan.items() if target != info.target(at)}
    if output_format == "json":
        print_json(plan_as_json(changes))
    elif changes:
        print_plan((at, info.target(at), target) for at, target in changes.items())
    return changes


async def carry_out(
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
    if wait:
        check_leaders(info, changes)
    confirm(f"Move {count(len(changes), 'partition')}?", yes)
    topics = sorted({at.topic for at in changes})
    if rate is not None:
        await throttle(connected, topics, info.alive, rate)
    try:
        await begin(connected, changes)
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


def check_leaders(info: ClusterInfo, changes: Plan) -> None:
    """Raise Problem if something cannot move: what nobody leads cannot be copied, however long one waits."""
    holders = {at: _holders(info, at) for at in changes if info.partitions[at].leader < 0}
    stuck = [at for at, on in holders.items() if not {*changes[at]} <= on]
    if not stuck:
        return
    first = f"{stuck[0].topic}:{stuck[0].partition}"
    raise Problem(
        f"{count(len(stuck), 'partition')} without a leader: those who have the records are not there",
        *(f"{at} is on {', '.join(map(str, sorted(holders[at])))}" for at in stuck[:SHOWN]),
        "start those brokers; when they are back, this can go on",
        f"or give the records up:  ottla cluster reassign {first} --to {info.alive[0]} -y --no-wait",
        f"and then:  ottla cluster elect --unclean {first}",
    )


def _holders(info: ClusterInfo, at: TopicPartition) -> set[int]:
    """Return who has a partition's records, as far as they are known to be copied."""
    return info.moves[at].before if at in info.moves else {*info.partitions[at].replicas}


def _moves(info: ClusterInfo, changes: Plan) -> dict[TopicPartition, MoveInfo]:
    """Return the moves that were asked for; small ones have ended before one can look."""
    found = {}
    for at, target in changes.items():
        before = _holders(info, at)
        removing = tuple(sorted(before - {*target}))
        adding = tuple(node for node in target if node not in before)
        found[at] = MoveInfo((*target, *removing), adding, removing)
    return found


async def begin(connected: Cluster, changes: Mapping[TopicPartition, Sequence[int] | None]) -> None:
    """Begin these moves; None cancels one."""
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
        raise click.BadParameter(f"{text!r} is not a size: 50MB", param_hint="--throttle")
    return int(found[1]) * {"": 1, "k": KIB, "m": MIB, "g": GIB}[found[2].lower()]
