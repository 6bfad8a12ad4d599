"""`ottla cluster reassign` and `decommission`: move partitions to other brokers."""

from __future__ import annotations

import json
from pathlib import Path

import click

from ottla.cli.cluster.balance import SAMPLE_S, measured
from ottla.cli.cluster.maintenance import check_broker, in_maintenance, set_maintenance
from ottla.cli.cluster.plans import begin, check_leaders, execute, parse_rate, plan_moves, show, watch
from ottla.cli.cluster.view import moves_as_json, print_plan
from ottla.cli.support import session
from ottla.cli.support.options import bootstrap_option, format_option
from ottla.cli.support.output import count, echo_err, print_json
from ottla.cli.support.partition_choice import partitions_named
from ottla.cli.support.problems import Problem
from ottla.client.admin.cluster_admin import ClusterAdmin, ClusterInfo
from ottla.client.admin.moves import MoveWatch, lift_throttle
from ottla.client.admin.topic_admin import TopicAdmin
from ottla.client.cluster import Cluster
from ottla.common.ids import TopicPartition
from ottla.common.placement import NO_WEIGHTS, Plan

REPLICAS_FOR_MIN_INSYNC = 3
"""The replication factor from which new topics have min.insync.replicas=2."""

_throttle_option = click.option(
    "--throttle",
    "throttle_text",
    metavar="BYTES",
    help="Replication throttle per broker and second, such as 50MB.",
)
_yes_option = click.option("-y", "--yes", is_flag=True, help="Do not ask.")
_dry_run_option = click.option("--dry-run", is_flag=True, help="Only show the plan.")
_no_wait_option = click.option("--no-wait", is_flag=True, help="Do not wait for the end of the moves.")


def _node_ids(ctx: click.Context, param: click.Parameter, text: str | None) -> tuple[int, ...] | None:
    if text is None:
        return None
    parts = [each.strip() for each in text.split(",")]
    if not all(each.isdecimal() for each in parts):
        raise click.BadParameter(f"{text!r} is not a list of broker ids such as 1,2,3", ctx, param)
    return tuple(map(int, parts))


@click.command(short_help="Move partitions to other brokers, evenly.")
@click.argument("partitions", nargs=-1, metavar="[TOPIC[:PARTITION]]...")
@click.option("--all", "everything", is_flag=True, help="All partitions of all topics.")
@click.option("--to", "targets", metavar="1,2,3", callback=_node_ids, help="Use these brokers only.")
@click.option(
    "-r", "--replication-factor", type=click.IntRange(1), metavar="N", help="Replicas per partition."
)
@click.option(
    "--plan",
    "plan_file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Use this plan (Kafka's reassignment JSON).",
)
@click.option("--cancel", is_flag=True, help="Cancel ongoing moves.")
@click.option("--watch", "only_watch", is_flag=True, help="Watch ongoing moves until they end.")
@click.option(
    "--batch",
    type=click.IntRange(0),
    default=0,
    metavar="N",
    help="Move N partitions at a time.  [default: all]",
)
@click.option(
    "--sample",
    "sample_s",
    type=click.FloatRange(0, 600),
    default=SAMPLE_S,
    show_default=True,
    metavar="SECONDS",
    help="How long to measure the traffic of partitions; 0: not.",
)
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
    batch: int,
    sample_s: float,
    throttle_text: str | None,
    dry_run: bool,
    yes: bool,
    no_wait: bool,
    output_format: str,
    bootstrap: str,
) -> None:
    """Move partitions to other brokers: each topic evenly over brokers and racks, by size and traffic.

    The plan is shown first, with what each broker has before and after; with --format json it is in the
    format that --plan reads. Little is moved: what is even stays. After an interruption, run it again.

    \b
    ottla cluster reassign --all --dry-run        what would move
    ottla cluster reassign --all --throttle 50MB --batch 20
    ottla cluster reassign orders -r 3            replication factor 3
    ottla cluster reassign orders:0 --to 2,3,4
    ottla cluster reassign --cancel
    """
    rate = parse_rate(throttle_text)
    if cancel + only_watch + (plan_file is not None) > 1:
        raise click.UsageError("--plan, --cancel and --watch exclude each other")
    if (plan_file or cancel or only_watch) and (targets or replication_factor):
        raise click.UsageError(
            "--to and --replication-factor cannot be used with --plan, --cancel or --watch"
        )
    if plan_file is not None and (partitions or everything):
        raise click.UsageError("--plan names the partitions itself")

    async def command(connected: Cluster) -> None:
        info = await ClusterAdmin(connected).describe()
        if only_watch or cancel:
            chosen = set(partitions_named(info, partitions)) if partitions else set(info.moves)
            if dry_run:
                _show_moves(info, chosen, output_format)
            else:
                await _ongoing_moves(connected, info, chosen, cancel)
            return
        weights = NO_WEIGHTS
        if plan_file is not None:
            plan = _read_plan(plan_file, info)
        else:
            if not (partitions or everything):
                raise click.UsageError("name topics or partitions, or use --all")
            chosen_now = partitions_named(info, partitions) if partitions else list(info.partitions)
            weights = await measured(connected, info, sample_s if everything else 0)
            closed = await in_maintenance(connected, info)
            plan = plan_moves(info, chosen_now, targets, replication_factor, weights=weights, closed=closed)
        changes = show(info, plan, output_format, weights)
        await execute(connected, info, changes, rate, dry_run=dry_run, yes=yes, wait=not no_wait, batch=batch)
        if not dry_run:
            await _suggest_min_insync(connected, changes)

    session.run(bootstrap, command)


