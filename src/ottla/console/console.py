"""The state of a console process: clusters, sessions, history, audit log, services."""

from __future__ import annotations

from contextlib import AsyncExitStack
from functools import partial
from types import TracebackType
from typing import Self

from ottla.common.clock import Clock, SystemClock
from ottla.console.access.audit import AuditLog
from ottla.console.access.oidc import Oidc
from ottla.console.access.sessions import Session, Sessions
from ottla.console.clusters.history import History
from ottla.console.clusters.live import LiveCluster
from ottla.console.clusters.sampler import Sampler
from ottla.console.messages.decoding import MessageDecoder
from ottla.console.messages.masking import Masking
from ottla.console.options import ClusterOptions, ConsoleOptions
from ottla.console.services.connect_client import ConnectClient
from ottla.console.services.registry_http import RegistryHttp
from ottla.console.views.pipelines import samples
from ottla.registry.serdes import RegistryClient

HISTORY_FILE, AUDIT_FILE = "console-history.sqlite", "console-audit.jsonl"


class Console:
    """Everything that requests share; use it as `async with Console(options)`."""

    def __init__(self, options: ConsoleOptions, clock: Clock | None = None) -> None:
        self.options = options
        self.clock = clock or SystemClock()
        data = options.data
        if data is not None:
            data.mkdir(parents=True, exist_ok=True)
        self.history = History(None if data is None else data / HISTORY_FILE)
        self.audit = AuditLog(self.clock, None if data is None else data / AUDIT_FILE)
        self.sessions = Sessions(
            self.clock, lifetime_s=options.session_timeout_s, idle_s=options.idle_timeout_s
        )
        self.oidc = None if options.oidc is None else Oidc(options.oidc, self.clock)
        self.clusters = {each.name: LiveCluster(each, self.clock) for each in options.clusters}
        self.samplers = {
            name: Sampler(live, self.history, options.sample_every_s, partial(samples, options.pipelines))
            for name, live in self.clusters.items()
        }
        self.registries: dict[str, RegistryHttp] = {}
        self.decoders: dict[str, MessageDecoder] = {}
        self.connects: dict[str, ConnectClient] = {}
        for each in options.clusters:
            self._add_services(each)
        self._parts = AsyncExitStack()

    def _add_services(self, cluster: ClusterOptions) -> None:
        registry = None
        if cluster.registry_url:
            self.registries[cluster.name] = RegistryHttp(cluster.registry_url)
            registry = RegistryClient(cluster.registry_url, timeout_s=3.0)
        self.decoders[cluster.name] = MessageDecoder(registry)
        if cluster.connect_url:
            self.connects[cluster.name] = ConnectClient(cluster.connect_url)

    async def __aenter__(self) -> Self:
        for name, live in self.clusters.items():  # connected by the first sample
            self._parts.push_async_callback(live.close)
            await self._parts.enter_async_context(self.samplers[name])
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for session in self.sessions:
            await self.end(session)
        await self._parts.aclose()
        self.history.close()
        self.audit.close()

    def masking(self, topic: str) -> Masking:
        """Return the masking rules of a topic."""
        return Masking.of(self.options.masks, topic)

    async def end(self, session: Session) -> None:
        """End a session, and the connections that belong to it."""
        self.sessions.end(session)
        for live in session.clusters.values():
            await live.close()

    async def tidy(self) -> None:
        """End the sessions whose time is over."""
        for session in self.sessions.ended():
            await self.end(session)
