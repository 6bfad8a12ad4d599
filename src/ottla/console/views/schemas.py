"""Schemas: subjects, versions with their differences, compatibility checked before saving."""

from __future__ import annotations

import asyncio
import difflib
import json
from typing import Any

from ottla.console.access.roles import ADMIN
from ottla.console.context import Context
from ottla.console.services.http_json import ServiceRefused, ServiceUnavailable
from ottla.console.services.registry_http import RegistryHttp
from ottla.console.table import Action, Data, Form, Outcome, Parameter, Section, UserError, View
from ottla.registry.formats.levels import LEVELS

MODES = ("READWRITE", "READONLY", "IMPORT")
TYPES = ("AVRO", "JSON", "PROTOBUF")
MAX_DESCRIBED = 200
MAX_COMPARED = 1_000
"""Lines from the first difference to the last; where there are more, all are shown as replaced."""


def _registry(ctx: Context) -> RegistryHttp:
    found = ctx.console.registries.get(ctx.live.name)
    if found is None:
        raise UserError(
            "No schema registry is configured for this cluster.",
            "Start one with `ottla registry serve`, and the console with --registry URL.",
            404,
        )
    return found


async def schemas(ctx: Context) -> Data:
    """Return the subjects that match, each with its latest version."""
    registry = ctx.console.registries.get(ctx.live.name)
    page: Data = {
        "subjects": [],
        "total": 0,
        "q": ctx.query("q"),
        "level": "",
        "levels": LEVELS,
        "mode": "",
        "modes": MODES,
        "deleted": [],
        "shows_deleted": ctx.query("deleted") == "true",
        "reason": "",
        "is_lost": False,
    }
    if registry is None:
        hint = "Start one with “ottla registry serve”, and the console with --registry URL."
        return {**page, "is_configured": False, "reason": hint, "url_of_registry": ""}
    page["url_of_registry"] = registry.url
    wanted = ctx.query("q").lower()
    try:
        names = [each for each in await registry.subjects() if wanted in each.lower()]
        page["level"] = await registry.level()
        page["mode"] = await registry.mode()
        if page["shows_deleted"]:
            page["deleted"] = [each for each in await registry.deleted_subjects() if wanted in each.lower()]
    except ServiceUnavailable as error:
        return {
            **page,
            "is_configured": False,
            "is_lost": True,
            "reason": f"{error}. Start it (ottla registry serve), or correct its URL.",
        }
    latest = await registry.latest_of(names[:MAX_DESCRIBED])
    rows = [
        {
            "subject": name,
            "version": latest[name].get("version"),
            "id": latest[name].get("id"),
            "type": latest[name].get("schemaType", "AVRO"),
        }
        for name in names[:MAX_DESCRIBED]
    ]
    return {**page, "is_configured": True, "subjects": rows, "total": len(names)}


async def subject(ctx: Context) -> Data:
    """Return a subject: one version, and how it differs from the one before."""
    registry, name = _registry(ctx), ctx.params["subject"]
    versions = sorted(await registry.get("subjects", name, "versions"))
    chosen = ctx.number("version", versions[-1])
    found = await registry.get("subjects", name, "versions", chosen)
    against = ctx.number("against", max((each for each in versions if each < chosen), default=0))
    older = await registry.get("subjects", name, "versions", against) if against else None
    return {
        "subject": name,
        "versions": versions,
        "schema": {
            "version": found["version"],
            "id": found["id"],
            "guid": found.get("guid", ""),
            "type": found.get("schemaType", "AVRO"),
            "text": pretty(found),
            "references": found.get("references", []),
        },
        "against": against,
        "diff": [] if older is None else await asyncio.to_thread(difference, pretty(older), pretty(found)),
        "level": await registry.level(name),
        "levels": LEVELS,
        "mode": await registry.mode(name),
        "modes": MODES,
        "types": TYPES,
    }


def pretty(schema: dict[str, Any]) -> str:
    """Return the text of a schema on several lines."""
    text = str(schema["schema"])
    if schema.get("schemaType") == "PROTOBUF":
        return text
    try:
        return json.dumps(json.loads(text), indent=2, ensure_ascii=False)
    except ValueError:
        return text


