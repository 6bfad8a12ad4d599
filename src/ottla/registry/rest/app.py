"""The routes of the registry, and what happens before any of them.

`/contexts/{context}/...` is the same path without it, about the subjects of that context. `GET
/schemas/ids/{id}`, which every consumer asks for, is answered from bytes that are kept, before anything is
looked at twice.
"""

from __future__ import annotations

import json
from collections.abc import Callable

from starlette.datastructures import QueryParams

from ottla.http.app import HttpApp, Request, Response, Scope
from ottla.http.errors import HttpError
from ottla.http.limits import HttpLimits
from ottla.http.routing import Routes
from ottla.registry.exporters.records import ExporterState
from ottla.registry.keys.state import KeyState
from ottla.registry.rest.association_batches import AssociationBatchRoutes
from ottla.registry.rest.associations import AssociationRoutes
from ottla.registry.rest.exporters import ExporterRoutes
from ottla.registry.rest.keys import KeyRoutes
from ottla.registry.rest.metrics import RegistryMetrics
from ottla.registry.rest.requests import V1_JSON
from ottla.registry.rest.schemas import SchemaRoutes
from ottla.registry.rest.settings import SettingRoutes
from ottla.registry.rest.subjects import SubjectRoutes
from ottla.registry.service import Registry
from ottla.registry.state_store import StateStore
from ottla.registry.subjects import normalize_context

ID_PATH = "/schemas/ids/"
MAX_KEPT = 10_000


def make_app(
    registry: Registry,
    cluster_id: Callable[[], str | None],
    limits: HttpLimits | None = None,
    keys: StateStore[KeyState] | None = None,
    exporters: StateStore[ExporterState] | None = None,
) -> HttpApp:
    """Return the application; without `keys`, it has no DEK registry; without `exporters`, it has none."""
    routes = Routes()
    SchemaRoutes(registry).add_to(routes)
    SubjectRoutes(registry).add_to(routes)
    SettingRoutes(registry, cluster_id).add_to(routes)
    AssociationRoutes(registry).add_to(routes)
    AssociationBatchRoutes(registry).add_to(routes)
    if keys is not None:
        KeyRoutes(keys, registry).add_to(routes)
    if exporters is not None:
        ExporterRoutes(exporters).add_to(routes)
    kept = SchemaResponseCache(registry)
    metrics = RegistryMetrics(registry, lambda: kept.served)
    metrics.add_to(routes)
    app = HttpApp(routes, limits, error_type=V1_JSON)
    app.rewrite = enter_context
    app.fast_path = kept
    app.observe = metrics.requests.observe
    return app


def enter_context(request: Request) -> None:
    """Turn `/contexts/{context}/...` into a request about the subjects of that context."""
    segments = request.segments
    if len(segments) < 2 or segments[0] != "contexts":
        return
    try:
        prefix = normalize_context(segments[1])
    except ValueError as error:
        raise HttpError(400, 400, str(error)) from None
    rest = segments[2:]
    if not rest:
        return
    request.segments = _qualified_path(rest, prefix)
    if rest[:2] == ["schemas", "ids"]:
        request.query = _with_prefix(request.query, "subject", prefix)
    elif rest in (["schemas"], ["subjects"]):
        request.query = _with_prefix(request.query, "subjectPrefix", prefix)
    elif rest[0].startswith("associations"):
        others = [(key, value) for key, value in request.query.multi_items() if key != "context"]
        request.query = QueryParams([*others, ("context", segments[1])])


def _qualified_path(rest: list[str], prefix: str) -> list[str]:
    """Return a path whose subject is qualified with the context."""
    if rest[0] in ("config", "mode"):
        at = 1
        if len(rest) == 1:
            return [*rest, prefix] if prefix else rest
    else:
        at = next((at for at, name in enumerate(rest, 1) if name in ("subjects", "deks")), len(rest))
    if at < len(rest) and not rest[at].startswith((":.", ":*:")):
        return [*rest[:at], prefix + rest[at], *rest[at + 1 :]]
    return rest


def _with_prefix(query: QueryParams, name: str, prefix: str) -> QueryParams:
    given = query.get(name, "")
    value = given if given.startswith((":.", ":*:")) else prefix + given
    return QueryParams([*((key, each) for key, each in query.multi_items() if key != name), (name, value)])


class SchemaResponseCache:
    """Answers `GET /schemas/ids/{id}` without a query from kept bytes: what an id means never changes.

    Whether it is deleted may change, and where it stands: an answer is kept with the object it was made of.
    """

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._kept: dict[str, tuple[object, Response]] = {}
        self.served = 0
        """How many requests were answered."""

    def __call__(self, scope: Scope) -> Response | None:
        """Return the answer, or None if the request must go the usual way."""
        path: str = scope["path"]
        if not path.startswith(ID_PATH) or scope["method"] != "GET" or scope["query_string"]:
            return None
        name = path[len(ID_PATH) :]
        if not name.isascii() or not name.isdigit() or len(name) > 9 or not _takes_v1(scope):
            return None
        found = self._registry.state.by_id(int(name))
        if found is None:
            return None
        kept = self._kept.get(name)
        self.served += 1
        if kept is not None and kept[0] is found:
            return kept[1]
        shown = found.as_json(with_id=False)
        body = json.dumps(shown, separators=(",", ":"), ensure_ascii=False).encode()
        response = Response(body, content_type=V1_JSON)
        if len(self._kept) >= MAX_KEPT:
            self._kept.clear()
        self._kept[name] = (found, response)
        return response


def _takes_v1(scope: Scope) -> bool:
    """Return whether the client surely accepts our own media type."""
    for name, value in scope["headers"]:
        if name == b"accept":
            return value == b"*/*" or bool(value.startswith(V1_JSON.encode()))
    return True
