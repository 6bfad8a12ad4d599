"""One registry process: topic, state, workers and HTTP server, started and stopped together."""

from __future__ import annotations

import logging
import ssl
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

from ottla.client.client_options import ClientOptions
from ottla.http.limits import HttpLimits
from ottla.http.server import HttpServer
from ottla.registry.elected_topic import ElectedTopic
from ottla.registry.kafka_topic import KafkaTopic, is_conditional
from ottla.registry.rest.app import make_app
from ottla.registry.rest.forwarding import Forwarder
from ottla.registry.schema_log import SchemaLog
from ottla.registry.service import Registry
from ottla.registry.workers import Workers

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class RegistryOptions:
    """How a registry process is run."""

    client: ClientOptions
    host: str = "127.0.0.1"
    port: int = 8081
    topic: str = "_schemas"
    workers: int = 2
    job_timeout_s: float = 5.0
    store_timeout_s: float = 10.0
    limits: HttpLimits = field(default_factory=HttpLimits)
    tls: ssl.SSLContext | None = None
    elected: bool = False
    """Elect one process to write, even if the brokers append conditionally."""
    advertised_url: str | None = None
    """Where other registry processes reach this one; beside Apache Kafka only."""


class RegistryServer:
    """A registry over HTTP; use it as `async with RegistryServer(options)`."""

    def __init__(self, options: RegistryOptions) -> None:
        self.options = options
        self.registry: Registry
        self._http: HttpServer
        self._parts = AsyncExitStack()

    @property
    def url(self) -> str:
        """Where clients find it."""
        return self._http.url

    async def start(self) -> None:
        """Connect, read all schemas, and listen."""
        options = self.options
        try:
            topic = await self._parts.enter_async_context(await self._topic())
            schema_log = await self._parts.enter_async_context(
                SchemaLog(topic, timeout_s=options.store_timeout_s)
            )
            workers = await self._parts.enter_async_context(Workers(options.workers, options.job_timeout_s))
            self.registry = Registry(schema_log, workers)
            await self.registry.settle()
            app = make_app(self.registry, lambda: topic.cluster.cluster_id, options.limits)
            if isinstance(topic, ElectedTopic):
                app.around = Forwarder(topic.election)
            await self._http.serve(app)
            self._parts.push_async_callback(self._http.stop)  # before what its requests need
        except BaseException:
            await self._parts.aclose()
            raise

    async def _topic(self) -> KafkaTopic:
        """Bind the address, and return the topic in the way in which these brokers take changes."""
        options = self.options
        self._http = HttpServer(options.host, options.port, options.limits, options.tls)
        self._parts.push_async_callback(self._http.stop)
        self._http.bind()
        if not options.elected and await is_conditional(options.client):
            return KafkaTopic(options.client, options.topic)
        log.info("these brokers cannot append conditionally: one registry process is elected to write")
        return ElectedTopic(options.client, options.topic, options.advertised_url or self._http.url)

    async def stop(self) -> None:
        """Finish the requests under way, and close everything."""
        await self._parts.aclose()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()
