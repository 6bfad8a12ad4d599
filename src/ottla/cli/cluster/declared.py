"""`ottla cluster export` and `apply`: topics, configs, ACLs and quotas as a file."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import click

from ottla.cli.cluster.spec_file import BadFile, as_document, as_yaml, parse
from ottla.cli.support import session
from ottla.cli.support.options import bootstrap_option, confirm, format_option
from ottla.cli.support.output import count, echo_err, print_json
from ottla.cli.support.problem_kinds import BAD_CONFIG
from ottla.cli.support.problems import Problem
from ottla.client.admin.cluster_spec import (
    Change,
    ClusterSpec,
    CreateTopic,
    DeleteTopic,
    SpecPlan,
    describe_change,
    make_change,
    plan_changes,
    read_spec,
)
from ottla.client.cluster import Cluster
from ottla.metadata.backup_file import is_backup
from ottla.protocol.errors import KafkaError

PENDING_EXIT = 3
"""The exit code of a dry run that found changes."""
SHOWN = 10
COLOURS = {"+": "green", "~": "yellow", "-": "red", "!": "red"}


@click.command(short_help="Write topics, configs, ACLs and quotas as YAML.")
@click.option("-o", "--output", type=click.Path(dir_okay=False, path_type=Path), help="Write to this file.")
@click.option(
    "--format",
    "output_format",
    type=click.Choice(["yaml", "json"]),
    default="yaml",
    show_default=True,
    help="The format of the file.",
)
@bootstrap_option
def export(output: Path | None, output_format: str, bootstrap: str) -> None:
    """Write the topics, dynamic broker configs, ACLs and quotas of the cluster as a file.

    It contains no records, no passwords and no group offsets; for those see `ottla cluster backup`.
    Works with Apache Kafka too.

    \b
    ottla cluster export > cluster.yaml
    ottla cluster apply -f cluster.yaml --dry-run
    """
    spec = session.run(bootstrap, read_spec)
    for broker in spec.silent:
        missing = "its own dynamic configs are not in the file; start it, then export again"
        echo_err(f"broker {broker} does not answer: {missing}")
    is_json = output_format == "json"
    text = json.dumps(as_document(spec), indent=2) + "\n" if is_json else as_yaml(spec)
    if output is None:
        click.echo(text, nl=False)
        return
    try:
        output.write_text(text)
    except OSError as error:
        raise Problem(f"{output} cannot be written: {error.strerror}") from None
    echo_err(f"{count(len(spec.topics or {}), 'topic')} written to {output}")


@click.command(short_help="Change the cluster to what a file declares.")
@click.option(
    "-f",
    "--file",
    "file",
    required=True,
    type=click.Path(dir_okay=False, allow_dash=True, path_type=Path),
    help="The file: YAML or JSON; - for standard input.",
)
@click.option("--prune", is_flag=True, help="Also DELETE what is not in the file, topics with records.")
@click.option("--dry-run", is_flag=True, help="Only show the plan; exit code 3 if there are changes.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@format_option
@bootstrap_option
def apply(file: Path, prune: bool, dry_run: bool, yes: bool, output_format: str, bootstrap: str) -> None:
    """Change topics, broker configs, ACLs and quotas to what FILE declares; the plan is shown first.

    Doing it twice changes nothing. Sections that FILE does not have are left alone. If something in FILE
    is impossible (fewer partitions), nothing is changed. Works with Apache Kafka too.

    Exit codes: 0 the cluster is as declared, 1 an error, 3 changes are pending (--dry-run).

    \b
    ottla cluster export -o cluster.yaml
    ottla cluster apply -f cluster.yaml --dry-run
    ottla cluster apply -f cluster.yaml --yes
    ottla cluster apply -f cluster.yaml --prune
    """
    wanted = _read(file)

    async def command(cluster: Cluster) -> int:
        plan = plan_changes(wanted, await read_spec(cluster), prune=prune)
        _show(plan, output_format)
        if plan.impossible:
            first = plan.impossible[0]
            raise Problem(f"nothing was changed: {first.what}", first.hint, kind=BAD_CONFIG)
        if not plan.changes:
            echo_err("the cluster is as declared")
            return 0
        for each in plan.changes:
            await _try(cluster, each, validate_only=True)
        if dry_run:
            echo_err(f"{count(len(plan.changes), 'change')} pending; nothing was changed")
            return PENDING_EXIT
        confirm(f"Make {count(len(plan.changes), 'change')}?", yes)
        for number, each in enumerate(plan.changes):
            await _try(cluster, each, made=number)
        echo_err(f"{count(len(plan.changes), 'change')} made")
        return 0

    if code := session.run(bootstrap, command):
        raise SystemExit(code)


def _read(file: Path) -> ClusterSpec:
    text = ""
    try:
        text = sys.stdin.read() if str(file) == "-" else file.read_text()
        return parse(text)
    except OSError as error:
        raise Problem(f"{file} cannot be read: {error.strerror}") from None
    except (BadFile, UnicodeDecodeError) as error:
        how = "see one:  ottla cluster export"
        if is_backup(text.encode()):
            how = f"this is a file of `ottla cluster backup`:  ottla cluster restore {file} --dry-run"
        raise Problem(f"{file}: {error}", how, kind=BAD_CONFIG) from None


async def _try(cluster: Cluster, change: Change, *, validate_only: bool = False, made: int = 0) -> None:
    try:
        await make_change(cluster, change, validate_only=validate_only)
    except (KafkaError, ValueError) as error:
        done = "nothing was changed" if validate_only else f"{count(made, 'change')} made before"
        raise Problem(
            f"{describe_change(change)[0]}: {error}", f"{done}; correct it, and apply again"
        ) from None


def _show(plan: SpecPlan, output_format: str) -> None:
    if output_format == "json":
        print_json(
            {
                "changes": [_as_json(each) for each in plan.changes],
                "impossible": [each.what for each in plan.impossible],
                "not_in_the_file": [_as_json(each) for each in plan.unmanaged],
            }
        )
        return
    lines = [line for each in plan.changes for line in describe_change(each)]
    lines += [f"! {each.what}" for each in plan.impossible]
    for line in lines:
        click.secho(line, fg=COLOURS.get(line.lstrip()[0]))
    if plan.unmanaged:
        kept = [describe_change(each)[0][2:] for each in plan.unmanaged]
        more = f" and {len(kept) - SHOWN} more" if len(kept) > SHOWN else ""
        echo_err(f"not in the file, and left alone without --prune: {'; '.join(kept[:SHOWN])}{more}")


def _as_json(change: Change) -> dict[str, object]:
    kind = {CreateTopic: "create", DeleteTopic: "delete"}.get(type(change), "change")
    lines = describe_change(change)
    return {"action": kind, "what": lines[0][2:], "details": [line.strip() for line in lines[1:]]}
