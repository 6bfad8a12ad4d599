"""SASL GSSAPI (Kerberos), the client's side (RFC 4752), for brokers among themselves.

    client   tokens of GSSAPI, until the context is established; the broker proves who it is as well
    server   wrapped: the security layers that it offers, and a maximum size
    client   wrapped: 1 (no security layer: TLS encrypts), a maximum size of 0, and no name

The key of this broker is in a keytab. The library gets tickets with it, and new ones before they expire; it
keeps them in memory. It needs the package `gssapi`, and may ask the KDC, which takes time: `start`
is run in a thread.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ottla.wire.sasl import SaslError

NO_SECURITY_LAYER = b"\x01\x00\x00\x00"
TICKETS = "MEMORY:ottla-brokers"


@dataclass(frozen=True, slots=True)
class KerberosLogin:
    """Who this broker is, and what other brokers are called: `kafka/HOST`."""

    service: str
    principal: str
    keytab: str


class GssapiClient:
    """One exchange with the broker at a host."""

    mechanism = "GSSAPI"

    def __init__(self, context: Any, first: bytes) -> None:
        self._context = context
        self._first = first
        self._has_chosen = False

    @classmethod
    def start(cls, login: KerberosLogin, host: str) -> GssapiClient:
        """Return a new exchange; waits for the KDC. SaslError if there is no ticket."""
        import gssapi
        from gssapi.raw import GSSError

        try:
            credentials = gssapi.Credentials(
                name=gssapi.Name(login.principal, gssapi.NameType.kerberos_principal),
                usage="initiate",
                store={"client_keytab": login.keytab, "ccache": TICKETS},
            )
            context = gssapi.SecurityContext(
                name=gssapi.Name(f"{login.service}@{host}", gssapi.NameType.hostbased_service),
                creds=credentials,
                usage="initiate",
                mech=gssapi.MechType.kerberos,
                flags=gssapi.RequirementFlag.mutual_authentication | gssapi.RequirementFlag.integrity,
            )
            return cls(context, context.step() or b"")
        except GSSError as error:
            raise SaslError(f"Kerberos has no ticket of {login.principal} for {host}: {error}") from None

    def first(self) -> bytes:
        """Return the first token."""
        return self._first

    def respond(self, challenge: bytes) -> bytes | None:
        """Return the next token, then the choice of no security layer; None: the broker has accepted it."""
        from gssapi.raw import GSSError

        if self._has_chosen:
            return None
        try:
            if not self._context.complete:
                return self._context.step(challenge) or b""
            offered = self._context.unwrap(challenge).message
        except GSSError as error:
            raise SaslError(f"Kerberos: the broker failed mutual authentication: {error}") from None
        if len(offered) != 4 or not offered[0] & 1:
            raise SaslError("Kerberos: the broker wants a security layer of Kerberos, and not TLS")
        self._has_chosen = True
        return bytes(self._context.wrap(NO_SECURITY_LAYER, False).message)
