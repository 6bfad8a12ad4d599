"""/associations: which subjects the keys and values of a topic belong to."""

from __future__ import annotations

from functools import partial
from typing import Any

from ottla.common.clock import Clock, SystemClock
from ottla.common.ids import new_uuid
from ottla.http.app import Request, Response
from ottla.http.routing import Routes
from ottla.registry import decisions
from ottla.registry.associations import (
    KEY,
    STRONG,
    TOPIC,
    VALUE,
    WEAK,
    Target,
    Wanted,
    associate,
    check_subjects,
    complete,
    disassociate,
    find,
    invalid,
)
from ottla.registry.entities import Json
from ottla.registry.rest.requests import answer, body_of, page, read_register_request, text
from ottla.registry.service import Registry
from ottla.registry.subjects import normalize_subject

SHOWN = (
    "subject", "guid", "resourceName", "resourceNamespace", "resourceId", "resourceType", "associationType",
    "lifecycle", "frozen", "createTs", "updateTs",
)  # fmt: skip


class AssociationRoutes:
    """Serves associations."""

    def __init__(self, registry: Registry, clock: Clock | None = None) -> None:
        self._registry = registry
        self._clock = clock or SystemClock()

    def add_to(self, routes: Routes) -> None:
        """Add the paths."""
        one = "/associations/resources/{resourceId}"
        for method, path, handler in (
            ("GET", "/associations/subjects/{subject}", self.by_subject),
            ("GET", "/associations/resources/{resourceNamespace}/{resourceName}", self.by_name),
            ("GET", one, self.by_id),
            ("POST", "/associations", self.create),
            ("PUT", one, self.update),
            ("DELETE", one, self.delete),
        ):
            routes.add(method, path, handler)

    async def by_subject(self, request: Request) -> Response:
        """Return the topics that a subject belongs to."""
        return await self._list(request, subject=normalize_subject(request.params["subject"]))

    async def by_name(self, request: Request) -> Response:
        """Return the subjects of a topic; `-` is any namespace."""
        return await self._list(
            request, name=request.params["resourceName"], namespace=request.params["resourceNamespace"]
        )

    async def by_id(self, request: Request) -> Response:
        """Return the subjects of a topic by its id."""
        return await self._list(request, resource_id=request.params["resourceId"])

    async def _list(self, request: Request, **wanted: str) -> Response:
        found = find(
            await self._registry.fresh(),
            resource_type=request.query.get("resourceType") or None,
            types=request.query.getlist("associationType"),
            lifecycle=request.query.get("lifecycle") or None,
            **wanted,
        )
        readable = ({name: each[name] for name in SHOWN if name in each} for each in found)
        return answer(
            request, page(request, [each for each in readable if request.may_read(each["subject"])])
        )

    async def create(self, request: Request) -> Response:
        """Associate subjects with a topic that has none."""
        body = body_of(request)
        return await self._associate(request, body, _target(body, request), is_create=True)

    async def update(self, request: Request) -> Response:
        """Associate subjects with a topic, or change how."""
        body = body_of(request)
        target = _target({**body, "resourceId": request.params["resourceId"]}, request)
        return await self._associate(request, body, target, is_create=False)

    async def _associate(self, request: Request, body: Json, target: Target, *, is_create: bool) -> Response:
        wanted = [_wanted(each) for each in _associations(body)]
        state = await self._registry.fresh()
        full = [complete(state, target, each, is_create=is_create) for each in wanted]
        check_subjects(state, target, full)
        if request.flag("dryRun"):
            return answer(request, _response(target, full, {}))
        schemas: dict[str, Json] = {}
        for each in full:
            if each.schema is not None and each.subject is not None:
                stored = await self._registry.register(each.subject, each.schema, normalize=each.normalize)
                schemas[each.association_type] = stored.as_json()
        guids = [str(new_uuid()) for _ in full]
        now_ms = self._clock.wall_ms()
        answers = await self._registry.change(
            lambda state: associate(state, target, full, guids, now_ms, is_create=is_create)
        )
        return answer(request, _response(target, answers, schemas))

    async def delete(self, request: Request) -> Response:
        """Remove associations of a topic."""
        resource_id, types = request.params["resourceId"], request.query.getlist("associationType")
        kind, cascade = request.query.get("resourceType") or None, request.flag("cascadeLifecycle")
        if request.flag("dryRun"):
            disassociate(await self._registry.fresh(), resource_id, kind, types, cascade=cascade)
            return Response(status=204)
        subjects = await self._registry.change(
            lambda state: disassociate(state, resource_id, kind, types, cascade=cascade)
        )
        for subject in subjects:
            await self._registry.change(partial(decisions.delete_subject, subject=subject, permanent=True))
        return Response(status=204)


def _target(body: Json, request: Request) -> Target:
    found = {}
    for name in ("resourceName", "resourceNamespace", "resourceId"):
        given = text(body.get(name), name)
        if not given and not (name == "resourceId" and request.flag("dryRun")):
            raise invalid(name, "cannot be null or empty")
        found[name] = given or ""
    if (body.get("resourceType") or TOPIC) != TOPIC:
        raise invalid("resourceType", f"must be '{TOPIC}'")
    return Target(found["resourceName"], found["resourceNamespace"], found["resourceId"])


def _associations(body: Json) -> list[Json]:
    given: Any = body.get("associations")
    if not isinstance(given, list) or not given or not all(isinstance(each, dict) for each in given):
        raise invalid("associations", "cannot be null or empty")
    kinds = [each.get("associationType") or VALUE for each in given]
    if len(set(kinds)) < len(kinds):
        raise invalid("associationType", "may only appear once per request")
    return given


def _wanted(given: Json) -> Wanted:
    kind = given.get("associationType") or VALUE
    if kind not in (KEY, VALUE):
        raise invalid("associationType", f"must be either '{KEY}' or '{VALUE}'")
    lifecycle = given.get("lifecycle")
    if lifecycle not in (None, WEAK, STRONG):
        raise invalid("lifecycle", f"must be {STRONG} or {WEAK}")
    schema = given.get("schema")
    subject = text(given.get("subject"), "subject")
    return Wanted(
        kind,
        None if subject is None else normalize_subject(subject),
        lifecycle,
        None if given.get("frozen") is None else bool(given["frozen"]),
        read_register_request(schema) if isinstance(schema, dict) else None,
        bool(given.get("normalize")),
    )


def _response(target: Target, wanted: list[Wanted], schemas: dict[str, Json]) -> Json:
    return {
        "resourceName": target.name,
        "resourceNamespace": target.namespace,
        "resourceId": target.id,
        "resourceType": target.type,
        "associations": [
            {
                "subject": each.subject,
                "associationType": each.association_type,
                "lifecycle": each.lifecycle,
                "frozen": bool(each.frozen),
                **({"schema": schemas[each.association_type]} if each.association_type in schemas else {}),
            }
            for each in wanted
        ],
    }
