"""Copies the messages of a topic that match its filters to another topic: dead letters, a sample."""

from __future__ import annotations

from collections.abc import AsyncIterator

from ottla.console.context import Context
from ottla.console.messages.search import Progress
from ottla.console.table import Action, Form, Outcome, Parameter, Section, UserError
from ottla.console.views.messages import FILTER_QUERY, READ_QUERY, check_messages_shown, scan_of

USUAL, MAX_COPIED = 1_000, 100_000
MAX_DURATION_MS = 45_000
"""Browsers and this server wait no longer than a minute."""


async def copy(ctx: Context, form: Form) -> Outcome:
    """Copy messages, with their keys, headers and times, from the oldest on."""
    check_messages_shown(ctx)
    topic, target = ctx.params["topic"], form.text("to").strip()
    if target == topic:
        raise UserError("A topic is copied to another one.", "To write a message again, open it.")
    if ctx.console.masking(topic):
        raise UserError("Parts of this topic are masked: its messages cannot be copied.", status=403)
    limit = form.whole("limit", USUAL, least=1)
    if limit > MAX_COPIED:
        hint = "Copy the rest from a later offset or time."
        raise UserError(f"At most {MAX_COPIED:,} messages are copied at once.", hint)
    await ctx.admin.describe_topics([target])  # it is not created by a slip of the pen
    copied, last = await _write(ctx, target, await scan_of(ctx, limit))
    what = "1 message is" if copied == 1 else f"{copied:,} messages are"
    message = f"{what} copied from {topic} to {target}."
    if not last.is_done:
        message += (
            f" That took long, so only {last.scanned:,} of {last.total:,} messages were looked at:"
            " copy the rest from a later time."
        )
    data = {"copied": copied, "scanned": last.scanned, "total": last.total}
    return Outcome(message, ctx.url("topics", target, "messages"), data)


async def _write(ctx: Context, target: str, scan: AsyncIterator[Progress]) -> tuple[int, Progress]:
    """Write what a scan finds; return how much that is, and how far the scan came in the time it has."""
    producer, clock = await ctx.live.producer(), ctx.live.clock
    copied, until = 0, clock.mono_ms() + MAX_DURATION_MS
    async for progress in scan:
        if any(each.masking for each in progress.hits):
            raise UserError("Some of these messages come from a topic whose parts are masked.", status=403)
        deliveries = [
            await producer.send(
                target,
                each.record.value,
                each.record.key,
                headers=each.record.headers,
                timestamp_ms=each.record.timestamp,
            )
            for each in progress.hits
        ]
        for delivery in deliveries:
            await delivery
        copied += len(deliveries)
        if clock.mono_ms() > until:
            break
    return copied, progress


SECTION = Section(
    "copying",
    "Messages",
    "",
    "",
    actions=(
        Action(
            "/topics/{topic}/copy",
            "Copy messages to another topic",
            copy,
            fields=(
                Parameter("to", "The other topic", required=True),
                Parameter("limit", f"At most {MAX_COPIED}", "integer"),
            ),
            query=(*READ_QUERY, *FILTER_QUERY[:-1]),
        ),
    ),
)
