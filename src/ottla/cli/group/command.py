"""`ottla group`: list, describe, reset and delete consumer groups."""

from __future__ import annotations

import sys
import time

import click

from ottla.cli.group.seek import move_as_json, plan, print_moves, target_of, target_options
from ottla.cli.group.view import GroupLine, GroupView, OffsetsView, lines_of, print_lines
from ottla.cli.support import session
from ottla.cli.support.completing import group_names
from ottla.cli.support.lazy_group import LazyGroup
from ottla.cli.support.not_authorized import visible
from ottla.cli.support.options import (
    bootstrap_option,
    format_option,
    is_confirmed,
    is_terminal,
    named_argument,
)
from ottla.cli.support.output import count, echo_err, print_json
from ottla.cli.support.partition_choice import Choice, chosen_partitions, is_chosen, topic_option
from ottla.cli.support.problem_kinds import GROUP_IN_USE, UNKNOWN_GROUP
from ottla.cli.support.problems import Problem
from ottla.client.admin.group_types import GroupDescription
from ottla.client.admin.groups import Groups
from ottla.client.admin.lag import measure
from ottla.client.cluster import Cluster
from ottla.common.ids import TopicPartition
from ottla.common.near_names import did_you_mean
from ottla.protocol.errors import (
    GroupIdNotFound,
    GroupSubscribedToTopic,
    NonEmptyGroup,
    RebalanceInProgress,
    UnknownMemberId,
)

MEMBERS_SHOWN = 5


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
def group() -> None:
    """List, describe, reset and delete consumer groups.

    \b
    ottla group list
    """


@group.command("list", short_help="List the groups with their members and lag.")
@click.option("--state", "states", multiple=True, metavar="STATE", help="Only in this state; repeatable.")
@click.option("--type", "types", multiple=True, metavar="TYPE", help="Only classic, or consumer, groups.")
@click.option("--lag/--no-lag", "with_lag", default=True, help="Members and lag too (default), or not.")
@format_option
@bootstrap_option
def list_groups(
    states: tuple[str, ...], types: tuple[str, ...], with_lag: bool, output_format: str, bootstrap: str
) -> None:
    """List the groups with their members and lag: records, and how old the first unread one is.

    \b
    ottla group list
    ottla group list --state Empty --no-lag
    """

    async def command(cluster: Cluster) -> list[GroupLine]:
        listed = await Groups(cluster).list(states, types)
        if with_lag:
            return await lines_of(cluster, listed, _now_ms())
        return [GroupLine(each) for each in listed]

    found = session.run(bootstrap, command)
    if output_format == "json":
        print_json([each.as_json(with_lag) for each in found])
    elif found:
        print_lines(found, with_lag)
    else:
        more = f"no groups{visible()}; a consumer with a group.id creates one"
        echo_err("no such groups" if states or types else more)


@group.command(short_help="Show state, members, assignment and lag of a group.")
@click.argument("names", metavar="GROUP...", nargs=-1, required=True, shell_complete=group_names)
@format_option
@bootstrap_option
def describe(names: tuple[str, ...], output_format: str, bootstrap: str) -> None:
    """Show a group: state, members, assignment, lag.

    \b
    ottla group describe billing
    """

    async def command(cluster: Cluster) -> None:
        views = [await _view(cluster, name) for name in dict.fromkeys(names)]
        if output_format == "json":
            print_json([view.as_json() for view in views])
            return
        for view in views:
            view.print()

    session.run(bootstrap, command)


@group.command(short_help="Show the committed offsets of a group.")
@named_argument("name", "--group", "GROUP", group_names)
@topic_option("Only this topic, or some of its partitions; repeatable.")
@format_option
@bootstrap_option
def offsets(name: str, topics: Choice, output_format: str, bootstrap: str) -> None:
    """Show the committed offsets of a group, with the metadata of its consumers.

    \b
    ottla group offsets billing
    """

    async def command(cluster: Cluster) -> None:
        groups = Groups(cluster)
        committed = {
            each: kept for each, kept in (await groups.committed(name)).items() if is_chosen(each, topics)
        }
        if not committed:
            await _described(groups, name)
        wanted = {each: kept.offset for each, kept in committed.items()}
        view = OffsetsView(committed, await measure(cluster, wanted, _now_ms()))
        if output_format == "json":
            print_json(view.as_json())
        elif committed:
            view.print()
        else:
            echo_err(f"{name} has committed no offsets {'there' if topics else 'yet'}")

    session.run(bootstrap, command)


