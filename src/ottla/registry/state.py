"""The registry's state: what the records of `_schemas` add up to.

`replay` changes it, one record after the other, and never decides; decisions.py decides and never changes it.
No IO, no clock: two processes that have read the same records have the same state, and it equals the replay
of what compaction has left of them. `position` is the offset behind the last record: what a writer decides
from.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator

from ottla.registry.entities import Json, StoredSchema
from ottla.registry.records import Key, KeyType, RegistryRecord, Resource, UnreadableRecord, read_schema
from ottla.registry.subjects import DEFAULT_CONTEXT, context_of, covers, in_context

log = logging.getLogger(__name__)

Versions = dict[int, StoredSchema]


class RegistryState:
    """Subjects with their versions, ids, configs, modes and contexts."""

    def __init__(self) -> None:
        self.position = 0
        self.subjects: dict[str, Versions] = {}
        """By name, soft deleted versions too; the versions of each in ascending order."""
        self.configs: dict[str | None, Json] = {}
        self.modes: dict[str | None, str] = {}
        self.contexts: dict[str, None] = {}
        """All but the default one."""
        self.max_ids: dict[str, int] = {}
        """The largest id ever given out, by context."""
        self.associations: dict[tuple[Resource, str], Json] = {}
        """By resource and subject; each with the time of its last change as `updateTs`."""
        self._ids: dict[str, dict[int, dict[str, int]]] = {}
        """Where each id is used: by context and id, the version by subject."""
        self._hashes: dict[str, dict[bytes, int]] = {}
        """The id of each schema, by context and hash."""
        self._referrers: dict[tuple[str, int], set[tuple[str, int]]] = {}
        """Which schemas refer to a version: context and id of each."""

    # Replay

    def replay(self, record: RegistryRecord | None, offset: int, timestamp: int = -1) -> None:
        """Take one record of the log over; one that makes no sense is skipped, as others skip it."""
        if record is not None:
            try:
                self._replay(record, timestamp)
            except UnreadableRecord as error:
                log.warning("record %d of the topic is skipped: %s", offset, error)
        self.position = offset + 1

    def _replay(self, record: RegistryRecord, timestamp: int) -> None:
        key, value = record.key, record.value
        match key.type:
            case KeyType.SCHEMA:
                if value is None:
                    self._remove(key.subject or "", key.version)
                else:
                    self._put(read_schema(key, value, timestamp))
            case KeyType.CONFIG:
                self._replay_config(key, value)
            case KeyType.MODE:
                if value is None:
                    self.modes.pop(key.subject, None)
                elif isinstance(value.get("mode"), str):
                    self.modes[key.subject] = value["mode"]
            case KeyType.DELETE_SUBJECT if value is not None:
                self._soft_delete(key.subject or "", int(value.get("version", 0)))
            case KeyType.CLEAR_SUBJECT if value is not None:
                self._clear(key.subject)
            case KeyType.CONTEXT if key.context is not None:
                if value is None:
                    self.contexts.pop(key.context, None)
                else:
                    self.contexts[key.context] = None
            case KeyType.ASSOC if key.resource is not None:
                if value is None:
                    self.associations.pop((key.resource, key.subject or ""), None)
                else:
                    self.associations[key.resource, key.subject or ""] = {**value, "updateTs": timestamp}
            case KeyType.NOOP if key.context is not None and value is not None:
                self._saw_id(key.context, int(value.get("maxId", 0)))
            case _:
                pass

    def _replay_config(self, key: Key, value: Json | None) -> None:
        if value is None:
            self.configs.pop(key.subject, None)
        else:
            self.configs[key.subject] = {
                name: each for name, each in value.items() if name != "subject" and each is not None
            }

    def _put(self, schema: StoredSchema) -> None:
        versions = self.subjects.setdefault(schema.subject, {})
        old = versions.get(schema.version)
        if old is not None:
            self._forget(old)
        last = next(reversed(versions), 0)
        versions[schema.version] = schema
        if old is None and schema.version < last:
            self.subjects[schema.subject] = dict(sorted(versions.items()))
        context = context_of(schema.subject)
        self._saw_id(context, schema.id)
        self._ids.setdefault(context, {}).setdefault(schema.id, {})[schema.subject] = schema.version
        self._hashes.setdefault(context, {})[schema.md5] = schema.id
        for each in schema.definition.references:
            named = (in_context(schema.subject, each.subject), each.version)
            self._referrers.setdefault(named, set()).add((context, schema.id))

    def _remove(self, subject: str, version: int) -> None:
        versions = self.subjects.get(subject, {})
        schema = versions.pop(version, None)
        if schema is None:
            return
        if not versions:
            del self.subjects[subject]
        self._forget(schema)

    def _forget(self, schema: StoredSchema) -> None:
        """Take a version out of the indexes; the hash stays known while the id is used elsewhere."""
        context = context_of(schema.subject)
        uses = self._ids.get(context, {}).get(schema.id, {})
        if uses.get(schema.subject) == schema.version:
            others = [
                each.version
                for each in self.subjects.get(schema.subject, {}).values()
                if each.id == schema.id and each.version != schema.version
            ]
            if others:
                uses[schema.subject] = max(others)
            else:
                del uses[schema.subject]
        if uses:
            return
        self._ids.get(context, {}).pop(schema.id, None)
        hashes = self._hashes.get(context, {})
        if hashes.get(schema.md5) == schema.id:
            del hashes[schema.md5]
        for each in schema.definition.references:
            named = (in_context(schema.subject, each.subject), each.version)
            referrers = self._referrers.get(named)
            if referrers is not None:
                referrers.discard((context, schema.id))
                if not referrers:
                    del self._referrers[named]

    def _soft_delete(self, subject: str, up_to: int) -> None:
        versions = self.subjects.get(subject, {})
        for version, schema in versions.items():
            if version <= up_to and not schema.deleted:
                versions[version] = schema.soft_deleted()

    def _clear(self, subject: str | None) -> None:
        gone = [
            (name, version)
            for name, versions in self.subjects.items()
            if covers(subject, name)
            for version, schema in versions.items()
            if schema.deleted
        ]
        for name, version in gone:
            self._remove(name, version)

    def _saw_id(self, context: str, schema_id: int) -> None:
        if schema_id > self.max_ids.get(context, 0):
            self.max_ids[context] = schema_id

    # Look-ups

    def versions(self, subject: str, *, deleted: bool = False) -> list[StoredSchema]:
        """Return the versions of a subject in ascending order; with `deleted`, soft deleted ones too."""
        return [each for each in self.subjects.get(subject, {}).values() if deleted or not each.deleted]

    def latest(self, subject: str) -> StoredSchema | None:
        """Return the last version that is not deleted."""
        for schema in reversed(self.subjects.get(subject, {}).values()):
            if not schema.deleted:
                return schema
        return None

    def get(self, subject: str, version: int, *, deleted: bool = False) -> StoredSchema | None:
        """Return one version (-1: the latest), unless it is deleted."""
        if version == -1:
            return self.latest(subject)
        schema = self.subjects.get(subject, {}).get(version)
        return schema if schema is not None and (deleted or not schema.deleted) else None

    def has_subjects(self, subject: str | None, *, deleted: bool = False) -> bool:
        """Return whether the subject, or any in its context, has versions."""
        if subject is not None and subject in self.subjects:
            return bool(self.versions(subject, deleted=deleted))
        return any(self.covered_subjects(subject, deleted=deleted))

    def covered_subjects(self, subject: str | None, *, deleted: bool = False) -> Iterator[str]:
        """Return the subjects that a subject, a context or None (all) stands for."""
        for name, versions in self.subjects.items():
            if covers(subject, name) and (deleted or any(not each.deleted for each in versions.values())):
                yield name

    def by_id(self, schema_id: int, subject: str | None = None) -> StoredSchema | None:
        """Return the schema with an id, in the context of a subject, or under exactly that subject."""
        context = DEFAULT_CONTEXT if subject is None else context_of(subject)
        uses = self._ids.get(context, {}).get(schema_id)
        if not uses:
            return None
        if subject and not subject.endswith(":"):
            version = uses.get(subject)
            return None if version is None else self.subjects[subject][version]
        if len(uses) == 1:
            ((name, version),) = uses.items()
            return self.subjects[name][version]
        schemas = (self.subjects[name][version] for name, version in uses.items())
        return min(schemas, key=lambda each: (each.deleted, each.subject))

    def by_id_anywhere(self, schema_id: int, subject: str | None) -> StoredSchema | None:
        """Return the schema with an id; an unqualified subject is also looked for in the other contexts."""
        found = self.by_id(schema_id, subject)
        if found is not None or not subject or subject.startswith(":"):
            return found
        for context in self.contexts:
            found = self.by_id(schema_id, f":{context}:{subject}")
            if found is not None:
                return found
        return self.by_id(schema_id)

    def uses_of(self, context: str, schema_id: int, *, deleted: bool = False) -> list[StoredSchema]:
        """Return where an id is used, sorted by subject."""
        uses = self._ids.get(context, {}).get(schema_id, {})
        found = (self.subjects[subject][version] for subject, version in sorted(uses.items()))
        return [each for each in found if deleted or not each.deleted]

    def id_by_hash(self, context: str, md5: bytes) -> int | None:
        """Return the id of a schema in a context."""
        found = self._hashes.get(context, {}).get(md5)
        return found if found is not None and self._ids.get(context, {}).get(found) else None

    def version_with_id(self, subject: str, schema_id: int) -> StoredSchema | None:
        """Return the version of a subject that has an id."""
        version = self._ids.get(context_of(subject), {}).get(schema_id, {}).get(subject)
        return None if version is None else self.subjects[subject][version]

    def all_contexts(self) -> list[str]:
        """Return the names of all contexts, the default one first."""
        return [DEFAULT_CONTEXT, *sorted(self.contexts)]

    def ids_by_guid(self, md5: bytes) -> list[tuple[str, int]]:
        """Return (context, id) of a schema, sorted."""
        found = ((context, self.id_by_hash(context, md5)) for context in self.all_contexts())
        return sorted((context, each) for context, each in found if each is not None)

    def is_associated(self, subject: str, lifecycle: str | None = None) -> bool:
        """Return whether a topic uses a subject; with `lifecycle`, in this way."""
        return any(
            named == subject and lifecycle in (None, each.get("lifecycle"))
            for (_, named), each in self.associations.items()
        )

    def referrers(self, subject: str, version: int, *, deleted: bool = False) -> list[tuple[str, int]]:
        """Return (context, id) of the schemas that refer to a version, sorted."""
        found = self._referrers.get((subject, version), set())
        return sorted(each for each in found if self.uses_of(*each, deleted=deleted))
