"""/subjects: versions, look-ups, deletes."""

from __future__ import annotations

from ottla.http.app import Request, Response
from ottla.http.routing import Routes
from ottla.registry import decisions, errors
from ottla.registry.entities import Json, StoredSchema
from ottla.registry.registration import RegisterRequest
from ottla.registry.rest.access import check_readable, check_references, found_subject
from ottla.registry.rest.requests import (
    MAX_SCHEMAS,
    answer,
    body_of,
    page,
    read_register_request,
    register_request,
    version_of,
)
from ottla.registry.rest.tags import read_tags, shown_tags, tagged
from ottla.registry.rest.views import formatted, qualified_references, subjects_with_prefix
from ottla.registry.service import Registry
from ottla.registry.state import RegistryState
from ottla.registry.subjects import WILDCARD, is_valid

PROTOBUF = "PROTOBUF"


class SubjectRoutes:
    """Serves subjects and their versions."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry

    def add_to(self, routes: Routes) -> None:
        """Add the paths."""
        one = "/subjects/{subject}"
        for method, path, handler in (
            ("GET", "/subjects", self.list_subjects),
            ("POST", one, self.look_up),
            ("DELETE", one, self.delete_subject),
            ("GET", f"{one}/metadata", self.latest_with_metadata),
            ("GET", f"{one}/versions", self.list_versions),
            ("POST", f"{one}/versions", self.register),
            ("GET", f"{one}/versions/{{version}}", self.get_version),
            ("DELETE", f"{one}/versions/{{version}}", self.delete_version),
            ("GET", f"{one}/versions/{{version}}/schema", self.get_text),
            ("GET", f"{one}/versions/{{version}}/referencedby", self.referenced_by),
            ("POST", f"{one}/versions/{{version}}/tags", self.tag),
        ):
            routes.add(method, path, handler)

    def _subject(self, request: Request, state: RegistryState | None = None) -> str:
        """Return the subject that the path names; aliases are resolved."""
        return found_subject(request, state or self._registry.state)

    async def list_subjects(self, request: Request) -> Response:
        """Return the names of subjects, sorted."""
        state = await self._registry.fresh()
        deleted, deleted_only = request.flag("deleted"), request.flag("deletedOnly")

        def is_shown(subject: str) -> bool:
            is_deleted = all(each.deleted for each in state.subjects[subject].values())
            return is_deleted if deleted_only else deleted or not is_deleted

        prefix = request.query.get("subjectPrefix", WILDCARD)
        names = sorted(filter(is_shown, filter(request.may_read, subjects_with_prefix(state, prefix))))
        return answer(request, page(request, names))

    async def list_versions(self, request: Request) -> Response:
        """Return the version numbers of a subject."""
        state = await self._registry.fresh()
        subject = self._subject(request, state)
        deleted, deleted_only = request.flag("deleted"), request.flag("deletedOnly")
        if not state.has_subjects(subject, deleted=deleted or deleted_only):
            raise errors.subject_not_found(subject)
        as_negative = request.flag("deletedAsNegative")
        found = [
            -each.version if as_negative and each.deleted else each.version
            for each in state.versions(subject, deleted=deleted or deleted_only or as_negative)
            if each.deleted or as_negative or not deleted_only
        ]
        return answer(request, page(request, found))

    async def _version(self, request: Request, *, deleted: bool) -> tuple[RegistryState, StoredSchema]:
        """Return a version of a subject; one without a context is also looked for in all others."""
        version = version_of(request.params["version"])
        state = await self._registry.fresh()
        subject = self._subject(request, state)
        found = state.get(subject, version, deleted=deleted)
        if found is None and not subject.startswith(":"):
            elsewhere = (state.get(f":{each}:{subject}", version, deleted=deleted) for each in state.contexts)
            found = next((each for each in elsewhere if each is not None), None)
        if found is None:
            if not state.has_subjects(subject, deleted=deleted):
                raise errors.subject_not_found(subject)
            raise errors.version_not_found(version)
        check_readable_elsewhere(request, subject, found)
        return state, found

    async def get_version(self, request: Request) -> Response:
        """Return one version of a subject."""
        state, found = await self._version(request, deleted=request.flag("deleted"))
        shown = found.as_json()
        shown["schema"] = await formatted(self._registry, state, found, request)
        if request.query.get("referenceFormat") == "qualified":
            qualified_references(shown, found)
        if "findTags" in request.query:
            shown |= await shown_tags(self._registry, state, found, request)
        return answer(request, shown)

    async def get_text(self, request: Request) -> Response:
        """Return the text of one version alone."""
        state, found = await self._version(request, deleted=request.flag("deleted"))
        response = answer(request, None)
        response.body = (await formatted(self._registry, state, found, request)).encode()
        return response

    async def referenced_by(self, request: Request) -> Response:
        """Return the ids of the schemas that refer to a version."""
        state, found = await self._version(request, deleted=True)
        referrers = state.referrers(found.subject, found.version, deleted=request.flag("deleted"))
        return answer(request, page(request, [each for _, each in referrers], MAX_SCHEMAS))

    async def look_up(self, request: Request) -> Response:
        """Return the version of a subject that holds a schema."""
        wanted = register_request(request)
        check_references(request, self._subject(request), wanted.references)
        found = await self._registry.look_up(
            self._subject(request),
            wanted,
            normalize=request.flag("normalize"),
            deleted=request.flag("deleted"),
        )
        check_readable_elsewhere(request, self._subject(request), found)
        shown = found.as_json()
        shown["schema"] = await formatted(self._registry, self._registry.state, found, request)
        return answer(request, shown)

    async def latest_with_metadata(self, request: Request) -> Response:
        """Return the latest version with some properties in its metadata."""
        state = await self._registry.fresh()
        subject, deleted = self._subject(request, state), request.flag("deleted")
        wanted = list(zip(request.query.getlist("key"), request.query.getlist("value"), strict=False))
        for each in reversed(state.versions(subject, deleted=deleted)):
            metadata = each.definition.metadata
            properties = (metadata or {}).get("properties", {})
            if metadata is not None and all(properties.get(key) == value for key, value in wanted):
                shown = each.as_json()
                shown["schema"] = await formatted(self._registry, state, each, request)
                return answer(request, shown)
        if not state.has_subjects(subject, deleted=deleted):
            raise errors.subject_not_found(subject)
        raise errors.schema_not_found()

    async def register(self, request: Request) -> Response:
        """Register a schema as the next version of a subject."""
        body = body_of(request)
        wanted = read_register_request(body)
        check_references(request, self._subject(request), wanted.references)
        add, remove = read_tags(body.get("schemaTagsToAdd")), read_tags(body.get("schemaTagsToRemove"))
        propagates = body.get("propagateSchemaTags") is True
        del body  # it may hold much that is of no use, and the rest takes time
        if propagates or not wanted.schema.strip():  # the answer has a part of an earlier version
            check_readable(request, [self._subject(request)])
        if propagates:
            wanted = await self._registry.with_earlier_tags(self._subject(request), wanted)
        if add or remove:
            wanted = await self._registry.with_tags(self._subject(request), wanted, add, remove)
        return await self._register(request, wanted)

    async def _register(self, request: Request, wanted: RegisterRequest) -> Response:
        if not is_valid(request.params["subject"]):
            raise errors.invalid_subject(request.params["subject"])
        found = await self._registry.register(
            self._subject(request),
            wanted,
            normalize=request.flag("normalize"),
            force=request.flag("force"),
        )
        shown = _registered(found, wanted)
        if request.query.get("format", "").strip():
            shown["schema"] = await formatted(self._registry, self._registry.state, found, request)
        return answer(request, shown)

    async def delete_version(self, request: Request) -> Response:
        """Delete one version; the answer is its number."""
        version = version_of(request.params["version"])
        permanent = request.flag("permanent")
        deleted = await self._registry.change(
            lambda state: decisions.delete_version(
                state, self._subject(request, state), version, permanent=permanent
            )
        )
        return answer(request, deleted)

    async def delete_subject(self, request: Request) -> Response:
        """Delete all versions of a subject; the answer is their numbers."""
        permanent = request.flag("permanent")
        deleted = await self._registry.change(
            lambda state: decisions.delete_subject(state, self._subject(request, state), permanent=permanent)
        )
        return answer(request, deleted)

    async def tag(self, request: Request) -> Response:
        """Register a version again with other metadata and rules."""
        body = body_of(request)
        if not is_valid(request.params["subject"]):
            raise errors.invalid_subject(request.params["subject"])
        state, found = await self._version(request, deleted=False)
        check_readable(request, [found.subject])  # the answer has it
        return await self._register(request, await tagged(self._registry, state, found, body))


def _registered(schema: StoredSchema, wanted: RegisterRequest) -> Json:
    """Return the response to the registration of a version.

    Clients cache the text with the id. A client that sent a Protobuf schema as a descriptor expects a
    descriptor (confluent-kafka's serializers fail on anything else): the response to it has no text.
    """
    shown = schema.as_json()
    del shown["subject"]
    if schema.definition.schema_type == PROTOBUF and wanted.schema != schema.schema:
        del shown["schema"]
    return {"id": shown.pop("id"), "version": shown.pop("version"), **shown}


def check_readable_elsewhere(request: Request, subject: str, found: StoredSchema) -> None:
    """Refuse a version that was found in another context, which the user may not read."""
    if found.subject != subject:
        check_readable(request, [found.subject])
