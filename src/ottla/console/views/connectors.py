"""Connectors, by the REST API of Kafka Connect: list, settings from validate, pause, restart, delete."""

from __future__ import annotations

import json
from typing import Any

from ottla.connect.config.keys import HIDDEN, PASSWORD
from ottla.connect.config.secrets import masked_by_names, unmasked
from ottla.connect.errors import WrongConfig
from ottla.console.context import Context
from ottla.console.services.connect_client import ConnectClient
from ottla.console.services.http_json import ServiceRefused, ServiceUnavailable
from ottla.console.table import Action, Data, Form, Outcome, Parameter, Section, UserError, View

CONTROLS = {"pause": "PUT", "resume": "PUT", "stop": "PUT", "restart": "POST"}
OTHER = "Other settings"
NOT_FOUND = 404
_NAMES = ("name", "connector.class")
CONTROLS_IN = {"PAUSED": ("resume", "stop", "restart"), "STOPPED": ("resume",)}
"""What is offered in a state; in all others, all but resume."""


def _connect(ctx: Context) -> ConnectClient:
    found = ctx.console.connects.get(ctx.live.name)
    if found is None:
        raise UserError(
            "No Kafka Connect is configured for this cluster.", "Start the console with --connect URL.", 404
        )
    return found


async def connectors(ctx: Context) -> Data:
    """Return the connectors and their states."""
    connect = ctx.console.connects.get(ctx.live.name)
    page: Data = {
        "is_configured": False,
        "is_lost": False,
        "connectors": [],
        "plugins": [],
        "url_of_connect": "",
        "reason": "",
    }
    if connect is None:
        hint = "Start one with “ottla up --connect”, or “ottla connect serve” and the console with --connect."
        return {**page, "reason": hint}
    try:
        found = await connect.connectors()
    except ServiceUnavailable as error:
        return {
            **page,
            "is_lost": True,
            "reason": f"{error}. Start it (ottla connect serve), or correct its URL.",
        }
    return {
        **page,
        "is_configured": True,
        "url_of_connect": connect.url,
        "connectors": [_row(name, each) for name, each in sorted(found.items())],
        "plugins": await connect.plugins(),
    }


def _row(name: str, found: dict[str, Any]) -> dict[str, Any]:
    status, info = found.get("status", {}), found.get("info", {})
    tasks = status.get("tasks", [])
    return {
        "name": name,
        "type": status.get("type", info.get("type", "")),
        "state": status.get("connector", {}).get("state", ""),
        "class": info.get("config", {}).get("connector.class", ""),
        "tasks": len(tasks),
        "failed": sum(each.get("state") == "FAILED" for each in tasks),
    }


async def connector(ctx: Context) -> Data:
    """Return a connector: its state, its tasks, its settings."""
    connect, name = _connect(ctx), ctx.params["connector"]
    info = await connect.get("connectors", name)
    status = await connect.status(name)
    config = dict(info.get("config", {}))
    secrets = await connect.secrets(name, config)
    config = {key: HIDDEN if key in secrets else each for key, each in masked_by_names(config).items()}
    return {
        "connector": _row(name, {"info": info, "status": status}),
        "worker": status.get("connector", {}).get("worker_id", ""),
        "trace": status.get("connector", {}).get("trace", ""),
        "tasks": [
            {name: each.get(name, "") for name in ("id", "state", "worker_id", "trace")}
            for each in status.get("tasks", [])
        ],
        "config": dict(sorted(config.items())),
        "controls": CONTROLS_IN.get(_row(name, {"status": status})["state"], ("pause", "stop", "restart")),
        "topics": (await connect.maybe("connectors", name, "topics") or {}).get(name, {}).get("topics", []),
    }


async def offsets(ctx: Context) -> Data:
    """Return how far a connector is: positions in its source, or the offsets of its topics."""
    connect, name = _connect(ctx), ctx.params["connector"]
    status = await connect.status(name)
    found = await connect.maybe("connectors", name, "offsets")
    listed = [] if found is None else list(found.get("offsets", []))
    return {
        "connector": _row(name, {"status": status}),
        "is_known": found is not None,
        "offsets": [
            {part: json.dumps(each.get(part), ensure_ascii=False) for part in ("partition", "offset")}
            for each in listed
        ],
        "text": json.dumps({"offsets": listed}, indent=2, ensure_ascii=False),
    }


