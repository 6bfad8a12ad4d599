"""What SASL mechanisms have in common: an exchange of messages that ends with an identity, or is refused."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from ottla.security.principal import user_principal


class AuthenticationRefused(Exception):
    """The client is not who it says, or does not follow the mechanism; the message may be shown to it."""


@dataclass(frozen=True, slots=True)
class Identity:
    """Who a client has proved to be."""

    principal: str
    expires_at_ms: int | None = None
    """When its credentials expire, by the wall clock; None: never."""
    is_token: bool = False
    """Whether it used a delegation token."""

    @classmethod
    def of_user(cls, name: str, expires_at_ms: int | None = None) -> Identity:
        """Return the identity of the user `name`."""
        return cls(user_principal(name), expires_at_ms)


class ServerExchange(Protocol):
    """One authentication by one mechanism."""

    mechanism: str

    def respond(self, message: bytes) -> tuple[bytes, Identity | None]:
        """Return the answer to the client's message, and its identity when the exchange is complete.

        Raises AuthenticationRefused.
        """
        ...
