"""ACLs: search, create, clone, delete, and explain why something is allowed or denied."""

from __future__ import annotations

from typing import Any

from ottla.client.admin import Acl
from ottla.client.admin.acls import AclQuery
from ottla.console.access.roles import ADMIN
from ottla.console.context import Context
from ottla.console.table import Action, Data, Form, Outcome, Parameter, Section, UserError, View
from ottla.protocol.errors import KafkaError, SecurityDisabled
from ottla.security.acls import (
    CLUSTER_NAME,
    EVERY_PRINCIPAL,
    IMPLIED_BY,
    OPERATIONS_OF,
    WILDCARD,
    AclBinding,
    Operation,
    PatternType,
    Permission,
    ResourceType,
    pattern_covers,
)
from ottla.security.authorizer import Authorizer

FIELDS = ("principal", "operation", "resource_type", "resource_name", "pattern", "host", "permission")
TYPES = tuple(each.name.lower() for each in OPERATIONS_OF)
OPERATIONS = tuple(each.name.lower() for each in Operation if each >= Operation.ALL)
SUPER_USERS, ALLOW_IF_NONE = "super.users", "allow.everyone.if.no.acl.found"


def _row(acl: Acl) -> dict[str, str]:
    return {name: str(getattr(acl, name)) for name in FIELDS}


async def acls(ctx: Context) -> Data:
    """Return the ACLs that match."""
    wanted = {name: ctx.query(name) for name in FIELDS}
    text = ctx.query("q").lower()
    try:
        found = [_row(each) for each in await ctx.admin.describe_acls()]
        is_enabled = True
    except SecurityDisabled:
        found, is_enabled = [], False
    rows = [
        each
        for each in found
        if all(not value or each[name] == value for name, value in wanted.items())
        and (not text or any(text in value.lower() for value in each.values()))
    ]
    rows.sort(key=lambda each: (each["resource_type"], each["resource_name"], each["principal"]))
    return {
        "acls": rows,
        "total": len(rows),
        "is_enabled": is_enabled,
        "q": ctx.query("q"),
        "types": TYPES,
        "wanted": wanted,
    }


async def creation(ctx: Context) -> Data:
    """Return the form for a new ACL; the query prefills it, so that one can be cloned."""
    defaults = {"resource_type": "topic", "operation": "read", "pattern": "literal", "host": "*"}
    given = {name: ctx.query(name) or defaults.get(name, "") for name in FIELDS}
    return {"given": given, "types": TYPES, "operations": OPERATIONS}


def _principal(text: str) -> str:
    """Return a principal; a name without a type is that of a user."""
    text = text.strip()
    return text if ":" in text or not text else f"User:{text}"


def _acl(form: Form) -> Acl:
    kind = form.text("resource_type")
    name = form.text("resource_name", "").strip()
    return Acl(
        _principal(form.text("principal")),
        form.text("operation"),
        kind,
        name or (CLUSTER_NAME if kind == "cluster" else ""),
        form.text("pattern", "literal"),
        form.text("host", "*").strip() or "*",
        form.text("permission", "allow"),
    )


async def create(ctx: Context, form: Form) -> Outcome:
    """Create an ACL, or one for each of several operations."""
    operations = form.many("operation")
    if not operations:
        raise UserError("Choose an operation.")
    first = _acl(form)
    if not first.resource_name:
        raise UserError("Name the resource; * stands for all.")
    created = [Acl(**{**_row(first), "operation": each}) for each in operations]
    try:
        outcomes = await ctx.admin.create_acls(created)
    except ValueError as error:
        raise UserError(str(error)) from None
    failed = next((each for each in outcomes if each is not None), None)
    if failed is not None:
        raise failed
    what = f"{len(created)} ACLs are" if len(created) > 1 else "The ACL is"
    return Outcome(f"{what} created.", ctx.url("acls"), {"created": len(created)})


async def delete(ctx: Context, form: Form) -> Outcome:
    """Delete one ACL."""
    acl = _row(_acl(form))
    try:
        deleted = await ctx.admin.delete_acls(**AclQuery(**acl))  # type: ignore[typeddict-item]
    except ValueError as error:
        raise UserError(str(error)) from None
    if not deleted:
        raise UserError("There is no such ACL any more.")
    return Outcome("The ACL is deleted.", ctx.url("acls"), {"deleted": len(deleted)})


