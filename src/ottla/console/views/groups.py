"""Groups: members, assignment, lag in records and seconds, offsets reset with a preview."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ottla.client.admin import CommittedOffset, GroupDescription, Measured
from ottla.client.admin.share_groups import SHARE
from ottla.client.offsets import list_offsets, offset_ranges
from ottla.common.ids import TopicPartition
from ottla.console.clusters.sampler import total_lag
from ottla.console.context import Context
from ottla.console.messages.expression import BadExpression, time_ms
from ottla.console.table import MAX_INT64, Action, Data, Form, Outcome, Parameter, Section, UserError, View

TARGETS = ("earliest", "latest", "offset", "time", "shift")
SORTS = ("name", "state", "lag", "seconds")


async def groups(ctx: Context) -> Data:
    """Return the groups that match."""
    wanted, state, kind = ctx.query("q").lower(), ctx.query("state").lower(), ctx.query("type").lower()
    lags = ctx.console.clusters[ctx.live.name].lags
    rows = []
    for each in await ctx.admin.list_groups():
        if wanted not in each.group_id.lower() or (state and each.state.lower() != state):
            continue
        if kind and (each.type or "classic") != kind:
            continue
        lag = lags.get(each.group_id)
        rows.append(
            {
                "name": each.group_id,
                "type": each.type or "classic",
                "protocol": each.protocol_type,
                "state": each.state,
                "lag": None if lag is None else lag.records,
                "seconds": None if lag is None else lag.seconds,
            }
        )
    sort = ctx.query("sort", "name")
    key = sort.lstrip("-") if sort.lstrip("-") in SORTS else "name"
    is_number = key in ("lag", "seconds")
    rows.sort(key=lambda row: _order(row[key], is_number), reverse=sort.startswith("-"))
    return {"groups": rows, "q": ctx.query("q"), "sort": sort, "state": state, "type": kind}


def _order(value: Any, is_number: bool) -> Any:
    """Return what a cell is sorted by; numbers that are not known come first."""
    return (value is not None, value or 0) if is_number else str(value)


async def group(ctx: Context) -> Data:
    """Return a group: its members, and how far it is behind in each partition."""
    name = ctx.params["group"]
    described = await ctx.admin.describe_group(name)
    if described.type == SHARE:
        return await _share_group(ctx, described)
    committed = await ctx.admin.group_offsets(name)
    measured = await ctx.admin.group_lag(name)
    total = total_lag(measured)
    assigned = {at for member in described.members for at in member.partitions or ()}
    ends = await ctx.live.ends_of(sorted(assigned - measured.keys()))
    return {
        **_head(described, total.records, total.seconds),
        "partitions": _partition_rows(described, committed, measured, ends),
        "topics": sorted({at.topic for at in committed}),
    }


def _head(described: GroupDescription, lag: int | None, seconds: float | None) -> Data:
    """Return a group's own facts, and its members."""
    return {
        "group": {
            "name": described.group_id,
            "type": described.type,
            "state": described.state,
            "assignor": described.assignor,
            "coordinator": described.coordinator,
            "protocol": described.protocol_type,
            "is_share": described.type == SHARE,
            "lag": lag,
            "seconds": seconds,
        },
        "members": [
            {
                "id": each.member_id,
                "instance": each.instance_id,
                "client": each.client_id,
                "host": each.host,
                "partitions": None if each.partitions is None else [str(at) for at in each.partitions],
            }
            for each in described.members
        ],
    }


async def _share_group(ctx: Context, described: GroupDescription) -> Data:
    """Return a share group: its members read the same partitions, each record is for one of them."""
    offsets = await ctx.admin.share_group_offsets(described.group_id)
    owners: dict[TopicPartition, list[str]] = {}
    for member in described.members:
        for at in member.partitions or ():
            owners.setdefault(at, []).append(member.client_id or member.member_id)
    ends = await ctx.live.ends_of(sorted({*offsets, *owners}))
    rows = []
    for at in sorted({*offsets, *owners}):
        start = offsets[at].start_offset if at in offsets and offsets[at].start_offset >= 0 else None
        rows.append(
            {
                "topic": at.topic,
                "partition": at.partition,
                "committed": start,
                "start": None,
                "end": ends.get(at),
                "lag": offsets[at].lag if at in offsets else None,
                "seconds": None,
                "metadata": "",
                "member": ", ".join(sorted(owners.get(at, ()))),
            }
        )
    known = [each.lag for each in offsets.values() if each.lag is not None]
    return {
        **_head(described, sum(known) if known else None, None),
        "partitions": rows,
        "topics": sorted({at.topic for at in offsets}),
    }


