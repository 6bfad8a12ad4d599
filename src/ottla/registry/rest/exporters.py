"""/exporters: what is copied to other registries, and how it goes."""

from __future__ import annotations

from collections.abc import Callable

from ottla.http.app import Request, Response
from ottla.http.routing import Routes
from ottla.registry.entities import Json
from ottla.registry.exporters import decisions
from ottla.registry.exporters.decisions import ExporterDecision, found_exporter
from ottla.registry.exporters.records import ExporterState, shown_config
from ottla.registry.rest.requests import answer, body_of
from ottla.registry.state_store import StateStore

ROOT = "/exporters"
ONE = f"{ROOT}/{{name}}"


class ExporterRoutes:
    """Serves exporters."""

    def __init__(self, exporters: StateStore[ExporterState]) -> None:
        self._exporters = exporters

    def add_to(self, routes: Routes) -> None:
        """Add the paths."""
        for method, path, handler in (
            ("GET", ROOT, self.list_exporters),
            ("POST", ROOT, self.create),
            ("GET", ONE, self.get),
            ("PUT", ONE, self.update),
            ("DELETE", ONE, self.delete),
            ("GET", f"{ONE}/status", self.status),
            ("GET", f"{ONE}/config", self.config),
            ("PUT", f"{ONE}/config", self.update_config),
            ("PUT", f"{ONE}/pause", self.pause),
            ("PUT", f"{ONE}/resume", self.resume),
            ("PUT", f"{ONE}/reset", self.reset),
        ):
            routes.add(method, path, handler)

    async def list_exporters(self, request: Request) -> Response:
        """Return the names."""
        return answer(request, sorted((await self._exporters.fresh()).exporters))

    async def get(self, request: Request) -> Response:
        """Return one."""
        state = await self._exporters.fresh()
        return answer(request, found_exporter(state, request.params["name"]).shown())

    async def status(self, request: Request) -> Response:
        """Return how it is doing."""
        state, name = await self._exporters.fresh(), request.params["name"]
        found_exporter(state, name)
        status = state.status(name)
        found: Json = {"name": name, "state": status.state, "offset": status.offset, "ts": status.timestamp}
        return answer(request, found if status.trace is None else {**found, "trace": status.trace})

    async def config(self, request: Request) -> Response:
        """Return where it copies to."""
        state = await self._exporters.fresh()
        return answer(request, shown_config(found_exporter(state, request.params["name"]).config))

    async def create(self, request: Request) -> Response:
        """Create one."""
        body = body_of(request)
        return await self._change(request, lambda state: decisions.create(state, body))

    async def update(self, request: Request) -> Response:
        """Change one."""
        name, body = request.params["name"], body_of(request)
        return await self._change(request, lambda state: decisions.update(state, name, body))

    async def update_config(self, request: Request) -> Response:
        """Change where it copies to."""
        name, body = request.params["name"], body_of(request)
        return await self._change(request, lambda state: decisions.update(state, name, {"config": body}))

    async def pause(self, request: Request) -> Response:
        """Pause one."""
        return await self._change(request, lambda state: decisions.pause(state, request.params["name"]))

    async def resume(self, request: Request) -> Response:
        """Resume one."""
        return await self._change(request, lambda state: decisions.resume(state, request.params["name"]))

    async def reset(self, request: Request) -> Response:
        """Reset one: it copies everything again."""
        return await self._change(request, lambda state: decisions.reset(state, request.params["name"]))

    async def delete(self, request: Request) -> Response:
        """Delete one."""
        await self._exporters.change(lambda state: decisions.delete(state, request.params["name"]))
        return Response(status=204)

    async def _change(
        self, request: Request, decide: Callable[[ExporterState], ExporterDecision]
    ) -> Response:
        return answer(request, await self._exporters.change(decide))
