"""Listeners: `NAME://HOST:PORT` texts, parsed and checked.

A listener has a name, an address to bind and an address to advertise; `listener.security.protocol.map`
gives every name a security protocol. As in Kafka, an empty host binds every interface and advertises
this machine's name, while 0.0.0.0 and :: bind the same but need an advertised address.
"""

from __future__ import annotations

import re
import socket
from dataclasses import dataclass
from ipaddress import IPv6Address, IPv6Network
from itertools import combinations
from typing import Final, NamedTuple

from ottla.common.config.declaration import ConfigError
from ottla.common.near_names import or_nearest

SECURITY_PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")

_LISTENER = re.compile(
    r"(?P<name>[^:/]+)://(?:\[(?P<v6>[0-9A-Fa-f:.%]+)\]|(?P<host>[^\[\]/:]*)):(?P<port>[0-9]{1,5})"
)
_NOT_ROUTABLE: Final = frozenset({"0.0.0.0", "::", "::0", "0:0:0:0:0:0:0:0"})


class Address(NamedTuple):
    """A host and a port; the host is empty for every interface of this machine."""

    host: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


def network_of(host: str) -> str:
    """Return what a client cannot choose freely of its address: of an IPv6 address the first half."""
    try:
        return host if IPv6Address(host).ipv4_mapped else str(IPv6Network((host, 64), strict=False))
    except ValueError:
        return host


@dataclass(frozen=True, slots=True)
class Listener:
    """One place where the broker accepts connections."""

    name: str
    host: str
    port: int
    advertised: Address | None = None
    """The advertised address, if it differs from the bound one."""
    security_protocol: str = "PLAINTEXT"

    @property
    def uses_tls(self) -> bool:
        """Whether connections are encrypted."""
        return self.security_protocol in ("SSL", "SASL_SSL")

    @property
    def uses_sasl(self) -> bool:
        """Whether clients authenticate by SASL."""
        return self.security_protocol in ("SASL_PLAINTEXT", "SASL_SSL")

    def advertised_at(self, bound_port: int) -> Address:
        """Return the address for clients, once it is known which port was bound (port 0 takes any)."""
        if self.advertised is not None:
            host, port = self.advertised
            return Address(host or socket.gethostname(), port or bound_port)
        return Address(self.host or socket.gethostname(), bound_port)

    def __str__(self) -> str:
        return f"{self.name}://{Address(self.host, self.port)}"


def parse_listeners(
    listeners: str, advertised_listeners: str | None, security_protocol_map: str
) -> tuple[Listener, ...]:
    """Return the listeners that the three keys describe, or raise ConfigError."""
    bound = _parse_addresses("listeners", listeners)
    advertised = (
        _parse_addresses("advertised.listeners", advertised_listeners) if advertised_listeners else {}
    )
    protocols = _parse_protocol_map(security_protocol_map)
    _check_ports(bound)
    _check_advertised(bound, advertised)
    return tuple(
        Listener(name, address.host, address.port, advertised.get(name), _protocol_of(name, protocols))
        for name, address in bound.items()
    )


def _parse_addresses(key: str, text: str) -> dict[str, Address]:
    """Return the addresses in `text` by their listener's name, which is always in capitals."""
    addresses: dict[str, Address] = {}
    for item in _items(text):
        match = _LISTENER.fullmatch(item)
        if match is None:
            raise ConfigError(key, f"{item!r} is not NAME://HOST:PORT, such as PLAINTEXT://127.0.0.1:9092")
        name, port = match["name"].upper(), int(match["port"])
        if port > 65535:
            raise ConfigError(key, f"port {port} in {item!r} is above 65535")
        if name in addresses:
            raise ConfigError(key, f"two listeners are called {name}; give each a name of its own")
        addresses[name] = Address(match["v6"] or match["host"] or "", port)
    if not addresses:
        raise ConfigError(key, "names no listener; write one such as PLAINTEXT://127.0.0.1:9092")
    return addresses


def _parse_protocol_map(text: str) -> dict[str, str]:
    protocols = {}
    for item in _items(text):
        name, colon, protocol = (part.strip().upper() for part in item.partition(":"))
        if not (name and colon):
            raise ConfigError("listener.security.protocol.map", f"{item!r} is not NAME:PROTOCOL")
        if protocol not in SECURITY_PROTOCOLS:
            hint = (
                or_nearest(protocol, SECURITY_PROTOCOLS) or f"; it is one of {', '.join(SECURITY_PROTOCOLS)}"
            )
            raise ConfigError(
                "listener.security.protocol.map", f"{protocol!r} is not a security protocol{hint}"
            )
        protocols[name] = protocol
    return protocols


def _protocol_of(name: str, protocols: dict[str, str]) -> str:
    protocol = protocols.get(name)
    if protocol is None:
        raise ConfigError(
            "listeners",
            f"{name} has no security protocol; add {name}:PLAINTEXT to listener.security.protocol.map",
        )
    return protocol


def _check_ports(bound: dict[str, Address]) -> None:
    """Refuse two listeners on one port, unless their hosts differ."""
    for (name, address), (other_name, other) in combinations(bound.items(), 2):
        if address.port == other.port != 0 and _overlap(address.host, other.host):
            raise ConfigError("listeners", f"{name} and {other_name} both listen on port {address.port}")


def _check_advertised(bound: dict[str, Address], advertised: dict[str, Address]) -> None:
    for name, address in advertised.items():
        if name not in bound:
            raise ConfigError(
                "advertised.listeners", f"no listener is called {name}{or_nearest(name, bound)}"
            )
        if address.host in _NOT_ROUTABLE:
            raise ConfigError(
                "advertised.listeners", f"clients cannot connect to {address}; name a real host"
            )
    for name, address in bound.items():
        if advertised and name not in advertised:
            raise ConfigError(
                "advertised.listeners", f"has no address for listener {name}; add {name}://HOST:PORT"
            )
        if not advertised and address.host in _NOT_ROUTABLE:
            raise ConfigError(
                "advertised.listeners",
                f"must be set: clients cannot connect to {address}, where listener {name} listens",
            )


def _overlap(host: str, other: str) -> bool:
    """Return whether two hosts stand for a common interface, as far as their texts say."""
    if not (host and other):
        return True
    if (":" in host) != (":" in other):  # IPv6 and IPv4
        return False
    return host == other or host in _NOT_ROUTABLE or other in _NOT_ROUTABLE


def _items(text: str) -> list[str]:
    return [item for item in (part.strip() for part in text.split(",")) if item]
