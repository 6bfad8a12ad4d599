"""The certificate that a broker shows, and how long it holds."""

from __future__ import annotations

import asyncio
import ssl
from typing import Any

from ottla.client.client_options import ClientOptions
from ottla.common.clock import Clock
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
