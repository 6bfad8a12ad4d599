"""Which schemas and configs another registry is to have, under which names. Pure.

    contextType   a subject `orders` of the default context becomes      one of the context `.a`
    NONE          orders                                                 :.a:orders
    DEFAULT       orders                                                 orders
    CUSTOM `.c`   :.c:orders                                             :.c.a:orders
    AUTO          the same, in a context with the cluster's name

`subjectRenameFormat` changes the name within the context. What a schema refers to is copied before it, also
if `subjects` does not name it. Configs of subjects are copied; those of contexts and of all are not, which
count for subjects of others there; nor are modes: copies are in the mode IMPORT.
"""

from __future__ import annotations

from dataclasses import dataclass

from ottla.registry.entities import Json, StoredSchema, reference_json
from ottla.registry.exporters.records import AUTO, DEFAULT, NONE, PLACEHOLDER, Exporter
from ottla.registry.state import RegistryState
from ottla.registry.subjects import DEFAULT_CONTEXT, WILDCARD, in_context, parse_subject

ALIAS = "alias"


@dataclass(frozen=True, slots=True)
class Names:
    """How subjects are called in the other registry."""

    exporter: Exporter
    cluster: str
    """The name of this cluster: the context of AUTO."""

    def of(self, subject: str) -> str:
        """Return the name that a subject has there."""
        found = parse_subject(subject)
        name = self.exporter.rename_format.replace(PLACEHOLDER, found.name)
        context = self._context(found.context)
        return name if context == DEFAULT_CONTEXT else f":{context}:{name}"

    def _context(self, context: str) -> str:
        kind = self.exporter.context_type
        if kind == NONE:
            return context
        if kind == DEFAULT:
            return DEFAULT_CONTEXT
        base = f".{self.cluster}" if kind == AUTO else self.exporter.context
        if context == DEFAULT_CONTEXT:
            return base
        return context if base == DEFAULT_CONTEXT else base + context


@dataclass(frozen=True, slots=True)
class Copy:
    """One version, as the other registry is to have it."""

    subject: str
    version: int
    is_deleted: bool
    body: Json
    """The request that registers it."""


def is_selected(exporter: Exporter, subject: str) -> bool:
    """Return whether `subjects` has a subject: exactly, by a prefix with `*`, or in all contexts (`:*:`)."""
    found = parse_subject(subject)
    for pattern in exporter.subjects:
        wanted = parse_subject(pattern)
        if wanted.context not in (found.context, "*"):
            continue
        if wanted.name.endswith("*"):
            if found.name.startswith(wanted.name[:-1]):
                return True
        elif wanted.name == found.name or (not wanted.name and pattern.startswith((":.", WILDCARD))):
            return True
    return False


def copies(state: RegistryState, names: Names) -> list[Copy]:
    """Return everything that the other registry is to have, each version after those that it refers to."""
    found: dict[tuple[str, int], Copy] = {}
    for subject in list(state.subjects):
        if is_selected(names.exporter, subject):
            for schema in state.versions(subject, deleted=True):
                _add(state, schema, names, found)
    return list(found.values())


def configs(state: RegistryState, names: Names) -> dict[str, Json]:
    """Return the config that each subject is to have there.

    The alias of a subject with versions is left out: copies of them would end up under the other subject.
    """
    found = {}
    for subject, config in state.configs.items():
        if subject is None or parse_subject(subject).is_context or not is_selected(names.exporter, subject):
            continue
        copied = {name: value for name, value in config.items() if name != ALIAS}
        if config.get(ALIAS) and subject not in state.subjects:
            copied[ALIAS] = names.of(in_context(subject, config[ALIAS]))
        if copied:
            found[names.of(subject)] = copied
    return found


def _add(
    state: RegistryState, schema: StoredSchema, names: Names, found: dict[tuple[str, int], Copy]
) -> None:
    """Add a version and, before it, what it refers to; cycles cannot be registered."""
    waiting = [(schema, False)]
    while waiting:
        each, is_ready = waiting.pop()
        place = (each.subject, each.version)
        if place in found:
            continue
        if is_ready:
            found[place] = _copy(each, names)
            continue
        waiting.append((each, True))
        for reference in each.definition.references:
            target = state.get(in_context(each.subject, reference.subject), reference.version, deleted=True)
            if target is not None:
                waiting.append((target, False))


def _copy(schema: StoredSchema, names: Names) -> Copy:
    definition = schema.definition
    body: Json = {"schema": definition.schema, "schemaType": definition.schema_type}
    body |= {"id": schema.id, "version": schema.version}
    if definition.references:
        body["references"] = [
            {**reference_json(each), "subject": names.of(in_context(schema.subject, each.subject))}
            for each in definition.references
        ]
    if definition.metadata is not None:
        body["metadata"] = definition.metadata
    if definition.rule_set is not None:
        body["ruleSet"] = definition.rule_set
    return Copy(names.of(schema.subject), schema.version, schema.deleted, body)
