"""How schemas are shown: formats, qualified references, lists by prefix."""

from __future__ import annotations

from collections.abc import Iterator

from ottla.http.app import Request
from ottla.registry.entities import Json, StoredSchema, reference_json
from ottla.registry.service import Registry
from ottla.registry.state import RegistryState
from ottla.registry.subjects import WILDCARD, in_context, parse_subject


async def formatted(registry: Registry, state: RegistryState, found: StoredSchema, request: Request) -> str:
    """Return a schema's text, in the format that the request asks for, if it asks for one."""
    wanted = request.query.get("format", "").strip()
    return found.schema if not wanted else await registry.render(state, found, wanted)


def qualified_references(shown: Json, found: StoredSchema) -> None:
    """Write the references of a schema in another context with that context."""
    if parse_subject(found.subject).is_qualified and "references" in shown:
        shown["references"] = [
            {**reference_json(each), "subject": in_context(found.subject, each.subject)}
            for each in found.definition.references
        ]


def subjects_with_prefix(state: RegistryState, prefix: str) -> Iterator[str]:
    """Return the subjects that begin with a prefix; after `:*:`, in any context."""
    if not prefix.startswith(WILDCARD):
        return (each for each in state.subjects if each.startswith(prefix))
    rest = prefix[len(WILDCARD) :]
    return (each for each in state.subjects if parse_subject(each).name.startswith(rest))
