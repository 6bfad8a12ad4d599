"""A console's insides in a thread of the test, and requests to it."""

from __future__ import annotations

from typing import Any

import httpx
from tests.integration.server_thread import ServerThread

from ottla.client.client_options import ClientOptions
from ottla.console.options import ClusterOptions, ConsoleOptions
from ottla.console.server import ConsoleServer

CLUSTER = "test"


class RunningConsole(ServerThread):
    """A console at a port of its own, in a thread of its own."""

    def __init__(self, bootstrap: str, registry_url: str | None = None, **options: Any) -> None:
        client = ClientOptions.of(bootstrap_servers=bootstrap, **options.pop("client", {}))
        cluster = ClusterOptions(CLUSTER, client, registry_url, options.pop("connect_url", None))
        options = {"port": 0, "sample_every_s": 0.3, **options}
        self.server = ConsoleServer(ConsoleOptions((cluster,), **options))
        super().__init__(self.server, "console")

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
