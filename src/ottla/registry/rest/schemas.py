"""/schemas: by id, by GUID, lists."""

from __future__ import annotations

from collections.abc import Iterator

from ottla.http.app import Request, Response
from ottla.http.routing import Routes
from ottla.registry import errors
from ottla.registry.contracts import has_rule_type, malformed
from ottla.registry.decoding import split
from ottla.registry.entities import Json, StoredSchema, parse_guid
from ottla.registry.formats import SCHEMA_TYPES
from ottla.registry.rest.access import denied
from ottla.registry.rest.requests import MAX_SCHEMAS, answer, id_of, page
from ottla.registry.rest.tags import shown_tags
from ottla.registry.rest.views import formatted, qualified_references, subjects_with_prefix, used_by
from ottla.registry.scopes import resolve_alias
from ottla.registry.service import Registry
from ottla.registry.state import RegistryState
from ottla.registry.subjects import context_of, in_context, normalize_subject
from ottla.security.acls import Operation


class SchemaRoutes:
    """Serves what is found by id, by GUID or by a filter."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry

    def add_to(self, routes: Routes) -> None:
        """Add the paths."""
        for path, handler in (
            ("/schemas", self.list_schemas),
            ("/schemas/types", self.types),
            ("/schemas/ids/{id}", self.by_id),
            ("/schemas/ids/{id}/schema", self.text_by_id),
            ("/schemas/ids/{id}/subjects", self.subjects),
            ("/schemas/ids/{id}/versions", self.versions),
            ("/schemas/guids/{guid}", self.by_guid),
            ("/schemas/guids/{guid}/ids", self.ids_by_guid),
        ):
            routes.add("GET", path, handler)
        routes.add("POST", "/schemas/ids/{id}/decode", self.decode)

    async def decode(self, request: Request) -> Response:
        """Return which records do not decode with a schema; ours, for brokers that validate."""
        state, found = await self._find(request)
        try:
            for _ in split(request.body):
                pass
        except ValueError as error:
            raise malformed(str(error)) from None
        invalid = await self._registry.decode(state, found, request.body)
        return answer(request, {"invalid": [{"index": index, "message": why} for index, why in invalid]})

    async def types(self, request: Request) -> Response:
        """Return the formats."""
        return answer(request, list(SCHEMA_TYPES))

    async def _find(self, request: Request) -> tuple[RegistryState, StoredSchema]:
        """Return the schema of an id: from memory if it is there, else from what was written since."""
        schema_id = id_of(request.params["id"])
        given = request.query.get("subject")
        for state in (self._registry.state, None):
            state = state or await self._registry.fresh()
            subject = None if given is None else resolve_alias(state, normalize_subject(given))
            found = state.by_id_anywhere(schema_id, subject)
            if found is not None:
                return state, _readable(request, state, found)
        raise errors.schema_not_found(schema_id)

    async def by_id(self, request: Request) -> Response:
        """Return a schema by its id."""
        state, found = await self._find(request)
        shown = found.as_json(with_id=False)
        shown["schema"] = await formatted(self._registry, state, found, request)
        if "findTags" in request.query:
            shown |= await shown_tags(self._registry, state, found, request)
        if request.query.get("referenceFormat") == "qualified":
            qualified_references(shown, found)
        if request.flag("fetchMaxId"):
            shown["maxId"] = (await self._registry.fresh()).max_ids.get(context_of(found.subject), 1)
        return answer(request, shown)

    async def text_by_id(self, request: Request) -> Response:
        """Return a schema's text alone."""
        state, found = await self._find(request)
        text = await formatted(self._registry, state, found, request)
        response = answer(request, None)
        response.body = text.encode()
        return response

    async def _uses(self, request: Request) -> list[StoredSchema]:
        state = await self._registry.fresh()
        schema_id = id_of(request.params["id"])
        given = request.query.get("subject")
        subject = None if given is None else resolve_alias(state, normalize_subject(given))
        found = state.by_id_anywhere(schema_id, subject)
        if found is None:
            raise errors.schema_not_found()
        _readable(request, state, found)
        uses = state.uses_of(context_of(found.subject), schema_id, deleted=request.flag("deleted"))
        return [each for each in uses if request.may_read(each.subject)]

    async def subjects(self, request: Request) -> Response:
        """Return the subjects that have a schema."""
        return answer(request, page(request, (each.subject for each in await self._uses(request))))

    async def versions(self, request: Request) -> Response:
        """Return subject and version of each place that has a schema."""
        places = ({"subject": each.subject, "version": each.version} for each in await self._uses(request))
        return answer(request, page(request, places))

    async def by_guid(self, request: Request) -> Response:
        """Return a schema by its GUID."""
        guid = request.params["guid"]
        md5 = parse_guid(guid)
        for state in (self._registry.state, None):
            state = state or await self._registry.fresh()
            ids = state.ids_by_guid(md5) if md5 is not None else []
            if ids:
                context, schema_id = ids[0]
                found = state.by_id(schema_id, None if context == "." else f":{context}:")
                assert found is not None
                _readable(request, state, found)
                shown = found.as_json(with_id=False, with_place=False)
                shown["schema"] = await formatted(self._registry, state, found, request)
                return answer(request, shown)
        raise errors.schema_not_found(guid)

    async def ids_by_guid(self, request: Request) -> Response:
        """Return context and id of each place that has a GUID."""
        state = await self._registry.fresh()
        md5 = parse_guid(request.params["guid"])
        ids = state.ids_by_guid(md5) if md5 is not None else []
        shown = [
            {"context": context, "id": each}
            for context, each in ids
            if any(request.may_read(use.subject) for use in state.uses_of(context, each, deleted=True))
        ]
        return answer(request, shown)

    async def list_schemas(self, request: Request) -> Response:
        """Return schemas by prefix, latest only, with deleted ones, with rules of a type, with aliases."""
        state = await self._registry.fresh()
        prefix = request.query.get("subjectPrefix", "")
        aliases = _aliases(state, prefix) if request.flag("aliases") else {}
        names = {*subjects_with_prefix(state, prefix), *(each for each in aliases if each in state.subjects)}
        subjects = sorted(filter(request.may_read, names))
        return answer(request, page(request, _listed(state, subjects, aliases, request), MAX_SCHEMAS))


