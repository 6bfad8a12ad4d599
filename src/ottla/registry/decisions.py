"""Decides requests: from a state and a request to the records to append and the response. Pure.

Nothing here changes the state: a decision takes effect when its records are in the log, and are replayed. A
decision is valid for the state that it was made from, and the writer appends its records only if no other
process has written since (store.py). registration.py decides about new schemas.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from ottla.registry import errors
from ottla.registry.entities import Json, StoredSchema
from ottla.registry.records import (
    RegistryRecord,
    clear_subject_record,
    config_record,
    context_record,
    delete_subject_record,
    max_id_record,
    mode_record,
    schema_record,
    tombstone,
)
from ottla.registry.scopes import READ_ONLY, mode_in_scope, own_config, own_mode
from ottla.registry.state import RegistryState
from ottla.registry.subjects import context_of, parse_subject

MODES = ("READWRITE", "READONLY", "READONLY_OVERRIDE", "IMPORT", "FORWARD")


@dataclass(frozen=True, slots=True)
class Decision:
    """What to write, in one batch, and what to answer when it is written. Without records: what is so."""

    answer: Any
    records: list[RegistryRecord] = field(default_factory=list)


def check_writable(state: RegistryState, subject: str | None) -> None:
    """Refuse to change what is read-only."""
    if mode_in_scope(state, subject) in READ_ONLY:
        context = "" if subject is None else parse_subject(subject).prefix
        name = "null" if subject is None else subject
        raise errors.not_permitted(f"Subject {name} in context {context} is in read-only mode")


def hard_delete(state: RegistryState, schemas: list[StoredSchema]) -> list[RegistryRecord]:
    """Return what deletes versions for good, highest first, and remembers the largest ids among them."""
    records = [tombstone(each.subject, each.version) for each in reversed(schemas)]
    contexts = dict.fromkeys(
        context_of(each.subject) for each in schemas if each.id == state.max_ids.get(context_of(each.subject))
    )
    return records + [max_id_record(context, state.max_ids[context]) for context in contexts]


def _forget_settings(state: RegistryState, subject: str) -> list[RegistryRecord]:
    records = []
    if subject in state.modes:
        records.append(mode_record(subject, None))
    if subject in state.configs:
        records.append(config_record(subject, None))
    return records


def delete_version(state: RegistryState, subject: str, version: int, *, permanent: bool) -> Decision:
    """Delete one version (-1: the latest), softly or for good."""
    schema = state.get(subject, version, deleted=True)
    if schema is None:
        if not state.has_subjects(subject, deleted=True):
            raise errors.subject_not_found(subject)
        raise errors.version_not_found(version)
    if schema.deleted and not permanent:
        raise errors.version_soft_deleted(subject, schema.version)
    check_writable(state, subject)
    if not permanent and state.is_associated(subject) and len(state.versions(subject)) == 1:
        raise errors.no_active_version(subject)
    if state.referrers(subject, schema.version, deleted=permanent):
        raise errors.reference_exists(subject, schema.version)
    if not permanent:
        return Decision(schema.version, [schema_record(schema.soft_deleted())])
    if not schema.deleted:
        raise errors.version_not_soft_deleted(subject, schema.version)
    records = hard_delete(state, [schema])
    if len(state.subjects[subject]) == 1:
        records += _forget_settings(state, subject)
    return Decision(schema.version, records)


def delete_subject(
    state: RegistryState, subject: str, *, permanent: bool, with_topic: bool = False
) -> Decision:
    """Delete all versions of a subject, softly or for good; answers which.

    A subject that a topic uses is deleted only together with the topic.
    """
    if not state.has_subjects(subject, deleted=True):
        raise errors.subject_not_found(subject)
    if not permanent and not state.has_subjects(subject):
        raise errors.subject_soft_deleted(subject)
    check_writable(state, subject)
    if state.is_associated(subject) and not with_topic:
        raise errors.association_exists(subject)
    schemas = state.versions(subject, deleted=permanent)
    for each in schemas:
        others = {
            use.subject
            for referrer in state.referrers(subject, each.version, deleted=permanent)
            for use in state.uses_of(*referrer, deleted=permanent)
        }
        if others - {subject}:
            raise errors.reference_exists(subject, each.version)
        if permanent and not each.deleted:
            raise errors.subject_not_soft_deleted(subject)
    versions = [each.version for each in schemas]
    if not permanent:
        return Decision(versions, [delete_subject_record(subject, max(versions, default=0))])
    return Decision(versions, hard_delete(state, schemas) + _forget_settings(state, subject))


def update_config(state: RegistryState, subject: str | None, changes: Json) -> Decision:
    """Set the fields of a config that `changes` has; None unsets one. Answers the config."""
    check_writable(state, subject)
    config = {**state.configs.get(subject, {}), **changes}
    config = {name: value for name, value in config.items() if value is not None}
    return Decision(config, [config_record(subject, config)])


def delete_config(state: RegistryState, subject: str | None) -> Decision:
    """Go back to the config of the context, or of all; answers what it was."""
    config = own_config(state, subject)
    if config is None:
        raise errors.subject_not_found(subject)
    check_writable(state, subject)
    return Decision(config, [config_record(subject, None)] if subject in state.configs else [])


def set_mode(state: RegistryState, subject: str | None, mode: str | None, *, force: bool) -> Decision:
    """Set a mode, or unset it; without `force`, only what has no schemas may be imported into."""
    records: list[RegistryRecord] = []
    if mode == "IMPORT" and mode_in_scope(state, subject) != "IMPORT" and not force:
        if state.has_subjects(subject):
            raise errors.not_permitted("Cannot import since found existing subjects")
        gone: list[StoredSchema] = []
        for name in state.covered_subjects(subject, deleted=True):
            for each in state.versions(name, deleted=True):
                if state.referrers(name, each.version, deleted=True):
                    raise errors.reference_exists(name, each.version)
                gone.append(each)
        records = [*hard_delete(state, gone), clear_subject_record(subject)]
    return Decision({"mode": mode}, [*records, mode_record(subject, mode)])


def delete_mode(state: RegistryState, subject: str | None, *, recursive: bool) -> Decision:
    """Go back to the mode of the context, or of all; with `recursive`, for all subjects of a context."""
    mode = own_mode(state, subject)
    if mode is None and not recursive:
        raise errors.subject_not_found(subject)
    records = [mode_record(subject, None)] if subject in state.modes else []
    if recursive and (subject is None or parse_subject(subject).is_context):
        context = parse_subject(subject or "").context
        records += [
            mode_record(each, None)
            for each in sorted(name for name in state.modes if name is not None)
            if each != subject and context_of(each) == context
        ]
    return Decision({} if mode is None else {"mode": mode}, records)


def delete_context(state: RegistryState, subject: str) -> Decision:
    """Forget a context that has no subjects."""
    if state.has_subjects(subject, deleted=True):
        raise errors.context_not_empty(subject)
    context = parse_subject(subject).context
    known = context in state.contexts
    return Decision(None, [context_record(context, exists=False)] if known else [])
