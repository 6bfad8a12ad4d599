"""What the registry decides about a new schema, and how it finds one that it has. Pure.

To register takes three steps, because parsing and checking take long and happen elsewhere:

    prepare   what is to be parsed: the text, with all that it refers to, completed from the version before it
    examine   with the canonical text: it is there already, or it must be checked against earlier versions
    decide    with the result of the check: the records to write

The writer repeats the first two from the state at the time of the write: if they come to the same, the result
of the check is still valid, and `decide` is called.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from ottla.registry import errors
from ottla.registry.contracts import merge_metadata, merge_rule_sets, set_confluent_version
from ottla.registry.decisions import Decision, hard_delete
from ottla.registry.entities import (
    AVRO,
    CONFLUENT_VERSION,
    Definition,
    Json,
    StoredSchema,
    without_version,
)
from ottla.registry.formats.parsed import Reference
from ottla.registry.records import RegistryRecord, context_record, schema_record
from ottla.registry.scopes import (
    IMPORTING,
    READ_ONLY,
    config_in_scope,
    has_defaults,
    mode_in_scope,
)
from ottla.registry.state import RegistryState
from ottla.registry.subjects import DEFAULT_CONTEXT, context_of, in_context, parse_subject

MAX_REFERENCES = 300
"""How many schemas one may refer to, directly or not."""
MAX_EQUIVALENT = 300
LENIENT = "LENIENT"
RESERVED = "confluent:reserved"
"""The property in the metadata that lists names which fields may not have, with commas."""
_PRINTED_BY_AVRO = ('{"type":', '"')
"""How Avro's libraries, and this registry, begin a schema. Karapace sorts the keys."""


@dataclass(frozen=True, slots=True)
class RegisterRequest:
    """What a client sends to register or look up a schema."""

    schema: str = ""
    schema_type: str | None = None
    references: tuple[Reference, ...] = ()
    metadata: Json | None = None
    rule_set: Json | None = None
    version: int = 0
    id: int = -1


