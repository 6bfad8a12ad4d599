"""Brokers: what they lead and hold, their disks and configs."""

from __future__ import annotations

from ottla.console.access.roles import ADMIN
from ottla.console.context import Context
from ottla.console.table import Action, Data, Form, Outcome, Parameter, Section, UserError, View
from ottla.console.views.overview import broker_rows
from ottla.console.views.topics import config_row


async def brokers(ctx: Context) -> Data:
    """Return the brokers."""
    snapshot = await ctx.live.snapshot()
    features = await ctx.admin.features()
    return {
        "brokers": broker_rows(snapshot),
        "cluster_id": snapshot.info.cluster_id,
        "features": dict(sorted(features.items())),
        "not_preferred": sum(
            bool(each.replicas) and each.leader >= 0 and each.leader != each.replicas[0]
            for _, each in snapshot.all_partitions()
        ),
    }


def _node(ctx: Context) -> int:
    given = ctx.params["node"]
    if not (given.isascii() and given.isdigit() and len(given) <= 10):
        raise UserError("A broker is named by its number.", status=404)
    return int(given)


async def broker(ctx: Context) -> Data:
    """Return a broker with its disks and configs."""
    node_id = _node(ctx)
    snapshot = await ctx.live.snapshot()
    row = next((each for each in broker_rows(snapshot) if each["id"] == node_id), None)
    if row is None:
        raise UserError(f"There is no broker {node_id}.", status=404)
    configs = []
    if row["is_alive"]:
        configs = [config_row(each) for each in await ctx.admin.broker_configs(node_id, documentation=True)]
    wanted = ctx.query("q").lower()
    configs = [each for each in configs if wanted in each["name"].lower()]
    configs.sort(key=lambda each: (not each["is_set"], each["is_read_only"], each["name"]))
    return {
        "broker": row,
        "disks": [
            {
                "path": each.path,
                "replicas": each.replicas,
                "bytes": each.log_bytes,
                "total": each.total_bytes,
                "usable": each.usable_bytes,
                "used": each.used,
                "error": each.error,
            }
            for each in snapshot.disks_of(node_id)
        ],
        "configs": configs,
        "q": ctx.query("q"),
    }


async def alter_configs(ctx: Context, form: Form) -> Outcome:
    """Set a dynamic config of a broker, or reset it."""
    node_id, name = _node(ctx), form.text("name")
    target = None if form.flag("all_brokers") else node_id
    if form.flag("reset"):
        await ctx.admin.alter_broker_configs(target, unset=[name])
    else:
        await ctx.admin.alter_broker_configs(target, set_to={name: form.text("value", "")})
    return Outcome(f"Changed {name}.", ctx.url("brokers", node_id))


async def elect(ctx: Context, form: Form) -> Outcome:
    """Elect the preferred leaders of all partitions."""
    outcomes = await ctx.admin.elect_leaders()
    failed = [
        error
        for error in outcomes.values()
        if error is not None and "NOT_NEEDED" not in error.code.name.upper()
    ]
    if failed:
        raise failed[0]
    return Outcome(
        "The preferred replicas lead their partitions.", ctx.url("brokers"), {"elected": len(outcomes)}
    )


async def unregister(ctx: Context, form: Form) -> Outcome:
    """Unregister a broker that is gone for good."""
    node_id = _node(ctx)
    if form.text("confirm", "") != str(node_id):
        raise UserError(f"Type the broker's number, {node_id}, to confirm.")
    await ctx.admin.unregister_broker(node_id)
    return Outcome(f"Broker {node_id} is unregistered.", ctx.url("brokers"))


SECTION = Section(
    "brokers",
    "Brokers",
    "/brokers",
    "b",
    views=(
        View("/brokers", "List of brokers", "brokers.html", brokers),
        View(
            "/brokers/{node}",
            "A broker, its disks and configs",
            "broker.html",
            broker,
            query=(Parameter("q", "Part of a config's name"),),
        ),
    ),
    actions=(
        Action("/brokers/elect-leaders", "Elect preferred leaders", elect),
        Action(
            "/brokers/{node}/configs",
            "Change a config of a broker",
            alter_configs,
            ADMIN,
            fields=(
                Parameter("name", "The config", required=True),
                Parameter("value", "Its new value"),
                Parameter("reset", "true: back to its default", "boolean"),
                Parameter("all_brokers", "true: of all brokers", "boolean"),
            ),
            shows_value=True,
        ),
        Action(
            "/brokers/{node}/unregister",
            "Unregister a broker",
            unregister,
            ADMIN,
            fields=(Parameter("confirm", "The broker's number", required=True),),
        ),
    ),
    group="Cluster",
)