def difference(older: str, newer: str) -> list[dict[str, str]]:
    """Return the lines of two texts, each with what happened to it: kept, added or removed."""
    old, new = older.splitlines(), newer.splitlines()
    begin = 0
    while begin < min(len(old), len(new)) and old[begin] == new[begin]:
        begin += 1
    end = 0
    while end < min(len(old), len(new)) - begin and old[-1 - end] == new[-1 - end]:
        end += 1
    lines = [("kept", each) for each in old[:begin]]
    lines += _changes(old[begin : len(old) - end], new[begin : len(new) - end])
    lines += [("kept", each) for each in old[len(old) - end :]]
    return [{"kind": kind, "text": text} for kind, text in lines]


def _changes(old: list[str], new: list[str]) -> list[tuple[str, str]]:
    if max(len(old), len(new)) > MAX_COMPARED:  # the comparison takes time by the square of it, or worse
        return [("removed", each) for each in old] + [("added", each) for each in new]
    found: list[tuple[str, str]] = []
    for kind, i, j, k, m in difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if kind == "equal":
            found += [("kept", each) for each in old[i:j]]
        else:
            found += [("removed", each) for each in old[i:j]] + [("added", each) for each in new[k:m]]
    return found


async def creation(ctx: Context) -> Data:
    """Return what the form for a new schema needs."""
    _registry(ctx)
    name = ctx.query("subject")
    text, kind = "", "AVRO"
    if name:
        found = await _registry(ctx).get("subjects", name, "versions", "latest")
        text, kind = pretty(found), found.get("schemaType", "AVRO")
    return {"subject": name, "text": text, "type": kind, "types": TYPES, "checked": None}


def _body(form: Form) -> dict[str, Any]:
    body: dict[str, Any] = {"schema": form.text("schema")}
    kind = form.text("type", "AVRO") or "AVRO"
    if kind not in TYPES:
        raise UserError(f"type is one of {', '.join(TYPES)}")
    if kind != "AVRO":
        body["schemaType"] = kind
    references = form.text("references", "").strip()
    if references:
        try:
            body["references"] = json.loads(references)
        except ValueError:
            raise UserError("References are a JSON array of {name, subject, version}.") from None
    return body


async def check(ctx: Context, form: Form) -> Outcome:
    """Check a schema against the versions of its subject, without saving it."""
    registry, name, body = _registry(ctx), form.text("subject").strip(), _body(form)
    try:
        found = await registry.post(
            body, "compatibility", "subjects", name, "versions", "latest", verbose="true"
        )
        checked = {"ok": bool(found["is_compatible"]), "messages": list(found.get("messages") or [])}
    except ServiceRefused as error:
        if error.code != 40401 and error.status != 404:
            raise
        checked = {"ok": True, "messages": ["The subject is new: there is nothing to be compatible with."]}
    page = {"subject": name, "text": body["schema"], "type": body.get("schemaType", "AVRO"), "types": TYPES}
    return Outcome("", "", checked, {**page, "checked": checked}, "schema_create.html")


async def register(ctx: Context, form: Form) -> Outcome:
    """Register a schema, if it is compatible."""
    registry, name, body = _registry(ctx), form.text("subject").strip(), _body(form)
    found = await registry.post(body, "subjects", name, "versions")
    return Outcome(
        f"{name} has a new schema, id {found['id']}.", ctx.url("schemas", name), {"id": found["id"]}
    )


async def set_level(ctx: Context, form: Form) -> Outcome:
    """Set the compatibility level of a subject, or the global one."""
    registry, name, level = _registry(ctx), form.text("subject", ""), form.text("level")
    if level not in LEVELS:
        raise UserError(f"level is one of {', '.join(LEVELS)}")
    await registry.put({"compatibility": level}, "config", *([name] if name else []))
    to = ctx.url("schemas", name) if name else ctx.url("schemas")
    return Outcome(f"The compatibility level is {level} now.", to)


