"""Refuses requests that a page of another site has a browser send.

A browser sends a page's requests to any address, with the user's network: a service without a login on this
machine must not do what a stranger's page asks for. Pages that change something say where they come from
(`Origin`, `Sec-Fetch-Site`). A page whose own name resolves to this machine (DNS rebinding) seems to come
from here, and can read the answers as well: its requests carry that name in `Host`.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Mapping
from urllib.parse import urlsplit

OWN_NAMES = ("localhost", "127.0.0.1", "[::1]")
READING = ("GET", "HEAD", "OPTIONS")


def host_of(authority: str) -> str:
    """Return the host of a Host header, without its port."""
    return authority.rsplit(":", 1)[0] if not authority.endswith("]") else authority


def is_loopback(host: str) -> bool:
    """Return whether a host is this machine, by a name or an address that no other machine reaches."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def own_hosts(*more: str) -> frozenset[str]:
    """Return the names of this machine, and those that are given, as Host headers have them."""
    return frozenset({*OWN_NAMES, *(f"[{each}]" if ":" in each else each.lower() for each in more if each)})


def hosts_without_login(host: str, more: Iterable[str] = ()) -> frozenset[str] | None:
    """Return the names under which a service without a login is asked at `host`; None: any name.

    On loopback these are known. Elsewhere only those who operate it know its names.
    """
    return own_hosts(host, *more) if is_loopback(host) else None


def is_from_another_site(method: str, headers: Mapping[str, str]) -> bool:
    """Return whether a page of another site has a browser send this; links to here may be followed."""
    is_foreign = headers.get("sec-fetch-site") not in (None, "same-origin", "none")
    if method in READING:
        return is_foreign and headers.get("sec-fetch-mode") != "navigate"
    origin = headers.get("origin")
    return is_foreign or (origin is not None and urlsplit(origin).netloc != headers.get("host"))
