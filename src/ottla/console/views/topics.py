"""Topics: list, create, configure, grow, clone, empty, delete."""

from __future__ import annotations

from typing import Any

from ottla.client.admin import ConfigEntry, ConfigSource
from ottla.client.metadata import TopicInfo
from ottla.common.config.topic import TopicConfig
from ottla.common.ids import TopicPartition, uuid_text
from ottla.console.clusters.snapshot import Snapshot
from ottla.console.context import Context
from ottla.console.table import MAX_INT64, Action, Data, Form, Outcome, Parameter, Section, UserError, View
from ottla.protocol.errors import InvalidTopicException, KafkaError, UnknownTopicOrPartition

PER_PAGE = 1_000
SORTS = ("name", "partitions", "records", "size", "rate")
COMMON_KEYS = (
    "cleanup.policy",
    "retention.ms",
    "retention.bytes",
    "min.insync.replicas",
    "max.message.bytes",
    "compression.type",
)


async def topics(ctx: Context) -> Data:
    """Return the topics that match, sorted."""
    snapshot = await ctx.live.snapshot()
    wanted, state = ctx.query("q").lower(), ctx.query("state")
    shows_internal = ctx.query("internal") == "true"
    rows = []
    hidden = 0
    for topic in snapshot.info.topics.values():
        if wanted and wanted not in topic.name.lower():
            continue
        if topic.is_internal and not shows_internal and not wanted:
            hidden += 1
            continue
        row = topic_row(snapshot, topic)
        if state and row["state"] != state:
            continue
        rows.append(row)
    sort = ctx.query("sort", "name")
    key = sort.lstrip("-") if sort.lstrip("-") in SORTS else "name"
    rows.sort(key=lambda row: (row[key] is None, row[key]), reverse=sort.startswith("-"))
    page = ctx.number("page", 1, least=1)
    return {
        "topics": rows[(page - 1) * PER_PAGE : page * PER_PAGE],
        "total": len(rows),
        "hidden": hidden,
        "page": page,
        "pages": max(1, -(-len(rows) // PER_PAGE)),
        "q": ctx.query("q"),
        "sort": sort,
        "state": state,
        "internal": shows_internal,
    }


def topic_row(snapshot: Snapshot, topic: TopicInfo) -> dict[str, Any]:
    """Return a topic as a row of the list."""
    health = snapshot.health_of(topic)
    state = "offline" if health.offline else "under-replicated" if health.under_replicated else "ok"
    return {
        "name": topic.name,
        "internal": topic.is_internal,
        "partitions": len(topic.partitions),
        "replication": topic.replication_factor,
        "records": snapshot.records.get(topic.name),
        "size": snapshot.sizes.get(topic.name),
        "rate": snapshot.rates.get(topic.name, 0.0),
        "state": state,
    }


async def the_topic(ctx: Context) -> tuple[Snapshot, TopicInfo]:
    """Return the topic that the path names."""
    name = ctx.params["topic"]
    snapshot = await ctx.live.snapshot()
    found = snapshot.info.topics.get(name)
    if found is None:
        try:
            found = (await ctx.admin.describe_topics([name]))[name]
        except (UnknownTopicOrPartition, InvalidTopicException):
            raise UserError(
                f"There is no topic {name}.", "It was deleted, or its name is another: see Topics.", 404
            ) from None
    return snapshot, found


async def topic(ctx: Context) -> Data:
    """Return a topic with its partitions."""
    snapshot, found = await the_topic(ctx)
    ranges = await ctx.admin.offset_ranges(found)
    partitions = []
    for index, each in sorted(found.partitions.items()):
        at = TopicPartition(found.name, index)
        first, end = ranges.get(index, (None, None))
        move = snapshot.info.moves.get(at)
        partitions.append(
            {
                "index": index,
                "leader": each.leader,
                "leader_epoch": each.leader_epoch,
                "replicas": list(each.replicas),
                "isr": list(each.isr),
                "start": first,
                "end": end,
                "records": None if first is None or end is None else end - first,
                "size": _leader_size(snapshot, at, each.leader),
                "is_moving": move is not None,
            }
        )
    row = topic_row(snapshot, found)
    row["records"] = sum(each["records"] or 0 for each in partitions)
    return {
        "tab": "partitions",
        "topic": row,
        "topic_id": "" if found.topic_id is None else uuid_text(found.topic_id),
        "partitions": partitions,
        "brokers": sorted(snapshot.info.brokers),
    }


def _leader_size(snapshot: Snapshot, at: TopicPartition, leader: int) -> int | None:
    for directory in snapshot.directories.get(leader, []):
        replica = directory.replicas.get(at)
        if replica is not None:
            return replica.size_bytes
    return None


def config_row(entry: ConfigEntry) -> dict[str, Any]:
    """Return a config as a row: its value, where it comes from, and what it means."""
    return {
        "name": entry.name,
        "value": entry.value,
        "source": entry.source.name.lower().replace("_", " "),
        "is_set": entry.source in (ConfigSource.TOPIC, ConfigSource.DYNAMIC_BROKER),
        "is_sensitive": entry.is_sensitive,
        "is_read_only": entry.is_read_only,
        "default": entry.default,
        "doc": doc_of(entry.name, entry.documentation),
    }


def doc_of(name: str, given: str | None) -> str:
    """Return what a config means: the broker's words, or ours if it has none."""
    if given:
        return given
    found = TopicConfig.KEYS.get(name)
    return found.doc if found is not None else ""


async def configs(ctx: Context) -> Data:
    """Return the configs of a topic."""
    snapshot, found = await the_topic(ctx)
    entries = await ctx.admin.topic_configs(found.name, documentation=True)
    rows = [config_row(each) for each in entries]
    rows.sort(key=lambda row: (not row["is_set"], row["name"]))
    return {"tab": "configs", "topic": topic_row(snapshot, found), "configs": rows}


async def consumers(ctx: Context) -> Data:
    """Return the groups that have offsets in a topic, or members that read it."""
    snapshot, found = await the_topic(ctx)
    rows = []
    for group in await ctx.admin.list_groups():
        try:
            committed = await ctx.admin.group_offsets(group.group_id)
        except KafkaError:
            continue
        mine = {at: each for at, each in committed.items() if at.topic == found.name}
        if not mine:
            continue
        ends = await ctx.live.ends_of(list(mine))
        rows.append(
            {
                "group": group.group_id,
                "state": group.state,
                "type": group.type,
                "partitions": len(mine),
                "lag": sum(max(0, ends[at] - each.offset) for at, each in mine.items() if at in ends),
                "seconds": _seconds(ctx, group.group_id),
            }
        )
    return {"tab": "consumers", "topic": topic_row(snapshot, found), "groups": rows}


def _seconds(ctx: Context, group: str) -> float | None:
    lag = ctx.console.clusters[ctx.live.name].lags.get(group)
    return None if lag is None else lag.seconds


async def producers(ctx: Context) -> Data:
    """Return the producers that brokers remember for the partitions of a topic."""
    snapshot, found = await the_topic(ctx)
    led = [TopicPartition(found.name, index) for index, each in found.partitions.items() if each.leader >= 0]
    states = await ctx.admin.describe_producers(led)
    rows = [
        {
            "partition": at.partition,
            "producer_id": each.producer_id,
            "producer_epoch": each.producer_epoch,
            "last_sequence": each.last_sequence,
            "last_timestamp": each.last_timestamp_ms,
            "transaction_start": each.transaction_start,
        }
        for at, producers in sorted(states.items())
        for each in producers
    ]
    return {"tab": "producers", "topic": topic_row(snapshot, found), "producers": rows}


async def creation(ctx: Context) -> Data:
    """Return what a form for a new topic needs; `from` names the topic to clone."""
    snapshot = await ctx.live.snapshot()
    source = ctx.query("from")
    values: dict[str, str] = {}
    partitions, replication = 1, min(3, max(1, len(snapshot.info.alive)))
    if source:
        info = (await ctx.admin.describe_topics([source]))[source]
        partitions, replication = len(info.partitions), info.replication_factor
        entries = await ctx.admin.topic_configs(source)
        values = {
            each.name: each.value
            for each in entries
            if each.source is ConfigSource.TOPIC and each.value is not None
        }
    keys = sorted(TopicConfig.KEYS, key=lambda name: (name not in COMMON_KEYS and name not in values, name))
    fields = [
        {
            "name": name,
            "doc": TopicConfig.KEYS[name].doc,
            "default": _shown(TopicConfig.KEYS[name].default),
            "value": values.get(name, ""),
            "is_common": name in COMMON_KEYS or name in values,
        }
        for name in keys
    ]
    return {
        "source": source,
        "partitions": partitions,
        "replication": replication,
        "brokers": len(snapshot.info.alive),
        "fields": fields,
    }


def _shown(value: Any) -> str:
    if isinstance(value, list | tuple):
        return ",".join(map(str, value))
    if isinstance(value, bool):
        return str(value).lower()
    return "" if value is None else str(value)


async def create(ctx: Context, form: Form) -> Outcome:
    """Create a topic."""
    name = form.text("name").strip()
    chosen = {key: value.strip() for key, value in form.prefixed("config.").items() if value.strip()}
    await ctx.admin.create_topic(
        name,
        partitions=form.whole("partitions", -1),
        replication_factor=form.whole("replication", -1),
        configs=chosen,
    )
    return Outcome(f"Topic {name} is created.", ctx.url("topics", name), {"name": name})


async def delete(ctx: Context, form: Form) -> Outcome:
    """Delete a topic; its name confirms it."""
    name = ctx.params["topic"]
    if form.text("confirm", "") != name:
        raise UserError(f"Type the topic's name, {name}, to confirm.")
    await ctx.admin.delete_topic(name)
    return Outcome(f"Topic {name} is deleted.", ctx.url("topics"))


async def add_partitions(ctx: Context, form: Form) -> Outcome:
    """Increase the number of partitions."""
    name, total = ctx.params["topic"], form.whole("total", least=1)
    await ctx.admin.create_partitions(name, total)
    return Outcome(f"{name} has {total} partitions now.", ctx.url("topics", name))


async def alter_configs(ctx: Context, form: Form) -> Outcome:
    """Set some configs and reset others to their defaults."""
    name = ctx.params["topic"]
    set_to = form.prefixed("config.")
    unset = [each for each in form.many("unset") if each]
    key = form.text("name", "")
    if key:
        if form.flag("reset"):
            unset.append(key)
        else:
            set_to[key] = form.text("value", "")
    if not set_to and not unset:
        raise UserError("There is nothing to change.")
    await ctx.admin.alter_topic_configs(name, set_to=set_to, unset=unset)
    changed = ", ".join([*set_to, *unset])
    return Outcome(f"Changed {changed} of {name}.", ctx.url("topics", name, "configs"))


async def delete_records(ctx: Context, form: Form) -> Outcome:
    """Delete the records before an offset, of one partition or of all."""
    _, found = await the_topic(ctx)
    chosen = form.text("partition", "")
    indexes = sorted(found.partitions) if chosen == "" else [form.whole("partition", least=0)]
    before = form.text("before", "").strip()
    offset = -1 if before in ("", "end") else form.whole("before", least=0, most=MAX_INT64)
    if offset >= 0 and len(indexes) > 1:
        raise UserError("An offset belongs to one partition: choose which.")
    if form.text("confirm", "") != found.name:
        raise UserError(f"Type the topic's name, {found.name}, to confirm.")
    starts = await ctx.admin.delete_records({TopicPartition(found.name, each): offset for each in indexes})
    what = "All records are" if offset < 0 and len(indexes) > 1 else "The records before that are"
    return Outcome(
        f"{what} deleted.",
        ctx.url("topics", found.name),
        {"starts": {str(at.partition): start for at, start in starts.items()}},
    )


_CONFIRM = Parameter("confirm", "The topic's name", required=True)

SECTION = Section(
    "topics",
    "Topics",
    "/topics",
    "t",
    views=(
        View(
            "/topics",
            "List of topics",
            "topics.html",
            topics,
            query=(
                Parameter("q", "Part of the name"),
                Parameter("sort", "name, partitions, records, size or rate; - in front reverses"),
                Parameter("state", "ok, under-replicated or offline"),
                Parameter("internal", "true: internal ones too", "boolean"),
                Parameter("page", "Page of 1000", "integer"),
            ),
            fragment="parts/topic_rows.html",
        ),
        View(
            "/create-topic",
            "Configs of a new topic, explained",
            "topic_create.html",
            creation,
            query=(Parameter("from", "The topic to clone"),),
        ),
        View("/topics/{topic}", "A topic and its partitions", "topic.html", topic),
        View("/topics/{topic}/configs", "Configs of a topic", "topic_configs.html", configs),
        View("/topics/{topic}/consumers", "Groups that read a topic", "topic_consumers.html", consumers),
        View("/topics/{topic}/producers", "Producers of a topic", "topic_producers.html", producers),
    ),
    actions=(
        Action(
            "/topics",
            "Create a topic",
            create,
            fields=(
                Parameter("name", "The name", required=True),
                Parameter("partitions", "How many; the broker's default if absent", "integer"),
                Parameter("replication", "Replicas of each", "integer"),
                Parameter("config", "Configs by name", "object"),
            ),
        ),
        Action("/topics/{topic}/delete", "Delete a topic", delete, fields=(_CONFIRM,)),
        Action(
            "/topics/{topic}/partitions",
            "Add partitions",
            add_partitions,
            fields=(Parameter("total", "How many there shall be", "integer", required=True),),
        ),
        Action(
            "/topics/{topic}/configs",
            "Change configs of a topic",
            alter_configs,
            fields=(
                Parameter("config", "Values by name", "object"),
                Parameter("unset", "Names to reset to their defaults", "array"),
            ),
            shows_value=True,
        ),
        Action(
            "/topics/{topic}/delete-records",
            "Delete records",
            delete_records,
            fields=(
                Parameter("partition", "Absent: all", "integer"),
                Parameter("before", "An offset; absent: the end", "integer"),
                _CONFIRM,
            ),
        ),
    ),
)
