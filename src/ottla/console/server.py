"""One console process: state, sampler and HTTP server, started and stopped together."""

from __future__ import annotations

from ottla.console.app import ConsoleApp
from ottla.console.console import Console
from ottla.console.options import ConsoleOptions
from ottla.http.server import HttpServer
from ottla.http.service import HttpService


class ConsoleServer(HttpService):
    """A console over HTTP; use it as `async with ConsoleServer(options)`."""

    def __init__(self, options: ConsoleOptions) -> None:
        self.options = options
        self.console: Console
        super().__init__(HttpServer(options.host, options.port, options.limits, options.tls))

    async def _start(self) -> None:
        """Listen; brokers that are not up yet are waited for in the background."""
        self.console = await self._parts.enter_async_context(Console(self.options))
        await self._http.serve(ConsoleApp(self.console).http)
        self._parts.push_async_callback(self._http.stop)  # before what its requests need
