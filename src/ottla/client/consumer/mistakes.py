"""Calls that do not fit how a consumer is used."""

from __future__ import annotations

from ottla.client.errors import ClientError


class WrongUse(ClientError):
    """The call does not fit how this consumer is used; the message says what would."""


class NotAssigned(ValueError):
    """The consumer does not read that partition (now)."""
