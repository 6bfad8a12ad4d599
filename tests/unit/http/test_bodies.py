"""Bodies of requests take a limited amount of memory, also when many large ones come at once."""

from __future__ import annotations

import asyncio
from typing import Any

from ottla.http.app import HttpApp, Request, Response
from ottla.http.limits import HttpLimits
from ottla.http.routing import Routes

LIMITS = HttpLimits(max_body_bytes=1_000, max_bodies_bytes=2_500, small_body_bytes=100)


class Service:
    """An application whose requests end when they are told to."""

    def __init__(self) -> None:
        self.ends = asyncio.Event()
        routes = Routes()
        routes.add("POST", "/", self._wait)
        self._app = HttpApp(routes, LIMITS)

    async def _wait(self, request: Request) -> Response:
        await self.ends.wait()
        return Response()

    async def post(self, size: int) -> int:
        """Return the status of the answer to a body of this size, which comes in two parts."""
        scope = {
            "type": "http",
            "method": "POST",
            "path": "/",
            "query_string": b"",
            "headers": [(b"transfer-encoding", b"chunked")],
        }
        parts = [size // 2, size - size // 2]
        sent: list[Any] = []

        async def receive() -> dict[str, Any]:
            body = b"x" * parts.pop(0)
            return {"type": "http.request", "body": body, "more_body": bool(parts)}

        async def send(message: Any) -> None:
            sent.append(message)

        await self._app(scope, receive, send)
        return int(sent[0]["status"])


async def test_large_bodies_are_refused_while_too_many_are_in_flight_and_small_ones_are_not() -> None:
    service = Service()
    held = [asyncio.create_task(service.post(1_000)) for _ in range(2)]
    await asyncio.sleep(0)
    assert await service.post(1_000) == 503
    assert await service.post(1_001) == 413
    small = asyncio.create_task(service.post(100))
    await asyncio.sleep(0)
    service.ends.set()
    assert await asyncio.gather(*held, small) == [200, 200, 200]
    assert await asyncio.gather(*(service.post(1_000) for _ in range(2))) == [200, 200]
