"""Name the identity of a connection, as ACLs, quotas and the audit log spell it: `User:alice`."""

from __future__ import annotations

USER = "User:"
ANONYMOUS = "User:ANONYMOUS"
"""The principal of a connection that was not authenticated."""


def user_principal(name: str) -> str:
    """Return the principal of the user `name`."""
    return USER + name


def user_name(principal: str) -> str:
    """Return the name of the principal without its type: `User:alice` is `alice`."""
    return principal.partition(":")[2]
