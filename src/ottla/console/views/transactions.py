"""Transactions: open, prepared and hanging ones; abort."""

from __future__ import annotations

from ottla.client.admin import OpenTransaction
from ottla.common.ids import TopicPartition
from ottla.console.context import Context
from ottla.console.table import MAX_INT64, Action, Data, Form, Outcome, Parameter, Section, UserError, View

HANGING_AFTER_MS = 900_000
MAX_PARTITIONS = 2_000
MAX_EPOCH = 2**15 - 1


async def transactions(ctx: Context) -> Data:
    """Return the transactional ids that match."""
    wanted, state = ctx.query("q").lower(), ctx.query("state")
    rows = [
        {
            "id": each.transactional_id,
            "producer_id": each.producer_id,
            "state": "Prepared" if each.is_prepared else each.state,
            "coordinator": each.coordinator,
        }
        for each in await ctx.admin.list_transactions()
        if wanted in each.transactional_id.lower()
    ]
    if state:
        rows = [each for each in rows if each["state"] == state]
    return {"transactions": rows, "q": ctx.query("q"), "state": state}


async def transaction(ctx: Context) -> Data:
    """Return a transactional id."""
    found = await ctx.admin.describe_transaction(ctx.params["id"])
    now = ctx.live.clock.wall_ms()
    return {
        "transaction": {
            "id": found.transactional_id,
            "state": "Prepared" if found.is_prepared else found.state,
            "producer_id": found.producer_id,
            "producer_epoch": found.producer_epoch,
            "timeout_ms": found.timeout_ms,
            "start_ms": found.start_ms,
            "age_s": None if found.start_ms is None else max(0, now - found.start_ms) / 1000,
            "coordinator": found.coordinator,
            "partitions": [{"topic": at.topic, "partition": at.partition} for at in found.partitions],
        }
    }


async def hanging(ctx: Context) -> Data:
    """Search for transactions that no coordinator will end."""
    snapshot = await ctx.live.snapshot()
    topic = ctx.query("topic")
    minutes = ctx.number("minutes", HANGING_AFTER_MS // 60_000, least=0)
    led = [at for at, each in snapshot.all_partitions() if each.leader >= 0 and topic in ("", at.topic)]
    found = await ctx.admin.hanging_transactions(led[:MAX_PARTITIONS], older_than_ms=minutes * 60_000)
    rows = [
        {
            "topic": each.partition.topic,
            "partition": each.partition.partition,
            "producer_id": each.producer_id,
            "producer_epoch": each.producer_epoch,
            "coordinator_epoch": each.coordinator_epoch,
            "start_offset": each.start_offset,
            "last_timestamp": each.last_timestamp_ms,
        }
        for each in found
    ]
    return {"hanging": rows, "searched": min(len(led), MAX_PARTITIONS), "minutes": minutes, "topic": topic}


async def abort(ctx: Context, form: Form) -> Outcome:
    """Abort the open transaction of a transactional id, and fence its producer."""
    name = ctx.params["id"]
    if form.text("confirm", "") != name:
        raise UserError(f"Type the transactional id, {name}, to confirm.")
    await ctx.admin.abort_transaction(name)
    return Outcome(f"The transaction of {name} is aborted.", ctx.url("transactions", name))


async def abort_hanging(ctx: Context, form: Form) -> Outcome:
    """Write an abort marker for a hanging transaction."""
    opened = OpenTransaction(
        TopicPartition(form.text("topic"), form.whole("partition", least=0)),
        form.whole("producer_id", most=MAX_INT64),
        form.whole("producer_epoch", most=MAX_EPOCH),
        form.whole("start_offset", most=MAX_INT64),
        0,
        form.whole("coordinator_epoch"),
    )
    await ctx.admin.abort_open_transaction(opened)
    return Outcome(
        f"The hanging transaction in {opened.partition} is aborted.", ctx.url("hanging-transactions")
    )


SECTION = Section(
    "transactions",
    "Transactions",
    "/transactions",
    "x",
    views=(
        View(
            "/transactions",
            "List of transactional ids",
            "transactions.html",
            transactions,
            query=(Parameter("q", "Part of the id"), Parameter("state", "Ongoing, Prepared, ...")),
        ),
        View("/transactions/{id}", "A transactional id", "transaction.html", transaction),
        View(
            "/hanging-transactions",
            "Transactions that no coordinator will end",
            "hanging.html",
            hanging,
            query=(
                Parameter("topic", "Of one topic only"),
                Parameter("minutes", "Older than this", "integer"),
            ),
        ),
    ),
    actions=(
        Action(
            "/transactions/{id}/abort",
            "Abort a transaction",
            abort,
            fields=(Parameter("confirm", "The transactional id", required=True),),
        ),
        Action(
            "/hanging-transactions/abort",
            "Abort a hanging transaction",
            abort_hanging,
            fields=tuple(
                Parameter(name, "As listed", required=True)
                for name in (
                    "topic",
                    "partition",
                    "producer_id",
                    "producer_epoch",
                    "start_offset",
                    "coordinator_epoch",
                )
            ),
        ),
    ),
)
