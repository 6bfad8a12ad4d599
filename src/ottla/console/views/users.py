"""Users (SCRAM credentials) and quotas."""

from __future__ import annotations

import asyncio
import ssl
from typing import Any

from ottla.client.client_options import ClientOptions
from ottla.common.clock import Clock
from ottla.console.access.roles import ADMIN
from ottla.console.context import Context
from ottla.console.table import Action, Data, Form, Outcome, Parameter, Section, UserError, View
from ottla.protocol.errors import KafkaError, UnsupportedVersion
from ottla.wire.address import Address

TIMEOUT_S = 5.0
DAY_MS = 86_400_000


async def certificate_of(address: Address, client: ClientOptions, clock: Clock) -> dict[str, Any]:
    """Connect with TLS as a client does, and return what the certificate says; raise OSError."""
    async with asyncio.timeout(TIMEOUT_S):
        _, writer = await asyncio.open_connection(address.host, address.port, ssl=client.security().tls)
    try:
        tls: ssl.SSLObject = writer.get_extra_info("ssl_object")
        found: Any = tls.getpeercert() or {}
        until_ms = int(ssl.cert_time_to_seconds(found["notAfter"]) * 1000) if "notAfter" in found else None
        return {
            "subject": _name(found.get("subject", ())),
            "issuer": _name(found.get("issuer", ())),
            "names": [value for _, value in found.get("subjectAltName", ())],
            "protocol": tls.version(),
            "cipher": (tls.cipher() or ("",))[0],
            "until": until_ms,
            "days": None if until_ms is None else (until_ms - clock.wall_ms()) / DAY_MS,
            "error": "",
        }
    finally:
        writer.close()


def _name(parts: Any) -> str:
    return ", ".join(f"{key}={value}" for group in parts for key, value in group)


MECHANISMS = ("SCRAM-SHA-512", "SCRAM-SHA-256")
QUOTAS = {
    "producer_byte_rate": "Bytes per second that producers may write to each broker.",
    "consumer_byte_rate": "Bytes per second that consumers may read from each broker.",
    "request_percentage": "Part of the time of request handlers, in percent.",
    "controller_mutation_rate": "Partitions created or deleted per second.",
    "connection_creation_rate": "Connections per second from an address.",
}
ENTITIES = ("user", "client-id", "ip")
DEFAULT = "<default>"


async def users(ctx: Context) -> Data:
    """Return the users with SCRAM credentials."""
    wanted = ctx.query("q").lower()
    try:
        found = await ctx.admin.describe_scram_users()
    except UnsupportedVersion as error:
        return {"users": [], "reason": str(error), "q": "", "mechanisms": MECHANISMS}
    rows = [
        {"name": name, "mechanisms": [f"{each}, {count:,} iterations" for each, count in kinds.items()]}
        for name, kinds in sorted(found.items())
        if wanted in name.lower()
    ]
    return {"users": rows, "reason": "", "q": ctx.query("q"), "mechanisms": MECHANISMS}


async def save_user(ctx: Context, form: Form) -> Outcome:
    """Create a user, or set another password."""
    name, mechanism = form.text("name").strip(), form.text("mechanism", MECHANISMS[0]) or MECHANISMS[0]
    if mechanism not in MECHANISMS:
        raise UserError(f"mechanism is one of {', '.join(MECHANISMS)}")
    await ctx.admin.set_scram_password(name, form.text("password"), mechanism=mechanism)
    return Outcome(f"{name} can log in with {mechanism}.", ctx.url("users"), {"name": name})


async def delete_user(ctx: Context, form: Form) -> Outcome:
    """Remove the credentials of a user."""
    name = ctx.params["user"]
    if form.text("confirm", "") != name:
        raise UserError(f"Type the user's name, {name}, to confirm.")
    await ctx.admin.remove_scram_user(name)
    return Outcome(f"{name} cannot log in any more.", ctx.url("users"))


