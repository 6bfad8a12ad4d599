"""Messages of a topic: browse, search, follow, look at one, produce, send again, export."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from ottla.client.consumer import ConsumerRecord
from ottla.client.metadata import TopicInfo
from ottla.console import sse
from ottla.console.clusters.snapshot import Snapshot
from ottla.console.context import Context
from ottla.console.messages import positions
from ottla.console.messages.decoding import FORMATS, PARSED_BYTES
from ottla.console.messages.export import CSV, KINDS, exported
from ottla.console.messages.expression import Expression, everything, joined, parse, quoted
from ottla.console.messages.json_path import JsonPath
from ottla.console.messages.message import Message, Reading
from ottla.console.messages.search import Progress, search, search_back
from ottla.console.messages.tail import tail
from ottla.console.render import render
from ottla.console.table import (
    Action,
    Data,
    Download,
    Form,
    Outcome,
    Parameter,
    Section,
    Stream,
    UserError,
    View,
)
from ottla.console.views.producing import as_line, as_typed, encoded, headers_of
from ottla.console.views.topics import the_topic, topic_row

SHOWN, MAX_SHOWN = 50, 1_000
MAX_COLUMNS = 12
MAX_EXPORTED = 10_000_000
DETAIL_BYTES = 64 * 1024
ALL_BYTES = 8 * 1024 * 1024
INLINE_BYTES = 1024 * 1024
"""Larger values are loaded as pages of their own, so that several of them do not add up in one."""
SEARCHED_BYTES = 32 * 1024 * 1024
"""Larger values are searched in their beginning only, which the progress says: parsing takes memory."""
BLANK = {
    "key": "",
    "key_format": "text",
    "value": "",
    "value_format": "text",
    "headers": "",
    "left_out": [],
}
"""A new message."""
READ_QUERY = (
    Parameter("partition", "A partition; absent: all", "integer"),
    Parameter("key_format", "How keys are decoded: " + ", ".join(FORMATS)),
    Parameter("value_format", "How values are decoded: " + ", ".join(FORMATS)),
)
FILTER_QUERY = (
    Parameter("start", "newest, oldest, offset or time"),
    Parameter("at", "The offset, or the time (ISO 8601, or milliseconds)"),
    Parameter("key", "Part of the key"),
    Parameter("text", "Part of the value"),
    Parameter("header", "NAME or NAME=VALUE"),
    Parameter("where", "An expression, such as $.total > 100"),
    Parameter("columns", "Paths to show in place of the value: $.id, $.customer.country"),
    Parameter("limit", "How many", "integer"),
)


def columns_of(ctx: Context) -> list[JsonPath]:
    """Return the paths whose values are shown in columns of their own."""
    given = [each for each in (part.strip() for part in ctx.query("columns").split(",")) if each]
    if len(given) > MAX_COLUMNS:
        raise UserError(f"There are at most {MAX_COLUMNS} columns.", status=400)
    try:
        return [JsonPath.parse(each if each.startswith("$") else f"$.{each}") for each in given]
    except ValueError as error:
        raise UserError(f"A column cannot be read: {error}", status=400) from None


def _shown(message: Message, columns: list[JsonPath]) -> Data:
    row = message.as_json(preview=True)
    if columns:
        row["columns"] = [message.preview_of(each) for each in columns]
    return row


def check_messages_shown(ctx: Context) -> None:
    """Raise UserError if the console shows no messages."""
    if not ctx.console.options.shows_messages:
        raise UserError(
            "Looking at messages is switched off.", "The console was started with --no-messages.", 403
        )


def _reading(ctx: Context, limit: int = PARSED_BYTES) -> Reading:
    topic = ctx.params["topic"]
    decoder, masking = ctx.console.decoders[ctx.live.name], ctx.console.masking(topic)
    key_format, value_format = _format(ctx, "key_format"), _format(ctx, "value_format")
    masks = ctx.console.options.masks
    return Reading(topic, decoder, key_format, value_format, masking, limit, masks)


def _format(ctx: Context, name: str) -> str:
    found = ctx.query(name) or "auto"
    if found not in FORMATS:
        raise UserError(f"{name} is one of {', '.join(FORMATS)}", status=400)
    return found


def expression_of(ctx: Context) -> Expression:
    """Return the expression of the filters: the simple ones, and the one that was written."""
    parts = []
    if key := ctx.query("key"):
        parts.append(parse(f"key CONTAINS {quoted(key)}"))
    if text := ctx.query("text"):
        parts.append(parse(f"value CONTAINS {quoted(text)}"))
    if header := ctx.query("header"):
        name, equals, value = header.partition("=")
        test = f"= {quoted(value.strip())}" if equals else "IS NOT NULL"
        parts.append(parse(f"header['{name.strip().replace(chr(39), '')}'] {test}"))
    if where := ctx.query("where"):
        parts.append(parse(where))
    return joined(parts) if parts else everything()


def _partitions(ctx: Context) -> list[int] | None:
    given = ctx.query("partition")
    return None if given == "" else [ctx.number("partition", 0)]


async def messages(ctx: Context) -> Data:
    """Return a page of messages."""
    check_messages_shown(ctx)
    snapshot, found = await the_topic(ctx)
    expression = expression_of(ctx)
    start = _start(ctx)
    limit = ctx.number("limit", SHOWN, least=1, most=MAX_SHOWN)
    page = None
    if not expression.text and ctx.query("live") != "true":
        page = await _page(ctx, found.name, start, limit)
    reading, columns = _reading(ctx), columns_of(ctx)
    records = [] if page is None else page.records
    return {
        **_messages_frame(ctx, snapshot, found),
        "messages": [_shown(Message(each, reading), columns) for each in records],
        "next_cursor": None if page is None else page.next_cursor,
        "is_search": bool(expression.text),
        "is_live": ctx.query("live") == "true",
        "filters": _filters(ctx, start, limit),
        "is_masked": bool(reading.masking),
        "columns": [each.text for each in columns],
    }


async def messages_without(ctx: Context, problem: str) -> Data:
    """Return the page without messages: the form as it was filled in, and what is wrong with it."""
    check_messages_shown(ctx)
    snapshot, found = await the_topic(ctx)
    start = ctx.query("start", positions.NEWEST)
    filters = _filters(ctx, start if start in positions.STARTS else positions.NEWEST, SHOWN)
    return {
        **_messages_frame(ctx, snapshot, found),
        "messages": [],
        "next_cursor": None,
        "is_search": False,
        "is_live": False,
        "filters": filters,
        "is_masked": bool(ctx.console.masking(found.name)),
        "columns": [],
        "problem": problem,
    }


def _messages_frame(ctx: Context, snapshot: Snapshot, found: TopicInfo) -> Data:
    """Return what is around the messages of a topic."""
    return {
        "tab": "messages",
        "topic": topic_row(snapshot, found),
        "partition_count": len(found.partitions),
        "formats": FORMATS,
        "topics": [each for each in snapshot.info.topics if not snapshot.info.topics[each].is_internal],
        "query": _query_string(ctx),
        "problem": "",
    }


def _filters(ctx: Context, start: str, limit: int) -> dict[str, Any]:
    names = ("at", "key", "text", "header", "where", "columns", "partition", "cursor")
    found: dict[str, Any] = {name: ctx.query(name) for name in names}
    found |= {"start": start, "limit": limit}
    return found | {name: ctx.query(name, "auto") or "auto" for name in ("key_format", "value_format")}


def _query_string(ctx: Context) -> str:
    from urllib.parse import urlencode

    kept = [(name, value) for name, value in ctx.request.query.multi_items() if name != "cursor" and value]
    return urlencode(kept)


async def _page(ctx: Context, topic: str, start: str, limit: int) -> positions.Page:
    cluster = ctx.admin.cluster
    ranges = await positions.ranges_of(cluster, topic, _partitions(ctx))
    try:
        if cursor := ctx.query("cursor"):
            begin = positions.parse_cursor(cursor)
        else:
            begin = await positions.start_offsets(cluster, topic, ranges, start, ctx.query("at"))
    except ValueError as error:
        raise UserError(str(error), status=400) from None
    read = positions.backward if start == positions.NEWEST else positions.forward
    return await read(cluster, topic, ranges, begin, limit)


async def scan_of(ctx: Context, limit: int, *, newest_first: bool = False) -> AsyncIterator[Progress]:
    """Return the scan that the filters of a request ask for; from the newest back only if that is allowed."""
    cluster, topic = ctx.admin.cluster, ctx.params["topic"]
    ranges = await positions.ranges_of(cluster, topic, _partitions(ctx))
    start = _start(ctx)
    is_back = newest_first and start == positions.NEWEST
    try:
        if cursor := ctx.query("cursor"):
            begin = positions.parse_cursor(cursor)
        else:
            chosen = positions.OLDEST if start == positions.NEWEST and not is_back else start
            begin = await positions.start_offsets(cluster, topic, ranges, chosen, ctx.query("at"))
    except ValueError as error:
        raise UserError(str(error), status=400) from None
    scan = search_back if is_back else search
    reading = _reading(ctx, SEARCHED_BYTES)
    return scan(cluster, reading, expression_of(ctx), begin, ranges, ctx.live.clock, limit=limit)


def _start(ctx: Context) -> str:
    found = ctx.query("start", positions.NEWEST) or positions.NEWEST
    if found not in positions.STARTS:
        raise UserError(f"start is one of {', '.join(positions.STARTS)}", status=400)
    return found


async def searching(ctx: Context) -> Download:
    """Send what a search finds, and how far it is."""
    check_messages_shown(ctx)
    limit = ctx.number("limit", SHOWN, least=1, most=MAX_SHOWN)
    scan = await scan_of(ctx, limit, newest_first=True)
    return Download(sse.CONTENT_TYPE, None, sse.kept_alive(sse.reported(_search_events(ctx, scan))))


async def _search_events(ctx: Context, scan: AsyncIterator[Progress]) -> AsyncIterator[bytes]:
    async for progress in scan:
        if progress.hits:
            yield sse.event("rows", _rows(ctx, progress.hits))
        yield sse.event("progress", {**progress.as_json(), "cursor": positions.cursor_text(progress.cursor)})


def _rows(ctx: Context, found: list[Message]) -> str:
    """Return messages as rows of the table."""
    columns = columns_of(ctx)
    shown = [_shown(each, columns) for each in found]
    return render(
        "parts/message_rows.html",
        messages=shown,
        columns=[each.text for each in columns],
        url=ctx.url,
        topic={"name": ctx.params["topic"]},
        filters=_filters(ctx, "", 0),
    )


async def tailing(ctx: Context) -> Download:
    """Send messages as they are written."""
    check_messages_shown(ctx)
    _, found = await the_topic(ctx)
    chosen = _partitions(ctx) or [index for index, each in found.partitions.items() if each.leader >= 0]
    return Download(sse.CONTENT_TYPE, None, sse.kept_alive(sse.reported(_tail_events(ctx, chosen))))


async def _tail_events(ctx: Context, chosen: list[int]) -> AsyncIterator[bytes]:
    async for update in tail(ctx.live, _reading(ctx), expression_of(ctx), chosen):
        if update.messages:
            yield sse.event("rows", _rows(ctx, list(reversed(update.messages))))
        yield sse.event("tick", update.as_json())


async def export(ctx: Context) -> Download:
    """Send messages as a file."""
    check_messages_shown(ctx)
    kind = ctx.query("format", CSV)
    if kind not in KINDS:
        raise UserError(f"format is one of {', '.join(KINDS)}", status=400)
    scan = await scan_of(ctx, ctx.number("limit", 100_000, least=1, most=MAX_EXPORTED))
    suffix = "jsonl" if kind == "json" else kind
    return Download(KINDS[kind], f"{ctx.params['topic']}.{suffix}", exported(kind, scan))


async def _the_record(ctx: Context) -> ConsumerRecord:
    partition, offset = ctx.params["partition"], ctx.params["offset"]
    if not (partition.isdecimal() and offset.isdecimal() and len(partition) < 10 and len(offset) < 19):
        raise UserError("A message is named by its partition and its offset.", status=404)
    return await _record_at(ctx, int(partition), int(offset))


async def _record_at(ctx: Context, partition: int, offset: int) -> ConsumerRecord:
    check_messages_shown(ctx)
    topic = ctx.params["topic"]
    found = await positions.one_record(ctx.admin.cluster, topic, partition, offset)
    if found is None:
        raise UserError(f"{topic}-{partition} has no message at offset {offset} any more.", status=404)
    return found


async def message(ctx: Context) -> Data:
    """Return one message."""
    record = await _the_record(ctx)
    limit = ALL_BYTES if ctx.query("all") == "true" else DETAIL_BYTES
    found = Message(record, _reading(ctx, limit))
    snapshot = await ctx.live.snapshot()
    return {
        "tab": "messages",
        "topic": topic_row(snapshot, (await the_topic(ctx))[1]),
        "message": found.as_json(),
        "pretty": {"key": found.key.pretty(), "value": found.value.pretty()},
        "can_load_more": found.value.is_cut and limit < ALL_BYTES,
        "all_bytes": ALL_BYTES,
        "inline_bytes": INLINE_BYTES,
        "shown_bytes": limit,
        "is_masked": bool(found.masking),
        "leader_epoch": record.leader_epoch,
        "filters": _filters(ctx, "", 0),
        "formats": FORMATS,
        "topics": [each for each in snapshot.info.topics if not snapshot.info.topics[each].is_internal],
    }


async def raw(ctx: Context) -> Download:
    """Send the value of a message as it is."""
    record = await _the_record(ctx)
    if Message(record, _reading(ctx)).masking:
        raise UserError("Parts of this topic are masked: its raw values cannot be downloaded.", status=403)
    part = record.key if ctx.query("part") == "key" else record.value

    async def whole() -> AsyncIterator[bytes]:
        yield part or b""

    name = f"{record.topic}-{record.partition}-{record.offset}.bin"
    return Download("application/octet-stream", name, whole())


async def production(ctx: Context) -> Data:
    """Return what the form for a new message needs; `partition` and `offset` name one to begin with."""
    snapshot, found = await the_topic(ctx)
    given: Data = dict(BLANK)
    if ctx.query("offset"):
        partition, offset = ctx.number("partition", 0), ctx.number("offset", 0)
        given = _editable(ctx, await _record_at(ctx, partition, offset))
    return {
        "given": given,
        "tab": "produce",
        "topic": topic_row(snapshot, found),
        "partition_count": len(found.partitions),
        "has_registry": ctx.console.decoders[ctx.live.name].has_registry,
    }


def _editable(ctx: Context, record: ConsumerRecord) -> Data:
    """Return a message as the form for a new one takes it."""
    if Message(record, _reading(ctx)).masking:
        raise UserError("Parts of this message are masked: it cannot be edited.", status=403)
    if len(record.key or b"") + len(record.value or b"") > PARSED_BYTES:
        raise UserError(
            "The message is too large to be edited here.", "Download it, or send it again as it is."
        )
    message = Message(record, _reading(ctx))
    given = dict(BLANK)
    for part, raw, decoded in (("key", record.key, message.key), ("value", record.value, message.value)):
        given[part], given[f"{part}_format"] = as_typed(raw, decoded)
    lines = [as_line(name, value) for name, value in record.headers]
    given["headers"] = "\n".join(each for each in lines if each is not None)
    given["left_out"] = [
        name for (name, _), line in zip(message.headers(), lines, strict=True) if line is None
    ]
    return given


async def produce(ctx: Context, form: Form) -> Outcome:
    """Write a message."""
    topic = ctx.params["topic"]
    headers = headers_of(form)
    registry_url = ctx.live.options.registry_url
    key = await encoded(form, "key", topic, headers, registry_url)
    value = await encoded(form, "value", topic, headers, registry_url)
    partition = form.text("partition", "")
    producer = await ctx.live.producer()
    stored = await producer.send_and_wait(
        topic,
        value,
        key,
        partition=form.whole("partition", least=0) if partition else None,
        headers=headers,
    )
    place = {"partition": stored.partition, "offset": stored.offset}
    to = ctx.url("topics", topic, "messages")
    return Outcome(f"Stored in partition {stored.partition} at offset {stored.offset}.", to, place)


async def resend(ctx: Context, form: Form) -> Outcome:
    """Write a message once more, as it is, to the same topic or to another."""
    record = await _the_record(ctx)
    target = form.text("to", "") or record.topic
    if Message(record, _reading(ctx)).masking and target != record.topic:
        raise UserError(
            "Parts of this topic are masked: its messages cannot be copied elsewhere.", status=403
        )
    producer = await ctx.live.producer()
    stored = await producer.send_and_wait(target, record.value, record.key, headers=record.headers)
    place = {"topic": target, "partition": stored.partition, "offset": stored.offset}
    message = f"Sent to {target}: partition {stored.partition}, offset {stored.offset}."
    return Outcome(message, ctx.url("topics", target, "messages"), place)


async def check_expression(ctx: Context, form: Form) -> Outcome:
    """Say whether an expression can be read."""
    parse(form.text("where"))
    return Outcome("The expression can be read.", ctx.url("topics", ctx.params["topic"], "messages"))


_ONE = "/topics/{topic}/messages/{partition}/{offset}"

SECTION = Section(
    "messages",
    "Messages",
    "",
    "",
    views=(
        View(
            "/topics/{topic}/messages",
            "Messages of a topic",
            "messages.html",
            messages,
            query=(*READ_QUERY, *FILTER_QUERY, Parameter("cursor", "Where to continue: 0=42,1=17")),
            correct=messages_without,
        ),
        View(_ONE, "One message", "message.html", message, query=READ_QUERY, fragment="parts/message.html"),
        View(
            "/topics/{topic}/produce",
            "What a new message needs",
            "produce.html",
            production,
            query=(
                Parameter("partition", "With an offset: the message to begin with", "integer"),
                Parameter("offset", "Its offset", "integer"),
            ),
        ),
    ),
    actions=(
        Action(
            "/topics/{topic}/messages",
            "Produce a message",
            produce,
            fields=(
                Parameter("key", "The key"),
                Parameter("value", "The value"),
                Parameter("key_format", "text, json, hex, base64, registry or null"),
                Parameter("value_format", "the same"),
                Parameter("headers", "Lines of name: value, or an object", "object"),
                Parameter("partition", "Absent: by the key", "integer"),
            ),
        ),
        Action(
            f"{_ONE}/resend",
            "Send a message again",
            resend,
            fields=(Parameter("to", "Another topic"),),
        ),
        Action(
            "/topics/{topic}/check-expression",
            "Check an expression",
            check_expression,
            fields=(Parameter("where", "The expression", required=True),),
            is_change=False,
        ),
    ),
    streams=(
        Stream(
            "/topics/{topic}/search",
            "Search a topic (server-sent events)",
            searching,
            query=(*READ_QUERY, *FILTER_QUERY),
        ),
        Stream(
            "/topics/{topic}/tail", "Messages as they come (server-sent events)", tailing, query=READ_QUERY
        ),
        Stream(
            "/topics/{topic}/export",
            "Messages as a file",
            export,
            query=(*READ_QUERY, *FILTER_QUERY, Parameter("format", "csv, json or parquet")),
        ),
        Stream(f"{_ONE}/raw", "The bytes of a message", raw, query=(Parameter("part", "key or value"),)),
    ),
)
