"""/associations: which subjects the keys and values of a topic belong to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ottla.http.app import Request, Response
from ottla.http.errors import HttpError
from ottla.http.routing import Routes
from ottla.registry.association_changes import AssociationChanges
from ottla.registry.associations import (
    KEY,
    STRONG,
    TOPIC,
    VALUE,
    WEAK,
    AssociationRequest,
    Target,
    find,
    invalid,
)
from ottla.registry.entities import Json, StoredSchema
from ottla.registry.rest.access import check_references, found_subject
from ottla.registry.rest.requests import answer, body_of, page, read_register_request, text
from ottla.registry.rest.views import shown_association
from ottla.registry.service import Registry
from ottla.registry.subjects import DEFAULT_CONTEXT, in_context, is_valid, normalize_context


class AssociationRoutes:
    """Serves associations."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._changes = AssociationChanges(registry)

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
        return await self._list(request, subject=found_subject(request, await self._registry.fresh()))

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
        readable = map(shown_association, found)
        return answer(
            request, page(request, [each for each in readable if request.may_read(each["subject"])])
        )

    async def create(self, request: Request) -> Response:
        """Associate subjects with a topic that has none."""
        body = body_of(request)
        target = read_target(body, dry_run=request.flag("dryRun"))
        return await self._associate(request, body, target, is_create=True)

    async def update(self, request: Request) -> Response:
        """Associate subjects with a topic, or change how."""
        body = body_of(request)
        given = {**body, "resourceId": request.params["resourceId"]}
        target = read_target(given, dry_run=request.flag("dryRun"))
        return await self._associate(request, body, target, is_create=False)

    async def _associate(self, request: Request, body: Json, target: Target, *, is_create: bool) -> Response:
        wanted = [read_wanted(each, request) for each in read_associations(body)]
        check_schemas_readable(request, target, wanted)
        made, schemas = await self._changes.put(
            target, wanted, is_create=is_create, dry_run=request.flag("dryRun")
        )
        infos = [
            association_info(each.subject, each.association_type, each.lifecycle, each.frozen, schemas)
            for each in made
        ]
        return answer(request, resource_json(target, infos))

    async def delete(self, request: Request) -> Response:
        """Remove associations of a topic."""
        await self._changes.delete(
            request.params["resourceId"],
            request.query.get("resourceType") or None,
            request.query.getlist("associationType"),
            cascade=request.flag("cascadeLifecycle"),
            dry_run=request.flag("dryRun"),
        )
        return Response(status=204)


def read_target(body: Json, *, dry_run: bool) -> Target:
    """Return the topic that a request is about."""
    found = {}
    for name in ("resourceName", "resourceNamespace", "resourceId"):
        given = text(body.get(name), name)
        if not given and not (name == "resourceId" and dry_run):
            raise invalid(name, "cannot be null or empty")
        found[name] = given or ""
    if (body.get("resourceType") or TOPIC) != TOPIC:
        raise invalid("resourceType", f"must be '{TOPIC}'")
    return Target(found["resourceName"], found["resourceNamespace"], found["resourceId"])


def read_associations(body: Json) -> list[Json]:
    """Return the associations that a request asks for, one for each type."""
    given: Any = body.get("associations")
    if not isinstance(given, list) or not given or not all(isinstance(each, dict) for each in given):
        raise invalid("associations", "cannot be null or empty")
    kinds = [str(each.get("associationType") or VALUE) for each in given]
    for kind in kinds:
        if kinds.count(kind) > 1:
            raise invalid(
                "associationType", f"may only appear once per request, but '{kind}' appears more than once"
            )
    return given


def read_type(given: Json) -> str:
    """Return whether it is about keys or values."""
    kind = given.get("associationType") or VALUE
    if kind not in (KEY, VALUE):
        raise invalid("associationType", f"must be either '{KEY}' or '{VALUE}'")
    return str(kind)


def read_wanted(given: Json, request: Request) -> AssociationRequest:
    """Return one association that a request asks for; a subject is in its `context` if it names none."""
    kind = read_type(given)
    lifecycle = given.get("lifecycle")
    if lifecycle not in (None, WEAK, STRONG):
        raise invalid("lifecycle", f"must be {STRONG} or {WEAK}")
    schema = given.get("schema")
    subject = text(given.get("subject"), "subject")
    if subject is not None and (not subject or not is_valid(subject)):
        raise invalid("subject", "must not be empty")
    return AssociationRequest(
        kind,
        None if subject is None else in_context(_context(request), subject),
        lifecycle,
        None if given.get("frozen") is None else bool(given["frozen"]),
        read_register_request(schema) if isinstance(schema, dict) else None,
        bool(given.get("normalize")),
    )


def _context(request: Request) -> str:
    try:
        return normalize_context(request.query.get("context") or DEFAULT_CONTEXT)
    except ValueError as error:
        raise HttpError(400, 400, str(error)) from None


def check_schemas_readable(request: Request, target: Target, wanted: Sequence[AssociationRequest]) -> None:
    """Refuse schemas that refer to what the user may not read."""
    for each in wanted:
        if each.schema is not None:
            subject = each.subject or target.own_subject(each.association_type)
            check_references(request, subject, each.schema.references)


def association_info(
    subject: str | None,
    association_type: str,
    lifecycle: str | None,
    frozen: bool | None,
    schemas: Mapping[str, StoredSchema],
) -> Json:
    """Return an association as it is shown within its topic, with its schema if that is known."""
    shown: Json = {
        "subject": subject,
        "associationType": association_type,
        "lifecycle": lifecycle,
        "frozen": bool(frozen),
    }
    if association_type in schemas:
        shown["schema"] = schemas[association_type].as_json()
    return shown


def resource_json(target: Target, infos: list[Json]) -> Json:
    """Return a topic with its associations."""
    return {
        "resourceName": target.name,
        "resourceNamespace": target.namespace,
        "resourceId": target.id,
        "resourceType": target.type,
        "associations": infos,
    }
