"""Convert results of the controller into response fields."""

from __future__ import annotations

from datetime import timedelta

from kio.schema.errors import ErrorCode

from ottla.protocol.errors import KafkaError

NO_AUTHORIZER = "No Authorizer is configured."
"""Kafka's message for SECURITY_DISABLED, which tools match."""


def code_of(result: object) -> ErrorCode:
    """Return the code of a result that may be an error."""
    return result.code if isinstance(result, KafkaError) else ErrorCode.none


def message_of(result: object) -> str | None:
    """Return the message of a result that may be an error."""
    return result.message if isinstance(result, KafkaError) else None


def milliseconds(time: timedelta) -> int:
    """Return a timedelta of a request as the milliseconds that the client sent."""
    return time // timedelta(milliseconds=1)