def _listed(
    state: RegistryState, subjects: list[str], aliases: dict[str, list[str]], request: Request
) -> Iterator[Json]:
    """Yield the schemas of subjects that a request asks for, one by one: a page is a small part of many."""
    deleted, latest_only = request.flag("deleted"), request.flag("latestOnly")
    rule_type = request.query.get("ruleType", "")
    used = used_by(state, request)
    for subject in subjects:
        topics = None if used is None else used(subject)
        if used is not None and topics is None:
            continue
        versions = state.versions(subject, deleted=deleted)
        for each in versions[-1:] if latest_only else versions:
            if rule_type and not has_rule_type(each.definition.rule_set, rule_type):
                continue
            shown = each.as_json()
            if subject in aliases:
                shown["aliases"] = aliases[subject]
            if topics:
                shown["associations"] = topics
            yield shown


def _readable(request: Request, state: RegistryState, found: StoredSchema) -> StoredSchema:
    """Return a schema as a subject has it that the user may read; refuse it if there is none."""
    if request.may_read(found.subject):
        return found
    uses = state.uses_of(context_of(found.subject), found.id, deleted=True)
    for each in uses:
        if request.may_read(each.subject):
            return each
    raise denied(Operation.READ, f"schema {found.id}")  # the names of its subjects are not for this user


def _aliases(state: RegistryState, prefix: str) -> dict[str, list[str]]:
    """Return which subjects are aliases for each subject."""
    found: dict[str, list[str]] = {}
    for name in sorted(each for each in state.configs if each is not None):
        alias = state.configs[name].get("alias")
        if alias and name.startswith("" if prefix.startswith(":*:") else prefix):
            found.setdefault(in_context(name, alias), []).append(name)
    return found