def _partition_rows(
    described: GroupDescription,
    committed: Mapping[TopicPartition, CommittedOffset],
    measured: Mapping[TopicPartition, Measured],
    ends: Mapping[TopicPartition, int],
) -> list[dict[str, Any]]:
    owners = {at: member for member in described.members for at in member.partitions or ()}
    rows = []
    for at in sorted({*committed, *owners}):
        kept, found, owner = committed.get(at), measured.get(at), owners.get(at)
        lag = found.lag if found is not None else None
        rows.append(
            {
                "topic": at.topic,
                "partition": at.partition,
                "committed": None if kept is None else kept.offset,
                "start": None if found is None else found.start_offset,
                "end": ends.get(at) if found is None else found.end_offset,
                "lag": None if lag is None else lag.records,
                "seconds": None if lag is None else lag.seconds,
                "metadata": "" if kept is None else kept.metadata,
                "member": "" if owner is None else owner.instance_id or owner.client_id or owner.member_id,
            }
        )
    return rows


async def resetting(ctx: Context) -> Data:
    """Return what the form to reset offsets needs."""
    name = ctx.params["group"]
    described = await ctx.admin.describe_group(name)
    committed = await ctx.admin.group_offsets(name)
    snapshot = await ctx.live.snapshot()
    topics = sorted({at.topic for at in committed}) or sorted(
        each.name for each in snapshot.info.topics.values() if not each.is_internal
    )
    return {
        "group": {"name": name, "state": described.state, "members": len(described.members)},
        "topics": topics,
        "topic": ctx.query("topic"),
        "targets": TARGETS,
        "moves": None,
        "given": {},
    }


async def plan(ctx: Context, form: Form) -> list[dict[str, Any]]:
    """Return where each partition's offset is and where it would be."""
    name, target = ctx.params["group"], form.text("target")
    if target not in TARGETS:
        raise UserError(f"target is one of {', '.join(TARGETS)}")
    committed = await ctx.admin.group_offsets(name)
    topic = form.text("topic", "")
    chosen = [at for at in committed if not topic or at.topic == topic]
    if topic and not chosen:
        info = (await ctx.admin.describe_topics([topic]))[topic]
        chosen = [TopicPartition(topic, index) for index in sorted(info.partitions)]
    partition = form.text("partition", "").strip()
    if partition:
        chosen = [at for at in chosen if at.partition == form.whole("partition", least=0)]
    if not chosen:
        raise UserError("There is no such partition to reset.")
    ranges = await offset_ranges(ctx.admin.cluster, chosen)
    after = await _targets(ctx, form, target, ranges, {at: each.offset for at, each in committed.items()})
    rows = []
    for at in chosen:
        first, end = ranges[at]
        before = committed[at].offset if at in committed else None
        new = min(max(after[at], first), end)
        rows.append(
            {
                "topic": at.topic,
                "partition": at.partition,
                "before": before,
                "after": new,
                "by": None if before is None else new - before,
                "lag": end - new,
            }
        )
    return rows


async def _targets(
    ctx: Context,
    form: Form,
    target: str,
    ranges: Mapping[TopicPartition, tuple[int, int]],
    committed: Mapping[TopicPartition, int],
) -> dict[TopicPartition, int]:
    if target == "offset":
        return dict.fromkeys(ranges, form.whole("value", least=0, most=MAX_INT64))
    if target == "shift":
        by = form.whole("value", least=-MAX_INT64, most=MAX_INT64)
        return {at: committed.get(at, first) + by for at, (first, _) in ranges.items()}
    if target == "time":
        try:
            wanted = time_ms(form.text("value"))
        except BadExpression as error:
            raise UserError(str(error)) from None
        found = await list_offsets(ctx.admin.cluster, dict.fromkeys(ranges, wanted))
        return {at: found[at].offset if found[at].offset >= 0 else end for at, (_, end) in ranges.items()}
    return {at: first if target == "earliest" else end for at, (first, end) in ranges.items()}