@click.command(short_help="Move all partitions off a broker, then unregister it.")
@click.argument("broker", type=click.IntRange(0))
@_throttle_option
@_dry_run_option
@_yes_option
@format_option
@bootstrap_option
def decommission(
    broker: int, throttle_text: str | None, dry_run: bool, yes: bool, output_format: str, bootstrap: str
) -> None:
    """Remove BROKER from the cluster: move its replicas to other brokers, then unregister it.

    The broker is put in maintenance first, so that it gets no new replicas. A live broker cannot be
    unregistered: stop it when it is empty, and run the command again. What was placed on it nevertheless is
    moved then. To keep the broker after all:  ottla cluster maintenance stop BROKER

    \b
    ottla cluster decommission 4
    """
    rate = parse_rate(throttle_text)

    async def command(connected: Cluster) -> None:
        admin = ClusterAdmin(connected)
        info = await admin.describe()
        check_broker(info, broker)
        held = [at for at in info.partitions if broker in info.target(at)]
        changes: Plan = {}
        if held:
            aside = await in_maintenance(connected, info)
            others = tuple(each for each in info.alive if each != broker and each not in aside)
            weights = await measured(connected, info, 0)
            plan = plan_moves(info, held, others, None, even=False, weights=weights)
            changes = show(info, plan, output_format, weights)
        if dry_run:
            return
        await _empty(connected, info, changes, rate, broker, yes)
        await _wait_until_gone(connected, broker)
        info = await admin.describe()
        held = [at for at, each in info.partitions.items() if broker in each.replicas]
        if held:  # created in the meantime
            again = f"ottla cluster decommission {broker}"
            raise Problem(f"broker {broker} has {count(len(held), 'partition')} again", f"again:  {again}")
        if info.brokers[broker].is_alive:
            echo_err(
                f"broker {broker} has no partitions left. Stop it, then:  ottla cluster decommission {broker}"
            )
            return
        await admin.unregister(broker)
        echo_err(f"broker {broker} is unregistered")

    session.run(bootstrap, command)


async def _empty(
    connected: Cluster, info: ClusterInfo, changes: Plan, rate: int | None, broker: int, yes: bool
) -> None:
    """Put a broker in maintenance, so that nothing new is placed there, and move its replicas."""
    is_begun = broker in info.alive and broker not in await in_maintenance(connected, info)
    if is_begun:
        await set_maintenance(connected, broker, is_on=True)
    try:
        if changes:
            await execute(connected, info, changes, rate, dry_run=False, yes=yes, wait=True)
    except (click.Abort, click.UsageError):  # the operator did not confirm
        if is_begun:
            await set_maintenance(connected, broker, is_on=False)
        raise


def _read_plan(path: Path, info: ClusterInfo) -> Plan:
    try:
        listed = json.loads(path.read_text())["partitions"]
        plan = {
            TopicPartition(str(each["topic"]), int(each["partition"])): tuple(map(int, each["replicas"]))
            for each in listed
        }
    except (ValueError, KeyError, TypeError, AttributeError):
        shape = '{"partitions": [{"topic": "orders", "partition": 0, "replicas": [1, 2, 3]}]}'
        raise Problem(f"{path} is not a reassignment plan", f"expected: {shape}") from None
    unknown = [at for at in plan if at not in info.partitions]
    if unknown:
        raise Problem(f"{path} names the unknown partition {unknown[0]}")
    return plan


async def _ongoing_moves(
    connected: Cluster, info: ClusterInfo, chosen: set[TopicPartition], cancel: bool
) -> None:
    moves = {at: move for at, move in info.moves.items() if at in chosen}
    if not moves:
        echo_err("no partition is being moved")
    elif cancel:
        await begin(connected, dict.fromkeys(moves))
        echo_err(f"{count(len(moves), 'move')} cancelled")
    else:
        await watch(MoveWatch(connected, moves))
    await lift_throttle(connected)


async def _wait_until_gone(connected: Cluster, broker: int) -> None:
    """Wait for earlier moves off the broker: unregistered now, it would take records along."""
    info = await ClusterAdmin(connected).describe()
    leaving = {at: each for at, each in info.moves.items() if broker in each.removing}
    if leaving:
        check_leaders(info, {at: each.target for at, each in leaving.items()})
        await watch(MoveWatch(connected, leaving))
        await lift_throttle(connected)


def _show_moves(info: ClusterInfo, chosen: set[TopicPartition], output_format: str) -> None:
    """Print the ongoing moves, and change nothing."""
    moves = {at: each for at, each in info.moves.items() if at in chosen}
    if output_format == "json":
        print_json(moves_as_json(moves))
    elif moves:
        print_plan((at, tuple(sorted(each.before)), each.target) for at, each in moves.items())
    else:
        echo_err("no partition is being moved")


async def _suggest_min_insync(connected: Cluster, changes: Plan) -> None:
    """Suggest min.insync.replicas=2 for topics whose replication factor now allows it."""
    topics = sorted({at.topic for at, target in changes.items() if len(target) >= REPLICAS_FOR_MIN_INSYNC})
    minimums = await TopicAdmin(connected).topics_config("min.insync.replicas", topics) if topics else {}
    for topic, minimum in minimums.items():
        if minimum == "1":
            more = f"ottla config alter --topic {topic} --set min.insync.replicas=2"
            echo_err(f"acks=all waits for one replica of {topic} only; to wait for two:  {more}")
