"""/associations:batchGet and :batchMutate: several topics in one request, each with an answer of its own.

The answer is 207; in it, each topic has a `result` or an `error`, in the order of the request. Topics are
independent: what is refused for one is done for the others.
"""

from __future__ import annotations

from itertools import groupby
from typing import Any

from ottla.http.app import Request, Response
from ottla.http.errors import HttpError
from ottla.http.routing import Routes
from ottla.registry.association_changes import AssociationChanges
from ottla.registry.associations import TOPIC, Target, find, invalid, of_target
from ottla.registry.contracts import malformed
from ottla.registry.entities import Json, StoredSchema
from ottla.registry.rest.associations import (
    association_info,
    check_schemas_readable,
    read_associations,
    read_target,
    read_type,
    read_wanted,
    resource_json,
)
from ottla.registry.rest.requests import answer, body_of, text
from ottla.registry.service import Registry
from ottla.registry.state import RegistryState

MULTI_STATUS = 207
INTERNAL = 500
CREATE, UPSERT, DELETE = "CREATE", "UPSERT", "DELETE"
INVALID_SCHEMA, INVALID_ASSOCIATION = 42201, 42212


class AssociationBatchRoutes:
    """Serves associations of several topics at once."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._changes = AssociationChanges(registry)

    def add_to(self, routes: Routes) -> None:
        """Add the paths."""
        routes.add("POST", "/associations:batchGet", self.get)
        routes.add("POST", "/associations:batchMutate", self.mutate)

    async def get(self, request: Request) -> Response:
        """Return the associations of topics, with the latest schemas if `includeSchemas` asks for them."""
        parts = _parts(request)
        state = await self._registry.fresh()
        results: list[Json] = []
        for each in parts:
            try:
                results.append({"result": _found(request, state, each)})
            except _NotShown as error:
                message = f"Error while getting associations: {error}"
                results.append({"error": {"error_code": INTERNAL, "message": message}})
        return answer(request, {"results": results}, MULTI_STATUS)

    async def mutate(self, request: Request) -> Response:
        """Create, change and remove associations of topics."""
        parts = _parts(request)
        for part in parts:
            for each in part.get("associations") or ():
                _operation(each)
        results: list[Json] = []
        for part in parts:
            try:
                results.append({"result": await self._mutate(request, part)})
            except HttpError as error:
                code = INVALID_ASSOCIATION if error.code == INVALID_SCHEMA else error.code
                results.append({"error": {"error_code": code, "message": error.message}})
        return answer(request, {"results": results}, MULTI_STATUS)

    async def _mutate(self, request: Request, given: Json) -> Json:
        dry_run = request.flag("dryRun")
        target = read_target(given, dry_run=dry_run)
        operations = read_associations(given)
        for each in operations:
            read_type(each)
        schemas: dict[str, StoredSchema] = {}
        for kind, run in groupby(operations, key=_operation):
            if kind == DELETE:
                for each in run:
                    await self._changes.delete(
                        target.id,
                        target.type,
                        [read_type(each)],
                        cascade=each.get("cascadeLifecycle") is True,
                        dry_run=dry_run,
                        must_exist=False,
                    )
                continue
            wanted = [read_wanted(each, request) for each in run]
            check_schemas_readable(request, target, wanted)
            _, made = await self._changes.put(target, wanted, is_create=kind == CREATE, dry_run=dry_run)
            schemas |= made
        found = [] if dry_run else of_target(await self._registry.fresh(), target)
        return _result(target, found, schemas)


class _NotShown(Exception):
    """A part of a request that cannot be answered."""


def _parts(request: Request) -> list[Json]:
    given: Any = body_of(request).get("requests")
    if not given:
        raise invalid("requests", "cannot be null or empty")
    if not isinstance(given, list) or not all(isinstance(each, dict) for each in given):
        raise malformed("requests is not an array of objects")
    return given


def _operation(given: Any) -> str:
    kind = given.get("opType") if isinstance(given, dict) else None
    if kind not in (CREATE, UPSERT, DELETE):
        raise malformed(f"opType is not one of {CREATE}, {UPSERT}, {DELETE}")
    return str(kind)


def _found(request: Request, state: RegistryState, given: Json) -> Json:
    """Return the associations of one topic, by its id or by its name."""
    resource_id, name, namespace = (
        text(given.get(each), each) for each in ("resourceId", "resourceName", "resourceNamespace")
    )
    if not resource_id and not name:
        raise _NotShown("property: resourceId; detail: either resourceId or resourceName must be specified")
    if name and not namespace:
        missing = "resourceNamespace is required when resourceName is specified"
        raise _NotShown(f"property: resourceNamespace; detail: {missing}")
    types = given.get("associationTypes") or []
    if not isinstance(types, list):
        raise malformed("associationTypes is not an array")
    kind = text(given.get("resourceType"), "resourceType") or TOPIC
    place = {"resource_id": resource_id} if resource_id else {"name": name, "namespace": namespace}
    lifecycle = text(given.get("lifecycle"), "lifecycle")
    every = find(state, resource_type=kind, types=types, lifecycle=lifecycle, **place)
    found = [each for each in every if request.may_read(each["subject"])]
    if found:
        resource_id = resource_id or found[0]["resourceId"]
        name, namespace = name or found[0]["resourceName"], namespace or found[0]["resourceNamespace"]
    target = Target(name or "", namespace or "", resource_id or "", kind)
    if any(_target_of(each) != target for each in found):
        raise _NotShown(
            "All associations must have the same resourceName, resourceNamespace, "
            "resourceId, and resourceType."
        )
    schemas = {}
    if request.flag("includeSchemas"):
        latest = ((each["associationType"], state.latest(each["subject"])) for each in found)
        schemas = {name: schema for name, schema in latest if schema is not None}
    return _result(target, found, schemas)


def _target_of(association: Json) -> Target:
    return Target(
        association["resourceName"],
        association["resourceNamespace"],
        association["resourceId"],
        association["resourceType"],
    )


def _result(target: Target, found: list[Json], schemas: dict[str, StoredSchema]) -> Json:
    """Return a topic with its associations; Confluent's registry leaves out what is empty."""
    infos = [
        association_info(
            each["subject"], each["associationType"], each["lifecycle"], each.get("frozen"), schemas
        )
        for each in found
    ]
    return {name: value for name, value in resource_json(target, infos).items() if value}