async def preview_reset(ctx: Context, form: Form) -> Outcome:
    """Show what a reset would do."""
    moves = await plan(ctx, form)
    page = await resetting(ctx)
    given = {name: form.text(name, "") for name in ("target", "topic", "partition", "value")}
    page |= {"moves": moves, "given": given, "topic": given["topic"]}
    return Outcome("", "", {"moves": moves}, page, "group_reset.html")


async def reset(ctx: Context, form: Form) -> Outcome:
    """Reset offsets."""
    name = ctx.params["group"]
    moves = await plan(ctx, form)
    offsets = {TopicPartition(each["topic"], each["partition"]): int(each["after"]) for each in moves}
    await ctx.admin.alter_group_offsets(name, offsets)
    message = f"Reset {len(moves)} partition{'s' if len(moves) != 1 else ''} of {name}."
    return Outcome(message, ctx.url("groups", name), {"moves": moves})


async def delete(ctx: Context, form: Form) -> Outcome:
    """Delete a group and its offsets; its name confirms it."""
    name = ctx.params["group"]
    if form.text("confirm", "") != name:
        raise UserError(f"Type the group's name, {name}, to confirm.")
    await ctx.admin.delete_group(name)
    return Outcome(f"Group {name} is deleted.", ctx.url("groups"))


async def delete_offsets(ctx: Context, form: Form) -> Outcome:
    """Delete the offsets of a group in one topic, which it does not read any more."""
    name, topic = ctx.params["group"], form.text("topic")
    if form.text("confirm", "") != name:
        raise UserError(f"Type the group's name, {name}, to confirm.")
    chosen = [at for at in await ctx.admin.group_offsets(name) if at.topic == topic]
    if not chosen:
        raise UserError(f"{name} has no offsets in {topic}.")
    await ctx.admin.delete_group_offsets(name, chosen)
    return Outcome(f"{name} has no offsets in {topic} any more.", ctx.url("groups", name))


async def remove_member(ctx: Context, form: Form) -> Outcome:
    """Remove a member from a classic group."""
    name, member, instance = ctx.params["group"], form.text("member", ""), form.text("instance", "")
    outcomes = await ctx.admin.remove_group_members(
        name, [] if instance else [member], instance_ids=[instance] if instance else []
    )
    for error in outcomes.values():
        if error is not None:
            raise error
    return Outcome(f"{instance or member} is removed.", ctx.url("groups", name))


_RESET = (
    Parameter("target", ", ".join(TARGETS), required=True),
    Parameter("topic", "A topic; absent: all with offsets"),
    Parameter("partition", "A partition; absent: all", "integer"),
    Parameter("value", "The offset, the time, or the number of records to shift by"),
)

SECTION = Section(
    "groups",
    "Groups",
    "/groups",
    "g",
    views=(
        View(
            "/groups",
            "List of groups",
            "groups.html",
            groups,
            query=(
                Parameter("q", "Part of the name"),
                Parameter("state", "Stable, Empty, ..."),
                Parameter("type", "classic, consumer or share"),
                Parameter("sort", "name, state, lag or seconds; - in front reverses"),
            ),
            fragment="parts/group_rows.html",
        ),
        View("/groups/{group}", "A group, its members and its lag", "group.html", group),
        View("/groups/{group}/reset", "What a reset needs", "group_reset.html", resetting),
    ),
    actions=(
        Action(
            "/groups/{group}/preview-reset",
            "Preview of a reset of offsets",
            preview_reset,
            fields=_RESET,
            is_change=False,
        ),
        Action("/groups/{group}/reset", "Reset offsets", reset, fields=_RESET, shows_value=True),
        Action(
            "/groups/{group}/delete-offsets",
            "Delete the offsets of a group in a topic",
            delete_offsets,
            fields=(
                Parameter("topic", "The topic", required=True),
                Parameter("confirm", "The group's name", required=True),
            ),
        ),
        Action(
            "/groups/{group}/delete",
            "Delete a group",
            delete,
            fields=(Parameter("confirm", "The group's name", required=True),),
        ),
        Action(
            "/groups/{group}/remove-member",
            "Remove a member",
            remove_member,
            fields=(Parameter("member", "Its id"), Parameter("instance", "Its instance id, if it is static")),
        ),
    ),
)
