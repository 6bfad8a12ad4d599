"""One console process: state, sampler and HTTP server, started and stopped together."""

from __future__ import annotations

from contextlib import AsyncExitStack
from types import TracebackType
from typing import Self

from ottla.console.app import ConsoleApp
from ottla.console.console import Console
from ottla.console.options import ConsoleOptions
from ottla.http.server import HttpServer


class ConsoleServer:
    """A console over HTTP; use it as `async with ConsoleServer(options)`."""

    def __init__(self, options: ConsoleOptions) -> None:
        self.options = options
        self.console: Console
        self._http = HttpServer(options.host, options.port, options.limits, options.tls)
        self._parts = AsyncExitStack()

    @property
    def url(self) -> str:
        """Where browsers find it."""
        return self._http.url

    async def start(self) -> None:
        """Listen; brokers that are not up yet are waited for in the background."""
        try:
            self._http.bind()
            self._parts.push_async_callback(self._http.stop)
            self.console = await self._parts.enter_async_context(Console(self.options))
            await self._http.serve(ConsoleApp(self.console).http)
            self._parts.push_async_callback(self._http.stop)  # before what its requests need
        except BaseException:
            await self._parts.aclose()
            raise

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