@dataclass(frozen=True, slots=True)
class Source:
    """A schema's text with the texts of all that it refers to, in the order in which they need each other."""

    schema_type: str
    text: str
    references: tuple[tuple[str, str], ...] = ()
    """Name and text of each."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """What is to be parsed, and how."""

    subject: str
    definition: Definition
    source: Source
    version: int
    id: int
    is_import: bool
    normalize: bool
    validates_fields: bool = False
    validates_new: bool = True
    """Whether names and defaults of an Avro schema must be valid."""


@dataclass(frozen=True, slots=True)
class Examined:
    """What is found for a schema: an existing version, or what it must be compatible with."""

    existing: StoredSchema | None = None
    known_id: int = -1
    level: str = "NONE"
    previous: tuple[tuple[int, Source], ...] = ()
    """Version and source of each, oldest first."""
    validates_fields: bool = False
    lenient: bool = False
    """Whether the policy LENIENT counts."""
    reserved: tuple[str, ...] = ()
    """Names that its fields may not have."""
    not_reserved: tuple[str, ...] = ()
    """Names that the latest version reserves, and the new schema does not."""

    @property
    def has_to_check(self) -> bool:
        """Return whether anything may speak against the schema."""
        return bool(self.previous or self.reserved or self.not_reserved)


def source_of(state: RegistryState, subject: str, definition: Definition) -> Source:
    """Return a schema with the texts of all that it refers to; raise 42201 if one is missing."""
    found: dict[str, str] = {}
    _collect(state, subject, definition.references, found, frozenset())
    return Source(definition.schema_type, definition.schema, tuple(found.items()))


def _collect(
    state: RegistryState,
    subject: str,
    references: tuple[Reference, ...],
    found: dict[str, str],
    path: frozenset[tuple[str, int]],
) -> None:
    for each in references:
        if each.name in found:
            continue
        named = in_context(subject, each.subject)
        schema = state.get(named, each.version, deleted=True)
        if schema is None:
            raise errors.invalid_schema(
                f'No schema reference found for subject "{each.subject}" and version {each.version}'
            )
        place = (schema.subject, schema.version)
        if place in path or len(found) + len(path) >= MAX_REFERENCES:
            what = "refer to each other in a circle" if place in path else f"are more than {MAX_REFERENCES}"
            raise errors.invalid_schema(f"The references of the schema {what}: {each.subject} {each.version}")
        _collect(state, schema.subject, schema.definition.references, found, path | {place})
        found[each.name] = schema.schema


def prepare_lookup(
    state: RegistryState, subject: str, request: RegisterRequest, *, normalize: bool
) -> Prepared:
    """Return what is to be parsed to find a schema under a subject."""
    config, mode = config_in_scope(state, subject), mode_in_scope(state, subject)
    definition = Definition(
        request.schema, request.schema_type or AVRO, request.references, request.metadata, request.rule_set
    )
    return _prepared(state, subject, definition, request, mode, config, normalize)


def _prepared(
    state: RegistryState,
    subject: str,
    definition: Definition,
    request: RegisterRequest,
    mode: str,
    config: Json,
    normalize: bool,
) -> Prepared:
    if not definition.schema.strip():
        raise errors.invalid_schema("Empty schema")
    is_import = mode in IMPORTING
    return Prepared(
        subject,
        definition,
        source_of(state, subject, definition),
        request.version,
        request.id if mode == "IMPORT" else -1,
        is_import,
        (normalize or bool(config.get("normalize"))) and not is_import,
        bool(config.get("validateFields")),
        config.get("validateNewSchemas") is not False,
    )


def prepare(state: RegistryState, subject: str, request: RegisterRequest, *, normalize: bool) -> Prepared:
    """Return what is to be parsed to register a schema; raise 42205 if the mode does not allow it."""
    mode = mode_in_scope(state, subject)
    _check_mode(subject, mode, request)
    config = config_in_scope(state, subject)
    definition = Definition(
        request.schema, request.schema_type or AVRO, request.references, request.metadata, request.rule_set
    )
    _check_references(state, subject, request.references)
    if mode not in IMPORTING:
        latest, next_version = state.latest(subject), _next(state, subject)
        definition = _completed(definition, config, request.version, latest, next_version)
    return _prepared(state, subject, definition, request, mode, config, normalize)


def _check_mode(subject: str, mode: str, request: RegisterRequest) -> None:
    where = f"Subject {subject} in context {parse_subject(subject).prefix}"
    if mode in READ_ONLY:
        raise errors.not_permitted(f"{where} is in read-only mode")
    if request.id >= 0 and mode not in IMPORTING:
        raise errors.not_permitted(f"{where} is not in import mode")
    if request.id < 0 and mode != "READWRITE":
        raise errors.not_permitted(f"{where} is not in read-write mode")


def _check_references(state: RegistryState, subject: str, references: tuple[Reference, ...]) -> None:
    """Refuse to refer to a subject that belongs to a topic alone."""
    for each in references:
        if state.is_associated(in_context(subject, each.subject), "STRONG"):
            raise errors.not_permitted(
                f"Subject '{each.subject}' has a strong association and cannot be referenced"
            )


def _next(state: RegistryState, subject: str) -> int:
    return max(state.subjects.get(subject, ()), default=0) + 1


def _completed(
    definition: Definition, config: Json, version: int, previous: StoredSchema | None, new_version: int | None
) -> Definition:
    """Return what is registered: with the text, metadata and rules that the request does not have."""
    before = previous.definition if previous is not None else None
    if not definition.schema.strip() and before is not None:
        definition = replace(
            definition, schema=before.schema, schema_type=before.schema_type, references=before.references
        )
    metadata, rule_set = definition.metadata, definition.rule_set
    if metadata is None and before is not None:
        metadata = before.metadata
    if rule_set is None and before is not None:
        rule_set = before.rule_set
    metadata = merge_metadata(
        merge_metadata(config.get("defaultMetadata"), metadata), config.get("overrideMetadata")
    )
    rule_set = merge_rule_sets(
        merge_rule_sets(config.get("defaultRuleSet"), rule_set), config.get("overrideRuleSet")
    )
    has_version = CONFLUENT_VERSION in (metadata or {}).get("properties", {})
    if new_version is not None and (version != 0 or has_version):
        metadata = set_confluent_version(metadata, new_version)
    return replace(definition, metadata=metadata, rule_set=rule_set)


def find(
    state: RegistryState, subject: str, definition: Definition, *, deleted: bool = False
) -> StoredSchema | None:
    """Return the version of a subject that holds a schema: the same text, references, metadata and rules."""
    schema_id = state.id_by_hash(context_of(subject), definition.md5)
    if schema_id is not None:
        found = state.version_with_id(subject, schema_id)
        if found is not None and (deleted or not found.deleted):
            return found
    versions = reversed(state.versions(subject, deleted=deleted))
    return next((each for each in versions if _is_same(definition, each)), None)


def _is_same(definition: Definition, stored: StoredSchema) -> bool:
    """Return whether a version holds a schema; `confluent:version`, if one of them has it, is its version."""
    known = stored.definition
    wanted, has = _version_in(definition), _version_in(known)
    if (wanted is None) != (has is None):
        if wanted is not None and wanted != stored.version:
            return False
        definition = replace(definition, metadata=without_version(definition.metadata))
        known = replace(known, metadata=without_version(known.metadata))
    return definition == known


def _version_in(definition: Definition) -> int | None:
    given = str((definition.metadata or {}).get("properties", {}).get(CONFLUENT_VERSION, ""))
    return int(given) if given.isascii() and given.isdigit() and len(given) < 10 else None


def find_completed(
    state: RegistryState, subject: str, prepared: Prepared, canonical: str, *, deleted: bool = False
) -> StoredSchema | None:
    """Return the version that holds a schema, as it is or as registering would complete it."""
    definition = replace(prepared.definition, schema=canonical)
    found = find(state, subject, definition, deleted=deleted)
    latest = state.latest(subject)
    if found is not None or latest is None:
        return found
    config = config_in_scope(state, subject)
    completed = _completed(definition, config, prepared.version, latest, None)
    return None if completed == definition else find(state, subject, completed, deleted=deleted)


def equivalent_candidates(
    state: RegistryState, subject: str, definition: Definition, *, deleted: bool = False
) -> list[StoredSchema]:
    """Return the versions that may hold an Avro schema, though their text is another; the newest first.

    These are versions with references, if the schema has none: it may have the types in its text. And
    versions that another registry wrote, which orders the keys in its own way. MAX_EQUIVALENT at most: each
    must be parsed.
    """
    if definition.schema_type != AVRO:
        return []
    found = []
    for each in reversed(state.versions(subject, deleted=deleted)):
        known = each.definition
        has_more = bool(known.references) and not definition.references
        is_foreign = (
            not known.schema.startswith(_PRINTED_BY_AVRO) and known.references == definition.references
        )
        if has_more or is_foreign:
            same_text = replace(known, schema=definition.schema, references=definition.references)
            if _is_same(definition, replace(each, definition=same_text)):
                found.append(each)
        if len(found) == MAX_EQUIVALENT:
            break
    return found


def find_unchanged(
    state: RegistryState, subject: str, request: RegisterRequest, prepared: Prepared, canonical: str
) -> StoredSchema | None:
    """Return the version that registering a schema again answers, in whatever mode the subject is."""
    if has_defaults(config_in_scope(state, subject)):
        return None
    definition = replace(prepared.definition, schema=canonical)
    if request.version == -1:
        latest = state.latest(subject)
        found = latest if latest is not None and _is_same(definition, latest) else None
    else:
        found = find(state, subject, definition)
    if found is None:
        return None
    if request.version in (0, -1):
        return found if request.id < 0 or request.id == found.id else None
    if request.id != found.id:
        return None
    if request.version == found.version:
        return found
    other = state.get(subject, request.version)
    return other if other is not None and (other.id, other.md5) == (found.id, found.md5) else None


def examine(state: RegistryState, prepared: Prepared, canonical: str, *, force: bool) -> Examined:
    """Return what is known of a schema, and which versions it must be compatible with."""
    subject = prepared.subject
    definition = replace(prepared.definition, schema=canonical)
    known_id = prepared.id
    by_hash = state.id_by_hash(context_of(subject), definition.md5)
    if by_hash is not None and known_id in (-1, by_hash):
        found = state.version_with_id(subject, by_hash)
        if prepared.version == 0 and found is not None and not found.deleted:
            return Examined(existing=found)
        known_id = by_hash
    undeleted = state.versions(subject)
    if prepared.version == 0:
        for each in reversed(undeleted):
            if known_id in (-1, each.id) and _is_same(definition, each):
                return Examined(existing=each)
    if prepared.is_import or force:
        return Examined(known_id=known_id)
    return replace(to_check(state, subject, definition, undeleted), known_id=known_id)


def to_check(
    state: RegistryState, subject: str, definition: Definition, schemas: list[StoredSchema]
) -> Examined:
    """Return which of some versions a schema must be compatible with, and how."""
    config = config_in_scope(state, subject)
    validates_fields = bool(config.get("validateFields"))
    reserved = _reserved(definition) if validates_fields else set()
    before = _reserved(schemas[-1].definition) if validates_fields and schemas else set()
    previous = in_group(config, definition, schemas)
    level = str(config.get("compatibilityLevel", "BACKWARD"))
    if level == "NONE":
        previous = []
    elif not level.endswith("TRANSITIVE"):
        previous = previous[-1:]
    return Examined(
        level=level,
        previous=tuple((each.version, source_of(state, subject, each.definition)) for each in previous),
        validates_fields=validates_fields,
        lenient=config.get("compatibilityPolicy") == LENIENT,
        reserved=tuple(sorted(reserved)),
        not_reserved=tuple(sorted(before - reserved)),
    )


def _reserved(definition: Definition) -> set[str]:
    """Return the names that the metadata of a schema reserves."""
    names = str((definition.metadata or {}).get("properties", {}).get(RESERVED, "")).split(",")
    return {name.strip() for name in names if name.strip()}


def in_group(config: Json, definition: Definition, schemas: list[StoredSchema]) -> list[StoredSchema]:
    """Return those schemas that one is compared with: all, or those of its compatibility group."""
    group = config.get("compatibilityGroup")
    if group is None:
        return schemas
    mine = (definition.metadata or {}).get("properties", {}).get(group)
    return [
        each for each in schemas if (each.definition.metadata or {}).get("properties", {}).get(group) == mine
    ]


def decide(state: RegistryState, prepared: Prepared, canonical: str, examined: Examined) -> Decision:
    """Return the records of a new version; answers the version."""
    if examined.existing is not None:
        return Decision(examined.existing)
    subject = prepared.subject
    context = context_of(subject)
    definition = replace(prepared.definition, schema=canonical)
    version = prepared.version if prepared.version > 0 else _next(state, subject)
    if version != _next(state, subject) and not prepared.is_import:
        raise errors.invalid_schema("Version is not one more than previous version")
    schema_id = examined.known_id
    if schema_id >= 0:
        _check_id(state, context, schema_id, definition)
    else:
        schema_id = state.max_ids.get(context, 0) + 1
    schema = StoredSchema(subject, version, schema_id, definition.md5, definition)
    records: list[RegistryRecord] = []
    if context != DEFAULT_CONTEXT and context not in state.contexts:
        records.append(context_record(context))
    stale = [
        each
        for each in state.versions(subject, deleted=True)
        if each.deleted
        and each.id == schema_id
        and each.version < version
        and not state.referrers(subject, each.version, deleted=True)
    ]
    if stale:
        records += [each for each in hard_delete(state, stale) if each.value is None]
    return Decision(schema, [*records, schema_record(schema)])


def _check_id(state: RegistryState, context: str, schema_id: int, definition: Definition) -> None:
    """Refuse to give an id a second meaning."""
    uses = state.uses_of(context, schema_id, deleted=True)
    if uses and uses[0].definition != definition:
        prefix = "" if context == DEFAULT_CONTEXT else f":{context}:"
        raise errors.not_permitted(
            f"Overwrite new schema with id {schema_id} in context {prefix} is not permitted."
        )