@group.command(short_help="Reset the offsets of a stopped group.")
@named_argument("name", "--group", "GROUP", group_names)
@target_options
@topic_option("A topic, or some of its partitions; repeatable.  [default: all with committed offsets]")
@click.option("--dry-run", is_flag=True, help="Only show what would change.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@format_option
@bootstrap_option
def seek(
    name: str,
    to_earliest: bool,
    to_latest: bool,
    to_offset: int | None,
    to_datetime: str | None,
    by: int | None,
    topics: Choice,
    dry_run: bool,
    yes: bool,
    output_format: str,
    bootstrap: str,
) -> None:
    """Reset the offsets of a stopped group: rewind to replay, or skip ahead. Asks for confirmation on a
    terminal.

    \b
    ottla group seek billing --to-earliest
    ottla group seek billing --to-datetime 2026-11-15T13:00 --dry-run
    ottla group seek billing --topic orders:0,3 --by -100
    """
    target = target_of(to_earliest, to_latest, to_offset, to_datetime, by)

    async def command(cluster: Cluster) -> None:
        groups = Groups(cluster)
        await _check_stopped(groups, name, may_be_new=bool(topics))
        committed = {each: kept.offset for each, kept in (await groups.committed(name)).items()}
        partitions = await chosen_partitions(cluster, topics) if topics else list(committed)
        if not partitions:
            raise Problem(f"{name} has no committed offsets", "name what to reset: --topic NAME")
        moves = await plan(cluster, name, target, partitions, committed)
        ask = not (dry_run or yes) and is_terminal(sys.stdin)
        if output_format == "table":
            print_moves(moves)
        if ask and not is_confirmed(f"Move {name}?"):
            echo_err("nothing moved")
            raise click.exceptions.Exit(1)
        if not dry_run:
            try:
                await groups.commit(name, {each.partition: each.after for each in moves})
            except (UnknownMemberId, RebalanceInProgress):  # a member joined in the meantime
                await _check_stopped(groups, name, may_be_new=True)
                raise
        if output_format == "json":
            print_json({"group": name, "dry_run": dry_run, "moves": [move_as_json(each) for each in moves]})
        echo_err(f"{name}: {count(len(moves), 'partition')} {'would be reset' if dry_run else 'reset'}")

    session.run(bootstrap, command)


@group.command()
@click.argument("names", metavar="GROUP...", nargs=-1, required=True, shell_complete=group_names)
@topic_option("Delete only the offsets of this topic, or of some partitions; the group remains. Repeatable.")
@click.option("--dry-run", is_flag=True, help="Only show what would be deleted.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@format_option
@bootstrap_option
def delete(
    names: tuple[str, ...], topics: Choice, dry_run: bool, yes: bool, output_format: str, bootstrap: str
) -> None:
    """Delete stopped groups and their offsets. Asks for confirmation on a terminal.

    \b
    ottla group delete billing
    """
    wanted = list(dict.fromkeys(names))

    async def command(cluster: Cluster) -> None:
        groups = Groups(cluster)
        for name in wanted:
            await _described(groups, name)
        what = f"the offsets of {', '.join(wanted)} in {', '.join(topics)}" if topics else ", ".join(wanted)
        if dry_run:
            echo_err(f"{what}: would be deleted")
            return
        if not yes and is_terminal(sys.stdin) and not is_confirmed(f"Delete {what}?"):
            echo_err("nothing deleted")
            raise click.exceptions.Exit(1)
        for name in wanted:
            if topics:
                await _forget(groups, name, topics)
            else:
                await _delete(groups, name)

    session.run(bootstrap, command)
    if output_format == "json":
        print_json(
            [
                {"group": name, "deleted": None if dry_run else "offsets" if topics else "group"}
                for name in wanted
            ]
        )


async def _view(cluster: Cluster, name: str) -> GroupView:
    groups = Groups(cluster)
    described = await _described(groups, name)
    committed = await groups.committed(name)
    wanted: dict[TopicPartition, int | None] = {each: kept.offset for each, kept in committed.items()}
    for member in described.members:
        for each in member.partitions or ():
            wanted.setdefault(each, None)
    return GroupView(described, OffsetsView(committed, await measure(cluster, wanted, _now_ms())))


async def _described(groups: Groups, name: str) -> GroupDescription:
    """Return a group; if there is none, raise Problem with similar names."""
    try:
        return await groups.describe(name)
    except GroupIdNotFound:
        known = [each.group_id for each in await groups.list()]
        hints = did_you_mean(name, known)
        hints.append("list them:  ottla group list" if known else "there are no groups yet")
        raise Problem(f"there is no group {name!r}", *hints, kind=UNKNOWN_GROUP) from None


async def _check_stopped(groups: Groups, name: str, *, may_be_new: bool) -> None:
    """Raise Problem for a group with members: they would overwrite the change."""
    try:
        described = await (groups.describe(name) if may_be_new else _described(groups, name))
    except GroupIdNotFound:
        return
    if not described.members:
        return
    shown = [
        f"{each.instance_id or each.client_id or 'a client'} at {each.host} ({each.member_id})"
        for each in described.members[:MEMBERS_SHOWN]
    ]
    if len(described.members) > MEMBERS_SHOWN:
        shown.append(f"and {len(described.members) - MEMBERS_SHOWN} more")
    raise Problem(
        f"{name} is in use by {count(len(described.members), 'member')}:",
        *shown,
        f"stop {'it' if len(shown) == 1 else 'them'} and try again; "
        "a killed member leaves the group after its session timeout",
        f"see the members:  ottla group describe {name}",
        kind=GROUP_IN_USE,
    )


async def _delete(groups: Groups, name: str) -> None:
    try:
        await groups.delete(name)
    except NonEmptyGroup:
        await _check_stopped(groups, name, may_be_new=True)
        raise
    echo_err(f"{name}: deleted")


async def _forget(groups: Groups, name: str, topics: Choice) -> None:
    chosen = [each for each in await groups.committed(name) if is_chosen(each, topics)]
    if not chosen:
        echo_err(f"{name}: no committed offsets there")
        return
    try:
        await groups.delete_offsets(name, chosen)
    except GroupSubscribedToTopic as error:
        raise Problem(
            f"members of {name} read {error}; its offsets cannot be deleted",
            f"stop them first; to list them:  ottla group describe {name}",
        ) from None
    echo_err(f"{name}: {count(len(chosen), 'offset')} deleted")


def _now_ms() -> int:
    return int(time.time() * 1000)
