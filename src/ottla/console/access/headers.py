"""The security headers of every answer, and which hosts and origins are trusted."""

from __future__ import annotations

from collections.abc import Iterable
from urllib.parse import urlsplit

CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "font-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)
SECURITY_HEADERS: tuple[tuple[bytes, bytes], ...] = (
    (b"content-security-policy", CONTENT_SECURITY_POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"x-frame-options", b"DENY"),
    (b"permissions-policy", b"camera=(), geolocation=(), microphone=()"),
)
OWN_NAMES = ("localhost", "127.0.0.1", "[::1]", "testserver")


def host_of(authority: str) -> str:
    """Return the host of a Host header, without its port."""
    return authority.rsplit(":", 1)[0] if not authority.endswith("]") else authority


def is_trusted_host(authority: str, allowed: Iterable[str]) -> bool:
    """Return whether a Host header names this console.

    A page of another site may have its own name resolve to this machine (DNS rebinding): then its requests
    carry that name.
    """
    return host_of(authority).lower() in {*OWN_NAMES, *(each.lower() for each in allowed)}


def is_same_origin(origin: str | None, authority: str, fetch_site: str | None) -> bool:
    """Return whether a request comes from a page of this console, or from a program."""
    if fetch_site not in (None, "same-origin", "none"):
        return False
    return origin is None or urlsplit(origin).netloc == authority
