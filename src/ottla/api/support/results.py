"""From what the controller decided to what a response says."""

from __future__ import annotations

from datetime import timedelta

from kio.schema.errors import ErrorCode

from ottla.protocol.errors import KafkaError

NO_AUTHORIZER = "No Authorizer is configured."
"""Kafka's words for SECURITY_DISABLED, which tools look for."""


def code_of(result: object) -> ErrorCode:
    """Return the code of a result that may be an error."""
    return result.code if isinstance(result, KafkaError) else ErrorCode.none


def message_of(result: object) -> str | None:
    """Return the message of a result that may be an error."""
    return result.message if isinstance(result, KafkaError) else None


def milliseconds(time: timedelta) -> int:
    """Return a time of a request as the number that the client sent."""
    return time // timedelta(milliseconds=1)
