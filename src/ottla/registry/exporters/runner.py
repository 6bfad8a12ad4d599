"""Runs the exporters of a registry in one of its processes: the one that is elected.

Two processes that copy at the same time, for the moment in which an election changes hands, do no harm: a
copy names its id and version, and a registry takes the same copy twice.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Protocol, Self

from ottla.client import ClientError, KafkaError
from ottla.common.clock import Clock, SystemClock
from ottla.common.log_limit import RepeatedWarnings
from ottla.common.tasks import cancel_and_wait
from ottla.http.errors import HttpError
from ottla.registry.exporters import decisions
from ottla.registry.exporters.copier import Copier, ExportFailed
from ottla.registry.exporters.plan import Names, configs, copies
from ottla.registry.exporters.records import ERROR, RUNNING, Exporter, ExporterState, Status
from ottla.registry.service import Registry
from ottla.registry.state_store import StateStore

log = logging.getLogger(__name__)

EVERY_S = 1.0
"""How long a change of schemas waits at most before it is copied."""


class Elected(Protocol):
    """Whether this process is the one that copies."""

    @property
    def is_leader(self) -> bool:
        """Whether it is."""


class ExporterRunner:
    """Copies schemas to other registries; use it as `async with ExporterRunner(...)`."""

    def __init__(
        self,
        registry: Registry,
        store: StateStore[ExporterState],
        stand: Callable[[], Awaitable[Elected | None]],
        cluster_id: Callable[[], str | None],
        *,
        clock: Clock | None = None,
        every_s: float = EVERY_S,
    ) -> None:
        """Take `stand`: it returns the election, or None while there cannot be an exporter."""
        self._registry = registry
        self._store = store
        self._stand = stand
        self._cluster_id = cluster_id
        self._clock = clock or SystemClock()
        self._every_s = every_s
        self._copiers: dict[str, tuple[Exporter, Copier, int]] = {}
        """By name: for which exporter it copies, and up to which offset it has."""
        self._has_exporters = False
        """Whether this process copied when it last could tell."""
        self._warnings = RepeatedWarnings(log, self._clock)
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self._run(), name="exporters")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await cancel_and_wait(self._task)

    async def _run(self) -> None:
        while True:
            pause_s = self._every_s
            try:
                elected = await self._stand()
                if elected is not None and elected.is_leader:
                    await self.run_once()
                else:
                    self._copiers.clear()
                    self._has_exporters = False
                    pause_s = self._every_s * 3
            except (HttpError, KafkaError, ClientError, OSError) as error:
                if self._has_exporters:
                    self._warnings.warn("failed", f"exporters cannot copy, retrying: {error}")
            except Exception as error:
                self._warnings.warn(repr(error), "exporters failed, will be repeated", error)
            await asyncio.sleep(pause_s)

    async def run_once(self) -> None:
        """Copy what has changed, by every exporter that is not paused."""
        state = await self._store.fresh()
        self._has_exporters = bool(state.exporters)
        for name in set(self._copiers) - set(state.exporters):
            del self._copiers[name]
        for exporter in list(state.exporters.values()):
            if exporter.is_paused:
                self._copiers.pop(exporter.name, None)
            else:
                await self._export(exporter)

    async def _export(self, exporter: Exporter) -> None:
        schemas = await self._registry.fresh()
        position = schemas.position
        known = self._copiers.get(exporter.name)
        if known is not None and known[0] == exporter and known[2] == position:
            return
        names = Names(exporter, self._cluster_id() or "default")
        plan, settings = copies(schemas, names), configs(schemas, names)
        try:
            copier = known[1] if known is not None and known[0] == exporter else Copier(exporter.config)
            changes = await asyncio.to_thread(copier.copy, plan, settings)
        except ExportFailed as error:
            self._copiers.pop(exporter.name, None)
            self._warnings.warn(exporter.name, f"exporter {exporter.name}: {error}")
            await self._report(exporter, ERROR, 0, str(error))
            return
        if changes:
            log.info("exporter %s: %d changes copied", exporter.name, changes)
        self._copiers[exporter.name] = (exporter, copier, position)
        await self._report(exporter, RUNNING, position)

    async def _report(self, exporter: Exporter, state: str, offset: int, trace: str | None = None) -> None:
        status = Status(state, offset, self._clock.wall_ms(), trace, exporter.epoch)
        await self._store.change(lambda found: decisions.report(found, exporter.name, status))
