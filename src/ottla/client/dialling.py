"""Opens the socket of a connection, with TLS if that is wanted, and says why if it cannot be opened."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeVar

from ottla.client.address import Address
from ottla.client.errors import BrokerUnreachable, TlsFailed
from ottla.client.reasons import reason_of, tls_reason

if TYPE_CHECKING:
    from ottla.client.security import Security

Protocol = TypeVar("Protocol", bound=asyncio.BaseProtocol)
NO_TLS_HINT = " during the TLS handshake (if that stays so: is it a PLAINTEXT listener?)"
SocketOptions = Sequence[tuple[int, int, int]]


async def dial(
    address: Address, make: Callable[[], Protocol], security: Security | None, options: SocketOptions
) -> Protocol:
    """Connect what `make` returns; raise BrokerUnreachable or TlsFailed."""
    tls = None if security is None else security.tls
    try:
        transport, protocol = await asyncio.get_running_loop().create_connection(
            make, address.host, address.port, ssl=tls
        )
    except OSError as error:  # of which ssl.SSLError is one
        if (reason := tls_reason(error)) is not None:
            raise TlsFailed(address, reason) from None
        hint = "" if tls is None or not isinstance(error, ConnectionResetError) else NO_TLS_HINT
        raise BrokerUnreachable([address], reason_of(error) + hint) from None
    raw = transport.get_extra_info("socket")
    for level, name, value in options:
        if raw is not None:
            raw.setsockopt(level, name, value)
    return protocol
