"""A console's insides in a thread of the test, and requests to it."""

from __future__ import annotations

import asyncio
import threading
from types import TracebackType
from typing import Any, Self

import httpx

from ottla.client.client_options import ClientOptions
from ottla.console.options import ClusterOptions, ConsoleOptions
from ottla.console.server import ConsoleServer

CLUSTER = "test"


class RunningConsole:
    """A console at a port of its own, in a thread of its own."""

    def __init__(self, bootstrap: str, registry_url: str | None = None, **options: Any) -> None:
        client = ClientOptions.of(bootstrap_servers=bootstrap, **options.pop("client", {}))
        cluster = ClusterOptions(CLUSTER, client, registry_url, options.pop("connect_url", None))
        options = {"port": 0, "sample_every_s": 0.3, **options}
        self.server = ConsoleServer(ConsoleOptions((cluster,), **options))
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="console")

    def __enter__(self) -> Self:
        self._thread.start()
        try:
            self.do(self.server.start())
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.do(self.server.stop())
        self._end()

    def _end(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def do(self, coroutine: Any) -> Any:
        """Run a coroutine in the console's loop."""
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(60)

    @property
    def url(self) -> str:
        """The address of the cluster's overview."""
        return f"{self.server.url}/c/{CLUSTER}"

    def api(self) -> httpx.Client:
        """Return a client of the cluster's API."""
        return httpx.Client(base_url=f"{self.server.url}/api/clusters/{CLUSTER}", timeout=30)

    def browser(self) -> httpx.Client:
        """Return a client of the cluster's pages, with cookies."""
        return httpx.Client(base_url=self.url, timeout=30)
