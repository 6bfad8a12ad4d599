"""How schemas are shown: formats, qualified references, lists by prefix, with the topics that use them."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ottla.http.app import Request
from ottla.http.errors import HttpError
from ottla.registry.associations import STRONG, WEAK, find
from ottla.registry.entities import Json, StoredSchema, reference_json
from ottla.registry.service import Registry
from ottla.registry.state import RegistryState
from ottla.registry.subjects import WILDCARD, in_context, parse_subject

UNUSED = "NONE"
SHOWN = (
    "subject", "guid", "resourceName", "resourceNamespace", "resourceId", "resourceType", "associationType",
    "lifecycle", "frozen", "createTs", "updateTs",
)  # fmt: skip


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
    """Return the subjects that begin with a prefix: after `:*:` in any context, else in its own one."""
    if not prefix.startswith(WILDCARD):
        is_qualified = prefix.startswith(":")
        return (
            each
            for each in state.subjects
            if each.startswith(prefix) and each.startswith(":") == is_qualified
        )
    rest = prefix[len(WILDCARD) :]
    return (each for each in state.subjects if parse_subject(each).name.startswith(rest))


Users = Callable[[str], list[Json] | None]


def used_by(state: RegistryState, request: Request) -> Users | None:
    """Return a filter for topics that use a subject; None if nothing is filtered.

    `lifecycle=NONE` asks for subjects that no topic uses.
    """
    kind, types = request.query.get("resourceType"), request.query.getlist("associationType")
    lifecycles = set(request.query.getlist("lifecycle"))
    if kind is None and not types and not lifecycles:
        return None
    if not lifecycles <= {STRONG, WEAK, UNUSED}:
        raise HttpError(404)
    by_subject: dict[str, list[Json]] = {}
    for each in find(state, resource_type=kind or None, types=types):
        by_subject.setdefault(each["subject"], []).append(shown_association(each))

    def users(subject: str) -> list[Json] | None:
        found = by_subject.get(subject)
        if found is None:
            return [] if UNUSED in lifecycles else None
        return [each for each in found if not lifecycles or each["lifecycle"] in lifecycles] or None

    return users


def shown_association(association: Json) -> Json:
    """Return an association as clients see it."""
    return {name: association[name] for name in SHOWN if name in association}
