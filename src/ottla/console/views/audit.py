"""The audit log: every change that was made with this console."""

from __future__ import annotations

from ottla.console.access.roles import ADMIN
from ottla.console.context import Context
from ottla.console.table import Data, Parameter, Section, View

SHOWN = 500


async def audit(ctx: Context) -> Data:
    """Return the newest changes."""
    wanted = ctx.query("q").lower()
    lines = [
        each
        for each in ctx.console.audit.lines()
        if each["cluster"] in (ctx.live.name, "-") and (not wanted or wanted in str(each).lower())
    ]
    return {"lines": lines[:SHOWN], "q": ctx.query("q"), "total": len(lines)}


SECTION = Section(
    "audit",
    "Audit log",
    "/audit",
    "a",
    views=(
        View(
            "/audit",
            "Changes made with this console",
            "audit.html",
            audit,
            ADMIN,
            (Parameter("q", "Any text"),),
        ),
    ),
    group="Security",
)
