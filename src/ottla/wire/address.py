"""Addresses as people write them: `localhost`, `10.0.0.7:9093`, `[::1]:9092`, `a:9092,b:9092`."""

from __future__ import annotations

from ottla.common.listeners import Address

__all__ = ["DEFAULT_PORT", "Address", "parse_address", "parse_addresses"]

DEFAULT_PORT = 9092


def parse_address(text: str) -> Address:
    """Return the address that `text` names; raise ValueError with the reason if it is none."""
    scheme, separator, _ = text.partition("://")
    if separator:
        raise ValueError(f"{text!r} is not HOST:PORT: leave out {scheme}://")
    host, port_text = _split(text.strip())
    if not host or any(each.isspace() or each in "/@" for each in host):
        raise ValueError(f"{text!r} is not HOST:PORT")
    if port_text is None:
        return Address(host, DEFAULT_PORT)
    if not (port_text.isascii() and port_text.isdigit()) or not 0 < int(port_text) < 65_536:
        raise ValueError(f"{text!r} has no valid port: it must be a number from 1 to 65535")
    return Address(host, int(port_text))


def parse_addresses(text: str) -> tuple[Address, ...]:
    """Return the addresses of a comma-separated list."""
    parts = [part for part in text.split(",") if part.strip()]
    if not parts:
        raise ValueError("no address given: write HOST:PORT")
    return tuple(parse_address(part) for part in parts)


def _split(text: str) -> tuple[str, str | None]:
    if text.startswith("["):
        host, bracket, rest = text[1:].partition("]")
        if not bracket or (rest and not rest.startswith(":")):
            raise ValueError(f"{text!r} is not [HOST]:PORT")
        return host, rest[1:] if rest else None
    if text.count(":") > 1:
        raise ValueError(f"{text!r} is ambiguous: write an IPv6 address as [::1]:9092")
    host, colon, port = text.partition(":")
    return host, port if colon else None
