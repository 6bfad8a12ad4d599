"""Metrics and probes of a registry process: `/metrics`, `/healthz`, `/readyz`."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ottla.http.app import Request, Response, json_response
from ottla.http.metrics import RequestCounts, Sample, metrics_response
from ottla.http.routing import Routes
from ottla.registry.service import Registry
from ottla.registry.topic import Unavailable

LAG_TIMEOUT_S = 2.0
ID_ROUTE = ("GET", "/schemas/ids/{id}", 200)
METRICS = {
    **RequestCounts("ottla_registry").help(),
    "ottla_registry_subjects": "Subjects, those with deleted versions only included.",
    "ottla_registry_schemas": "Versions of all subjects, by whether they are soft deleted.",
    "ottla_registry_position": "Offset up to which the topic of the schemas has been read.",
    "ottla_registry_lag_records": "Records of the topic that are not read yet; absent if brokers are silent.",
    "ottla_registry_conflicts_total": "Writes that were decided again because another process was first.",
    "ottla_registry_ready": "1 if requests can be answered.",
}
"""The metrics, with their help texts."""


class RegistryMetrics:
    """Counts requests, and looks at the state when it is scraped."""

    def __init__(self, registry: Registry, from_memory: Callable[[], int]) -> None:
        self._registry = registry
        self._from_memory = from_memory
        self.requests = RequestCounts("ottla_registry")
        """Look-ups by id from memory take no time in it."""

    def add_to(self, routes: Routes) -> None:
        """Add the paths."""
        routes.add("GET", "/metrics", self.scrape)
        routes.add("GET", "/healthz", self.health)
        routes.add("GET", "/readyz", self.readiness)

    async def scrape(self, request: Request) -> Response:
        """Answer in Prometheus' text format, or OpenMetrics."""
        return metrics_response(request, METRICS, self._samples(await self._lag()))

    async def health(self, request: Request) -> Response:
        """Answer the liveness probe: 503 if the reader of the topic has ended."""
        failure = self._registry.log.failure
        if failure is None:
            return json_response({"status": "ok"})
        return json_response({"status": "failed", "reason": repr(failure)}, 503)

    async def readiness(self, request: Request) -> Response:
        """Answer the readiness probe: 503 if brokers do not tell the end of the topic."""
        lag = await self._lag()
        if lag is None:
            return json_response({"status": "not ready", "reasons": ["the brokers do not answer"]}, 503)
        return json_response({"status": "ready", "lag": lag})

    async def _lag(self) -> int | None:
        if self._registry.log.failure is not None:
            return None
        try:
            return await self._registry.log.lag(LAG_TIMEOUT_S)
        except (TimeoutError, Unavailable):
            return None

    def _samples(self, lag: int | None) -> Iterator[tuple[str, list[Sample]]]:
        state = self._registry.state
        yield from self.requests.samples({ID_ROUTE: self._from_memory()})
        deleted = total = 0
        for versions in state.subjects.values():
            total += len(versions)
            deleted += sum(each.deleted for each in versions.values())
        yield "ottla_registry_subjects", [({}, len(state.subjects))]
        yield (
            "ottla_registry_schemas",
            [({"deleted": "false"}, total - deleted), ({"deleted": "true"}, deleted)],
        )
        yield "ottla_registry_position", [({}, state.position)]
        if lag is not None:
            yield "ottla_registry_lag_records", [({}, lag)]
        yield "ottla_registry_conflicts_total", [({}, self._registry.log.conflicts)]
        yield "ottla_registry_ready", [({}, int(lag is not None))]