async def quotas(ctx: Context) -> Data:
    """Return the quotas."""
    rows: list[dict[str, Any]] = [
        {
            "entity": {kind: DEFAULT if name is None else name for kind, name in each.entity.items()},
            "quotas": dict(each.quotas),
        }
        for each in await ctx.admin.list_quotas()
    ]
    rows.sort(key=lambda row: sorted(row["entity"].items()))
    return {"quotas": rows, "keys": QUOTAS, "entities": ENTITIES, "default": DEFAULT}


def _entity(form: Form) -> dict[str, str | None]:
    found: dict[str, str | None] = {}
    for kind in ENTITIES:
        name = form.text(kind, "").strip()
        if name:
            found[kind] = None if name == DEFAULT else name
    if not found:
        raise UserError(f"Name a user, a client id or an address; {DEFAULT} stands for all others.")
    return found


async def save_quotas(ctx: Context, form: Form) -> Outcome:
    """Set quotas of a user, a client id, both, or an address; remove those that are left empty."""
    set_to: dict[str, float] = {}
    unset = [each for each in form.many("unset") if each]
    for key, value in form.prefixed("quota.").items():
        if key not in QUOTAS:
            raise UserError(f"{key} is none of {', '.join(QUOTAS)}")
        try:
            if value.strip():
                set_to[key] = float(value)
        except ValueError:
            raise UserError(f"{key} is a number, not {value!r}") from None
    if not set_to and not unset:
        raise UserError("Give at least one quota.")
    await ctx.admin.alter_quotas(_entity(form), set_to=set_to, unset=unset)
    return Outcome("The quotas are changed.", ctx.url("quotas"))


async def brokers_certificates(ctx: Context) -> Data:
    """Return the certificates that the brokers show, and how long they hold."""
    from ottla.console.views.users import certificate_of

    snapshot = await ctx.live.snapshot()
    client = ctx.live.options.client
    rows: list[dict[str, Any]] = []
    if client.uses_tls:
        for node_id in snapshot.info.alive:
            broker = snapshot.info.brokers[node_id]
            try:
                found = await certificate_of(broker.address, client, ctx.live.clock)
            except (OSError, TimeoutError, KafkaError) as error:
                found = {"error": str(error)}
            rows.append({"broker": node_id, "address": str(broker.address), **found})
    return {"certificates": rows, "uses_tls": client.uses_tls}


USERS = Section(
    "users",
    "Users",
    "/users",
    "u",
    views=(
        View(
            "/users", "List of SCRAM users", "users.html", users, query=(Parameter("q", "Part of the name"),)
        ),
        View("/certificates", "Certificates of the brokers", "certificates.html", brokers_certificates),
    ),
    actions=(
        Action(
            "/users",
            "Create a user or set a password",
            save_user,
            ADMIN,
            fields=(
                Parameter("name", "The user", required=True),
                Parameter("password", "The password; only its hash is sent to the broker", required=True),
                Parameter("mechanism", ", ".join(MECHANISMS)),
            ),
        ),
        Action(
            "/users/{user}/delete",
            "Remove a user",
            delete_user,
            ADMIN,
            fields=(Parameter("confirm", "The user's name", required=True),),
        ),
    ),
    group="Security",
)

QUOTA_SECTION = Section(
    "quotas",
    "Quotas",
    "/quotas",
    "q",
    views=(View("/quotas", "List of quotas", "quotas.html", quotas),),
    actions=(
        Action(
            "/quotas",
            "Change quotas",
            save_quotas,
            ADMIN,
            fields=(
                Parameter("user", f"A user, or {DEFAULT}"),
                Parameter("client-id", f"A client id, or {DEFAULT}"),
                Parameter("ip", f"An address, or {DEFAULT}"),
                Parameter("quota", "Values by name: " + ", ".join(QUOTAS), "object"),
                Parameter("unset", "Names to remove", "array"),
            ),
        ),
    ),
    group="Security",
)