async def set_offsets(ctx: Context, form: Form) -> Outcome:
    """Set the offsets of a stopped connector."""
    connect, name = _connect(ctx), ctx.params["connector"]
    given = form.values.get("offsets")
    try:
        body = {"offsets": given} if isinstance(given, list) else json.loads(form.text("offsets"))
    except ValueError as error:
        raise UserError(f"The offsets are not JSON: {error}.") from None
    found = await connect.send("PATCH", body, "connectors", name, "offsets")
    return Outcome(str(found.get("message", "The offsets are set.")), ctx.url("connectors", name, "offsets"))


async def reset_offsets(ctx: Context, form: Form) -> Outcome:
    """Forget the offsets of a stopped connector: it begins anew."""
    connect, name = _connect(ctx), ctx.params["connector"]
    if form.text("confirm", "") != name:
        raise UserError(f"Type the connector's name, {name}, to confirm.")
    found = await connect.send("DELETE", None, "connectors", name, "offsets")
    return Outcome(
        str(found.get("message", "The offsets are reset.")), ctx.url("connectors", name, "offsets")
    )


async def configuration(ctx: Context) -> Data:
    """Return the form of a connector, from what its class says about its settings."""
    connect = _connect(ctx)
    name, plugin = ctx.query("name"), ctx.query("class")
    config: dict[str, str] = {}
    if name:
        config = await _stored(connect, name)
        plugin = config.get("connector.class", plugin)
    return await _form(connect, name, plugin, config)


async def _stored(connect: ConnectClient, name: str) -> dict[str, str]:
    """Return the settings of a connector, with those secrets that Kafka Connect does not hide."""
    try:
        return dict(await connect.get("connectors", name, "config"))
    except ServiceRefused as error:
        if error.status != NOT_FOUND:
            raise
        return {}


async def _form(connect: ConnectClient, name: str, plugin: str, config: dict[str, str]) -> Data:
    plugins = await connect.plugins()
    groups: dict[str, list[dict[str, Any]]] = {}
    errors = 0
    if plugin:
        given = {"connector.class": plugin, **config}
        checked = await connect.validate(
            plugin.rpartition(".")[2] or plugin, {"name": name or "new", **given}
        )
        errors = int(checked.get("error_count", 0))
        for each in checked.get("configs", []):
            field = _field(each, given)
            if field["is_visible"]:
                groups.setdefault(field["group"], []).append(field)
        known = {each["definition"]["name"] for each in checked.get("configs", [])}
        shown = masked_by_names(config)
        others = [_other(each, shown[each]) for each in sorted(config) if each not in {*known, *_NAMES}]
        if others:
            groups[OTHER] = others
    return {
        "name": name,
        "chosen_class": plugin,
        "plugins": plugins,
        "groups": groups,
        "errors": errors,
        "is_new": not name,
        "is_checked": bool(config),
    }


def _other(name: str, value: str) -> dict[str, Any]:
    """Return the field of a setting that the class does not declare, such as an override of its client's."""
    definition = {"name": name, "group": OTHER}
    return _field({"definition": definition, "value": {}}, {name: value})


def _field(each: dict[str, Any], given: dict[str, str]) -> dict[str, Any]:
    definition, value = each["definition"], each["value"]
    name = definition["name"]
    default = definition.get("default_value")
    return {
        "name": name,
        "title": definition.get("display_name") or name,
        "doc": definition.get("documentation") or "",
        "type": definition.get("type", "STRING"),
        "is_secret": definition.get("type") == PASSWORD,
        "is_required": bool(definition.get("required")),
        "default": default or "",
        "value": _shown(definition, given),
        "choices": value.get("recommended_values") or [],
        "errors": value.get("errors") or [],
        "is_visible": value.get("visible", True) and name not in _NAMES,
        "group": definition.get("group") or "Settings",
        "is_important": definition.get("importance") == "HIGH",
    }


def _shown(definition: dict[str, Any], given: dict[str, str]) -> str:
    name = definition["name"]
    if definition.get("type") == PASSWORD and given.get(name):
        return HIDDEN
    return masked_by_names({name: given.get(name, "")})[name]


