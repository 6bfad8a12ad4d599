"""`ottla pipeline offsets`: show and change where the queries of a stopped pipeline are in their topics."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import click

from ottla.cli.group.seek import Move, move_as_json, plan, print_moves, target_of, target_options
from ottla.cli.pipeline.options import guarded, root_option
from ottla.cli.pipeline.status import find_state
from ottla.cli.support import session
from ottla.cli.support.lazy_group import LazyGroup
from ottla.cli.support.options import bootstrap_option, format_option, is_confirmed, is_terminal
from ottla.cli.support.output import count, echo_err, print_json, print_table
from ottla.cli.support.partition_choice import Choice, is_chosen, topic_option
from ottla.cli.support.problems import Problem
from ottla.client.cluster import Cluster
from ottla.client.offsets import offset_ranges
from ottla.client.producer.options import ProducerOptions
from ottla.spark.checkpoint_files import CheckpointFiles, is_checkpoint
from ottla.spark.checkpoint_lock import CheckpointLock
from ottla.spark.pipelines.run.storage import Storage


@click.group("offsets", cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
def offsets_command() -> None:
    """Show and change the positions of a pipeline in its topics.

    NAME is a pipeline, its path, or the checkpoint folder of any query.

    \b
    ottla pipeline offsets show shop
    """


def _flow_option(command: Any) -> Any:
    return click.option("--flow", default="", metavar="FLOW", help="Only this flow.  [default: all]")(command)


@offsets_command.command("show", short_help="Show the positions, and how far behind they are.")
@click.argument("name")
@_flow_option
@format_option
@root_option
@bootstrap_option
@guarded
def show(name: str, flow: str, output_format: str, root: Path, bootstrap: str) -> None:
    """Show the position of each flow in each partition, and how far behind the end it is.

    \b
    ottla pipeline offsets show shop
    """
    flows = checkpoints_of(name, root, flow)

    async def work(cluster: Cluster) -> list[dict[str, Any]]:
        found = []
        for flow_name, files in flows.items():
            batch = files.last_done
            ranges = await offset_ranges(cluster, list(batch.positions))
            for each, at in sorted(batch.positions.items()):
                row = {"flow": flow_name, "topic": each.topic, "partition": each.partition, "position": at}
                found.append({**row, "end": ranges[each][1], "behind": max(0, ranges[each][1] - at)})
        return found

    rows = session.run(bootstrap, work)
    if output_format == "json":
        print_json(rows)
    else:
        columns = ["flow", "topic", "partition", "position", "end", "behind"]
        print_table(columns, [[str(row[each]) for each in columns] for row in rows], right=columns[2:])
    for flow_name, files in flows.items():
        for number in files.not_done:
            echo_err(f"{flow_name}: batch {number} was planned and is not done; the next run repeats it")


@offsets_command.command("reset", short_help="Change where a stopped pipeline continues.")
@click.argument("name")
@target_options
@click.option("--skip", type=click.IntRange(1), metavar="N", help="Skip N records in each partition.")
@_flow_option
@topic_option("Only this topic, or some partitions; repeatable.")
@click.option("--dry-run", is_flag=True, help="Only show what would be changed.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@format_option
@root_option
@bootstrap_option
@guarded
def reset(
    name: str,
    to_earliest: bool,
    to_latest: bool,
    to_offset: int | None,
    to_datetime: str | None,
    by: int | None,
    skip: int | None,
    flow: str,
    topics: Choice,
    dry_run: bool,
    yes: bool,
    output_format: str,
    root: Path,
    bootstrap: str,
) -> None:
    """Change where a stopped pipeline continues: replay, or skip ahead. Asks on a terminal.

    State is kept: an aggregation counts records that it reads again twice. To compute it anew, use
    `ottla pipeline run --full-refresh`.

    \b
    ottla pipeline offsets reset shop --to-datetime 2026-11-15T13:00 --dry-run
    ottla pipeline offsets reset shop --flow revenue --topic orders:0 --skip 1
    """
    target = target_of(to_earliest, to_latest, to_offset, to_datetime, by if skip is None else skip)
    flows = checkpoints_of(name, root, flow)
    with _locked(flows.values()):
        planned: dict[str, list[Move]] = {}

        async def work(cluster: Cluster) -> None:
            for flow_name, files in flows.items():
                await _check_not_decided(cluster, files, flow_name)
                positions = files.last_done.positions
                chosen = [each for each in sorted(positions) if not topics or is_chosen(each, topics)]
                if chosen:
                    planned[flow_name] = await plan(cluster, flow_name, target, chosen, positions)

        session.run(bootstrap, work)
        if not planned:
            raise Problem(f"{name} reads none of these topics", f"see: ottla pipeline offsets show {name}")
        _show(planned, output_format, dry_run=dry_run)
        if not (dry_run or yes) and is_terminal(sys.stdin) and not is_confirmed(f"Move {name}?"):
            echo_err("nothing moved")
            raise click.exceptions.Exit(1)
        if not dry_run:
            for flow_name, moves in planned.items():
                flows[flow_name].move({each.partition: each.after for each in moves})
    moved = sum(map(len, planned.values()))
    echo_err(f"{name}: {count(moved, 'partition')} {'would be reset' if dry_run else 'reset'}")


@offsets_command.command("export", short_help="Make a checkpoint readable for Spark's connector.")
@click.argument("checkpoint", type=click.Path(path_type=Path))
@guarded
def export(checkpoint: Path) -> None:
    """Make the checkpoint of a stopped query readable for Spark's Kafka connector.

    \b
    ottla pipeline offsets export /var/lib/orders
    """
    files = CheckpointFiles(checkpoint)
    with _locked([files]):
        changed = files.export()
    echo_err(
        f"{checkpoint}: {count(changed, 'batch')} changed" if changed else f"{checkpoint}: nothing to do"
    )


def checkpoints_of(name: str, root: Path, flow: str = "") -> dict[str, CheckpointFiles]:
    """Return the checkpoints of a pipeline's flows, by name; of a folder that is one, only that."""
    if is_checkpoint(Path(name)):
        return {Path(name).absolute().name: CheckpointFiles(Path(name))}
    state = find_state(name, root)
    data = Path(state.storage) if state.storage else root.absolute() / state.name
    folder = Storage(root / state.name, data).checkpoints
    found = {each.name: each for each in sorted(folder.glob("*")) if is_checkpoint(each)}
    if flow and flow not in found:
        raise Problem(
            f"{name} has no flow {flow!r} with a checkpoint", f"it has: {', '.join(found) or 'none'}"
        )
    if not found:
        raise Problem(
            f"{name} has no checkpoint in {folder}", f"run it first: ottla pipeline run {state.path}"
        )
    return {each: CheckpointFiles(path) for each, path in found.items() if not flow or each == flow}


