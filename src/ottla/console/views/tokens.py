"""Delegation tokens: list, create, renew, expire."""

from __future__ import annotations

import base64
import binascii

from ottla.console.access.roles import ADMIN
from ottla.console.context import Context
from ottla.console.table import Action, Data, Form, Outcome, Parameter, Section, UserError, View
from ottla.protocol.errors import DelegationTokenAuthDisabled, DelegationTokenRequestNotAllowed

HOUR_MS = 3_600_000
DISABLED = "They need delegation.token.secret.key in the brokers' configuration, and a login."


async def tokens(ctx: Context) -> Data:
    """Return the delegation tokens that may be seen."""
    try:
        found = await ctx.admin.describe_delegation_tokens()
    except (DelegationTokenAuthDisabled, DelegationTokenRequestNotAllowed):
        return {"tokens": [], "reason": DISABLED, "created": None}
    now = ctx.live.clock.wall_ms()
    rows = [
        {
            "id": each.token_id,
            "owner": each.owner,
            "renewers": list(each.renewers),
            "issued_at": each.issued_at_ms,
            "expires_at": each.expires_at_ms,
            "max_expires_at": each.max_expires_at_ms,
            "left_s": max(0, each.expires_at_ms - now) / 1000,
        }
        for each in found
    ]
    return {"tokens": rows, "reason": "", "created": None}


async def create(ctx: Context, form: Form) -> Outcome:
    """Create a token; its secret is shown once."""
    renewers = [each.strip() for each in form.text("renewers", "").split(",") if each.strip()]
    hours = form.whole("hours", 24, least=1)
    owner = form.text("owner", "").strip() or None
    try:
        made = await ctx.admin.create_delegation_token(
            owner=owner, renewers=renewers, max_lifetime_ms=hours * HOUR_MS
        )
    except ValueError as error:
        raise UserError(str(error)) from None
    created = {"id": made.token_id, "password": made.password}
    return Outcome("", "", created, {**await tokens(ctx), "created": created}, "tokens.html")


def _hmac(form: Form) -> bytes:
    try:
        return base64.b64decode(form.text("hmac").encode(errors="replace"), validate=True)
    except binascii.Error:
        raise UserError("The secret of a token is base64.") from None


async def _by_id(ctx: Context, form: Form) -> bytes:
    """Return the HMAC of a token: given, or of the token with this id."""
    if form.text("hmac", ""):
        return _hmac(form)
    wanted = form.text("id")
    for each in await ctx.admin.describe_delegation_tokens():
        if each.token_id == wanted:
            return each.hmac
    raise UserError(f"There is no token {wanted} any more.", status=404)


async def renew(ctx: Context, form: Form) -> Outcome:
    """Renew a token."""
    until = await ctx.admin.renew_delegation_token(await _by_id(ctx, form))
    return Outcome("The token is renewed.", ctx.url("tokens"), {"expires_at": until})


async def expire(ctx: Context, form: Form) -> Outcome:
    """Expire a token at once."""
    await ctx.admin.expire_delegation_token(await _by_id(ctx, form))
    return Outcome("The token is expired.", ctx.url("tokens"))


_ID = (Parameter("id", "The token's id"), Parameter("hmac", "Or its secret, in base64"))

SECTION = Section(
    "tokens",
    "Tokens",
    "/tokens",
    "k",
    views=(View("/tokens", "List of delegation tokens", "tokens.html", tokens),),
    actions=(
        Action(
            "/tokens",
            "Create a delegation token",
            create,
            ADMIN,
            fields=(
                Parameter("owner", "A principal; absent: oneself"),
                Parameter("renewers", "Principals, with commas"),
                Parameter("hours", "How long it can live", "integer"),
            ),
        ),
        Action("/tokens/renew", "Renew a delegation token", renew, ADMIN, fields=_ID),
        Action("/tokens/expire", "Expire a delegation token", expire, ADMIN, fields=_ID),
    ),
    group="Security",
)