async def explain(ctx: Context) -> Data:
    """Say whether a principal may do something, and which ACLs decide it."""
    given = {
        name: ctx.query(name) for name in ("principal", "operation", "resource_type", "resource_name", "host")
    }
    given["host"] = given["host"] or "127.0.0.1"
    given["principal"] = _principal(given["principal"])
    page: Data = {"given": given, "types": TYPES, "operations": OPERATIONS[1:], "verdict": None}
    if given["principal"] and given["operation"]:
        if given["resource_type"] == "cluster":
            given["resource_name"] = CLUSTER_NAME
        page["verdict"] = await _verdict(ctx, given)
    return page


async def _verdict(ctx: Context, given: dict[str, str]) -> dict[str, Any]:
    try:
        operation = Operation[given["operation"].upper()]
        kind = ResourceType[given["resource_type"].upper()]
    except KeyError as error:
        raise UserError(f"There is no {error}.", status=400) from None
    settings = await _settings(ctx)
    bindings = [_binding(each) for each in await ctx.admin.describe_acls()]
    supers = [each.strip() for each in (settings.get(SUPER_USERS) or "").split(";") if each.strip()]
    allows_if_none = (settings.get(ALLOW_IF_NONE) or "").lower() == "true"
    authorizer = Authorizer(supers, allow_if_no_acl=allows_if_none)
    authorizer.update(bindings)
    principal, host, name = given["principal"], given["host"], given["resource_name"]
    allowed = authorizer.allows(principal, host, operation, kind, name)
    relevant = [
        each
        for each in bindings
        if each.resource_type == kind
        and pattern_covers(each, name)
        and each.principal in (principal, EVERY_PRINCIPAL)
        and each.host in (host, WILDCARD)
        and (each.operation in (operation, Operation.ALL) or each.operation in IMPLIED_BY.get(operation, ()))
    ]
    return {
        "allowed": allowed,
        "why": _why(principal, allowed, relevant, authorizer.is_super_user(principal), allows_if_none),
        "acls": [_binding_row(each) for each in relevant],
    }


def _why(
    principal: str, allowed: bool, relevant: list[AclBinding], is_super: bool, allows_if_none: bool
) -> str:
    if is_super:
        return f"{principal} is one of the super.users: no ACL is asked."
    if any(each.permission == Permission.DENY for each in relevant) and not allowed:
        return "An ACL denies it; that wins over all that allow it."
    if relevant and allowed:
        return "An ACL allows it."
    if allowed and allows_if_none:
        return "The resource has no ACL, and allow.everyone.if.no.acl.found is true."
    return "No ACL allows it, and what is not allowed is denied."


async def _settings(ctx: Context) -> dict[str, str | None]:
    snapshot = await ctx.live.snapshot()
    try:
        entries = await ctx.admin.broker_configs(snapshot.info.alive[0])
    except (KafkaError, IndexError):
        return {}
    return {each.name: each.value for each in entries}


def _binding(acl: Acl) -> AclBinding:
    return AclBinding(
        ResourceType[acl.resource_type.upper()],
        acl.resource_name,
        PatternType[acl.pattern.upper()],
        acl.principal,
        acl.host,
        Operation[acl.operation.upper()],
        Permission[acl.permission.upper()],
    )


def _binding_row(acl: AclBinding) -> dict[str, str]:
    return {
        "principal": acl.principal,
        "operation": Operation(acl.operation).name.lower(),
        "resource_type": ResourceType(acl.resource_type).name.lower(),
        "resource_name": acl.resource_name,
        "pattern": PatternType(acl.pattern_type).name.lower(),
        "host": acl.host,
        "permission": Permission(acl.permission).name.lower(),
    }


_ACL = (
    Parameter("principal", "User:alice", required=True),
    Parameter("operation", ", ".join(OPERATIONS), required=True),
    Parameter("resource_type", ", ".join(TYPES), required=True),
    Parameter("resource_name", "Its name, or *"),
    Parameter("pattern", "literal or prefixed"),
    Parameter("host", "An address, or *"),
    Parameter("permission", "allow or deny"),
)

SECTION = Section(
    "acls",
    "ACLs",
    "/acls",
    "l",
    views=(
        View("/acls", "List of ACLs", "acls.html", acls, query=(Parameter("q", "Any text"), *_ACL)),
        View("/create-acl", "What a new ACL needs", "acl_create.html", creation, query=_ACL),
        View(
            "/explain-acl", "Why something is allowed or denied", "acl_explain.html", explain, query=_ACL[:4]
        ),
    ),
    actions=(
        Action("/acls", "Create ACLs", create, ADMIN, fields=_ACL),
        Action("/acls/delete", "Delete an ACL", delete, ADMIN, fields=_ACL),
    ),
    group="Security",
)
