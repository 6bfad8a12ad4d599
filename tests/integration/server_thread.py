"""A service in a thread of the test, with an event loop of its own."""

from __future__ import annotations

import asyncio
import threading
from types import TracebackType
from typing import Any, Protocol, Self


class Server(Protocol):
    """What is started and stopped."""

    async def start(self) -> Any: ...

    async def stop(self) -> Any: ...


class ServerThread:
    """Runs `server` from `with` to its end."""

    def __init__(self, server: Server, name: str) -> None:
        self._server = server
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name=name)

    def __enter__(self) -> Self:
        self._thread.start()
        try:
            self.do(self._server.start())
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.do(self._server.stop())
        self._end()

    def _end(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def do(self, coroutine: Any) -> Any:
        """Run a coroutine in the loop of the service."""
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(60)
