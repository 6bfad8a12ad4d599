"""Errors of Connect: of data, of configs, of requests."""

from __future__ import annotations

from ottla.http.errors import HttpError


class ConnectError(Exception):
    """Something failed that its reader can do something about."""


class DataError(ConnectError):
    """A record or a schema is not what it must be; `errors.tolerance` decides what follows."""


BAD_DATA = (
    DataError,
    TypeError,
    ValueError,
    LookupError,
    ArithmeticError,
    AttributeError,
    RecursionError,
)
"""What a converter or a transform raises for a record that it cannot take."""


class RetriableError(ConnectError):
    """An outside system is not available now; the task is tried again."""


class WrongConfig(ConnectError):
    """A config value is not valid."""

    def __init__(self, key: str, value: object, reason: str) -> None:
        super().__init__(f"Invalid value {value} for configuration {key}: {reason}")
        self.key = key


def bad_request(message: str) -> HttpError:
    """Return the answer 400."""
    return HttpError(400, 400, message)


def not_found(message: str) -> HttpError:
    """Return the answer 404."""
    return HttpError(404, 404, message)


def conflict(message: str) -> HttpError:
    """Return the answer 409."""
    return HttpError(409, 409, message)


def internal(message: str) -> HttpError:
    """Return the answer 500."""
    return HttpError(500, 500, message)
