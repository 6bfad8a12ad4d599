"""Server-sent events."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

from ottla.common.tasks import cancel_and_wait
from ottla.console.problems import EXPECTED, as_user_error

CONTENT_TYPE = "text/event-stream; charset=utf-8"
KEEP_ALIVE_S = 15.0
KEEP_ALIVE = b": still here\n\n"


def event(name: str, data: Any) -> bytes:
    """Return one event; its data is JSON, on one line."""
    return f"event: {name}\ndata: {json.dumps(data, ensure_ascii=False)}\n\n".encode()


async def kept_alive(events: AsyncIterator[bytes], every_s: float = KEEP_ALIVE_S) -> AsyncIterator[bytes]:
    """Yield the events, and a comment where none comes for a while: proxies cut silent connections."""
    coming: asyncio.Task[bytes] | None = None
    try:
        while True:
            if coming is None:
                coming = asyncio.ensure_future(anext(events))
            done, _ = await asyncio.wait((coming,), timeout=every_s)
            if not done:
                yield KEEP_ALIVE
                continue
            finished, coming = coming, None
            try:
                found = finished.result()
            except StopAsyncIteration:
                return
            yield found
    finally:
        await cancel_and_wait(coming)


async def reported(events: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Yield the events, then `end`, or `problem` with what stopped them."""
    try:
        async for each in events:
            yield each
    except EXPECTED as error:
        yield event("problem", str(as_user_error(error)))
    except Exception as error:
        yield event("problem", str(error) or type(error).__name__)
        raise
    else:
        yield event("end", {})