@contextmanager
def _locked(checkpoints: Any) -> Iterator[None]:
    """Hold the locks of checkpoints, which a running query has."""
    with ExitStack() as stack:
        for each in checkpoints:
            stack.enter_context(CheckpointLock(each.folder))
        yield


async def _check_not_decided(cluster: Cluster, files: CheckpointFiles, flow: str) -> None:
    """Refuse to drop a batch whose output was written already: its replay would write nothing."""
    from ottla.spark.sink.recovery import decided_batches

    if not files.not_done:
        return
    options = ProducerOptions(bootstrap_servers=[str(each) for each in cluster.bootstrap])
    decided = await decided_batches(cluster, options, files.query_id)
    if any(batch in files.not_done for batch in decided.values()):
        raise Problem(
            f"{flow}: batch {files.not_done[0]} was written and is not yet noted in the checkpoint",
            "run the pipeline once, so that it notes it: ottla pipeline run PATH --available-now",
        )


def _show(planned: dict[str, list[Move]], output_format: str, *, dry_run: bool) -> None:
    if output_format == "json":
        found = {flow: [move_as_json(each) for each in moves] for flow, moves in planned.items()}
        print_json({"dry_run": dry_run, "flows": found})
        return
    for flow, moves in planned.items():
        if len(planned) > 1:
            click.echo(f"{flow}:")
        print_moves(_without_same(moves))


def _without_same(moves: Sequence[Move]) -> list[Move]:
    return [each for each in moves if each.before != each.after] or list(moves)