async def set_mode(ctx: Context, form: Form) -> Outcome:
    """Set the mode of a subject, or the global one."""
    registry, name, mode = _registry(ctx), form.text("subject", ""), form.text("mode")
    if mode not in MODES:
        raise UserError(f"mode is one of {', '.join(MODES)}")
    await registry.put({"mode": mode}, "mode", *([name] if name else []))
    return Outcome(f"The mode is {mode} now.", ctx.url("schemas", name) if name else ctx.url("schemas"))


async def restore(ctx: Context, form: Form) -> Outcome:
    """Bring back a deleted subject: register its newest schema again."""
    registry, name = _registry(ctx), ctx.params["subject"]
    versions = sorted(await registry.get("subjects", name, "versions", deleted="true"))
    last = await registry.get("subjects", name, "versions", versions[-1], deleted="true")
    kept = ("schema", "schemaType", "references", "metadata", "ruleSet")
    body = {each: last[each] for each in kept if last.get(each)}
    found = await registry.post(body, "subjects", name, "versions")
    return Outcome(
        f"{name} is back, with schema id {found['id']}.", ctx.url("schemas", name), {"id": found["id"]}
    )


async def delete(ctx: Context, form: Form) -> Outcome:
    """Delete a subject, or one version of it; for good with `permanent`."""
    registry, name = _registry(ctx), ctx.params["subject"]
    if form.text("confirm", "") != name:
        raise UserError(f"Type the subject's name, {name}, to confirm.")
    version = form.text("version", "")
    segments = ("subjects", name, "versions", version) if version else ("subjects", name)
    if not form.flag("is_deleted"):
        await registry.delete(*segments)
    if form.flag("permanent"):
        await registry.delete(*segments, permanent="true")
    return Outcome(f"{name}{' version ' + version if version else ''} is deleted.", ctx.url("schemas"))


_SCHEMA = (
    Parameter("subject", "The subject", required=True),
    Parameter("schema", "The schema's text", required=True),
    Parameter("type", ", ".join(TYPES)),
    Parameter("references", "A JSON array of {name, subject, version}"),
)

SECTION = Section(
    "schemas",
    "Schemas",
    "/schemas",
    "s",
    views=(
        View(
            "/schemas",
            "List of subjects",
            "schemas.html",
            schemas,
            query=(
                Parameter("q", "Part of the name"),
                Parameter("deleted", "true: also those that can be restored", "boolean"),
            ),
        ),
        View(
            "/schemas/{subject}",
            "A subject and its versions",
            "schema.html",
            subject,
            query=(
                Parameter("version", "A version; absent: the latest", "integer"),
                Parameter("against", "The version to compare with", "integer"),
            ),
        ),
        View("/create-schema", "What a new schema needs", "schema_create.html", creation),
    ),
    actions=(
        Action(
            "/check-schema", "Check the compatibility of a schema", check, fields=_SCHEMA, is_change=False
        ),
        Action("/schemas", "Register a schema", register, fields=_SCHEMA),
        Action(
            "/schema-level",
            "Set a compatibility level",
            set_level,
            ADMIN,
            fields=(
                Parameter("subject", "A subject; absent: all"),
                Parameter("level", ", ".join(LEVELS), required=True),
            ),
        ),
        Action(
            "/schema-mode",
            "Set a mode",
            set_mode,
            ADMIN,
            fields=(
                Parameter("subject", "A subject; absent: all"),
                Parameter("mode", ", ".join(MODES), required=True),
            ),
        ),
        Action("/schemas/{subject}/restore", "Restore a deleted subject", restore),
        Action(
            "/schemas/{subject}/delete",
            "Delete a subject or a version",
            delete,
            fields=(
                Parameter("confirm", "The subject's name", required=True),
                Parameter("version", "One version only", "integer"),
                Parameter("permanent", "true: for good", "boolean"),
                Parameter("is_deleted", "true: it was deleted before, but not for good", "boolean"),
            ),
        ),
    ),
    group="Data",
)
