"""A service over HTTP: its server and what its requests need, started and stopped together."""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import AsyncExitStack
from types import TracebackType
from typing import Self

from ottla.http.server import HttpServer


class HttpService(ABC):
    """The registry, a Connect worker or the console; use it as `async with Service(options)`."""

    def __init__(self, http: HttpServer) -> None:
        self._http = http
        self._parts = AsyncExitStack()

    @property
    def url(self) -> str:
        """Where clients find it."""
        return self._http.url

    async def start(self) -> None:
        """Take the address, then start everything; if a part fails, stop those before it."""
        try:
            self._http.bind()
            self._parts.push_async_callback(self._http.stop)
            await self._start()
        except BaseException:
            await self._parts.aclose()
            raise

    @abstractmethod
    async def _start(self) -> None:
        """Start the parts, and push on `self._parts` what stops them, which is done in reverse order."""

    async def stop(self) -> None:
        """Finish the requests in flight, and close everything."""
        await self._parts.aclose()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()