async def _config(ctx: Context, form: Form) -> dict[str, str]:
    """Return the settings of a form; those that it shows as hidden stay as they are stored."""
    found = {key: value for key, value in form.prefixed("config.").items() if value.strip()}
    for line in form.text("more", "").splitlines():
        name, equals, value = line.partition("=")
        if line.strip() and not (equals and name.strip()):
            raise UserError(f"{line!r} is not a setting: write name=value, one per line.")
        if line.strip():
            found[name.strip()] = value.strip()
    found["connector.class"] = form.text("class")
    name = form.text("name", "").strip()
    try:
        return unmasked(found, await _stored(_connect(ctx), name) if name else None)
    except WrongConfig as error:
        raise UserError(f"{error}.") from None


async def check(ctx: Context, form: Form) -> Outcome:
    """Validate settings without saving them."""
    config = await _config(ctx, form)
    page = await _form(_connect(ctx), form.text("name", ""), form.text("class"), config)
    page |= {"is_checked": True, "is_new": form.text("is_new", "true") == "true"}
    return Outcome("", "", {"error_count": page["errors"]}, page, "connector_form.html")


async def save(ctx: Context, form: Form) -> Outcome:
    """Create a connector, or change its settings."""
    connect, name = _connect(ctx), form.text("name").strip()
    found = await connect.send("PUT", await _config(ctx, form), "connectors", name, "config")
    return Outcome(
        f"Connector {name} is saved.", ctx.url("connectors", name), {"name": found.get("name", name)}
    )


async def control(ctx: Context, form: Form) -> Outcome:
    """Pause, resume, stop or restart a connector, or restart one of its tasks."""
    connect, name, what = _connect(ctx), ctx.params["connector"], form.text("what")
    if what not in CONTROLS:
        raise UserError(f"what is one of {', '.join(CONTROLS)}")
    task = form.text("task", "")
    if task:
        await connect.send("POST", None, "connectors", name, "tasks", form.whole("task", least=0), "restart")
    elif what == "restart":
        await connect.send("POST", None, "connectors", name, "restart", includeTasks="true")
    else:
        await connect.send(CONTROLS[what], None, "connectors", name, what)
    return Outcome(f"{name}: {what} was asked for.", ctx.url("connectors", name))


async def delete(ctx: Context, form: Form) -> Outcome:
    """Delete a connector."""
    name = ctx.params["connector"]
    if form.text("confirm", "") != name:
        raise UserError(f"Type the connector's name, {name}, to confirm.")
    await _connect(ctx).send("DELETE", None, "connectors", name)
    return Outcome(f"Connector {name} is deleted.", ctx.url("connectors"))


_SETTINGS = (
    Parameter("name", "The connector", required=True),
    Parameter("class", "Its class", required=True),
    Parameter("config", "Settings by name; what is shown as hidden stays as it is", "object"),
)

SECTION = Section(
    "connectors",
    "Connectors",
    "/connectors",
    "c",
    views=(
        View("/connectors", "List of connectors", "connectors.html", connectors),
        View(
            "/connectors/{connector}",
            "A connector and its tasks",
            "connector.html",
            connector,
            fragment="parts/connector_state.html",
        ),
        View("/connectors/{connector}/offsets", "Offsets of a connector", "connector_offsets.html", offsets),
        View(
            "/configure-connector",
            "Settings of a connector, explained",
            "connector_form.html",
            configuration,
            query=(Parameter("name", "An existing connector"), Parameter("class", "The class of a new one")),
        ),
    ),
    actions=(
        Action("/check-connector", "Validate settings", check, fields=_SETTINGS, is_change=False),
        Action("/connectors", "Save a connector", save, fields=_SETTINGS),
        Action(
            "/connectors/{connector}/control",
            "Control a connector",
            control,
            fields=(
                Parameter("what", ", ".join(CONTROLS), required=True),
                Parameter("task", "One task only", "integer"),
            ),
        ),
        Action(
            "/connectors/{connector}/offsets",
            "Set the offsets of a connector",
            set_offsets,
            fields=(Parameter("offsets", "As listed: [{partition, offset}]", "array", required=True),),
        ),
        Action(
            "/connectors/{connector}/reset-offsets",
            "Reset the offsets of a connector",
            reset_offsets,
            fields=(Parameter("confirm", "The connector's name", required=True),),
        ),
        Action(
            "/connectors/{connector}/delete",
            "Delete a connector",
            delete,
            fields=(Parameter("confirm", "The connector's name", required=True),),
        ),
    ),
    group="Data",
)
