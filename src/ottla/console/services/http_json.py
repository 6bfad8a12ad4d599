"""One JSON request over HTTP, in a thread, so that a slow service does not hold up pages."""

from __future__ import annotations

import asyncio
from typing import Any

from ottla.http.json_client import HttpRefused, HttpUnavailable, JsonClient, NotJson


class ServiceUnavailable(Exception):
    """No service answers there."""


class ServiceRefused(Exception):
    """The service answered with an error."""

    def __init__(self, status: int, code: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.code = code


async def ask(client: JsonClient, method: str, path: str, body: Any = None) -> Any:
    """Return the JSON value of the answer; raise ServiceRefused or ServiceUnavailable."""
    try:
        return await asyncio.to_thread(client.ask, method, path, body)
    except HttpRefused as error:
        raise _refused(error) from None
    except HttpUnavailable as error:
        raise ServiceUnavailable(f"nothing answers at {client.url}: {error}") from None
    except NotJson as error:
        raise ServiceUnavailable(str(error)) from None


def _refused(error: HttpRefused) -> ServiceRefused:
    try:
        return ServiceRefused(error.status, int(error.body["error_code"]), str(error.body["message"]))
    except (ValueError, KeyError, TypeError):
        return ServiceRefused(error.status, error.status, f"HTTP {error.status}")
