"""Which subjects the keys and values of a topic belong to: what is decided about that. Pure.

A WEAK association names a subject that others may use as well. A STRONG one is the topic's own: its subject
is `:.NAMESPACE:NAME-TYPE`, no other topic has it, it is frozen, and a delete with `cascadeLifecycle` deletes
the subject too. All associations of a topic have the same lifecycle.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ottla.registry import errors
from ottla.registry.decisions import Decision, check_writable, delete_subject
from ottla.registry.entities import Json
from ottla.registry.errors import RegistryError
from ottla.registry.records import Resource, association_record
from ottla.registry.registration import RegisterRequest
from ottla.registry.scopes import mode_in_scope, resolve_alias
from ottla.registry.state import RegistryState
from ottla.registry.subjects import in_context

WEAK, STRONG = "WEAK", "STRONG"
KEY, VALUE = "key", "value"
TOPIC = "topic"


def invalid(name: str, detail: str) -> RegistryError:
    """Return the error for a property that is not allowed."""
    return RegistryError(
        42212, f"The association specified an invalid value for property: '{name}', detail: {detail}"
    )


@dataclass(frozen=True, slots=True)
class AssociationRequest:
    """One association that a request asks for."""

    association_type: str
    subject: str | None = None
    lifecycle: str | None = None
    frozen: bool | None = None
    schema: RegisterRequest | None = None
    normalize: bool = False
    has_schema: bool = False
    """Whether the subject has the schema already: the request is repeated."""


@dataclass(frozen=True, slots=True)
class Target:
    """The topic that a request is about."""

    name: str
    namespace: str
    id: str
    """Empty in a dry run before the topic is created."""
    type: str = TOPIC

    def resource(self, association_type: str) -> Resource:
        """Return its key or value."""
        return Resource(self.name, self.namespace, self.type, association_type)

    def own_subject(self, association_type: str) -> str:
        """Return the subject that belongs to it alone."""
        return f":.{self.namespace}:{self.name}-{association_type}"


def find(
    state: RegistryState,
    *,
    subject: str | None = None,
    name: str | None = None,
    namespace: str | None = None,
    resource_id: str | None = None,
    resource_type: str | None = None,
    types: Sequence[str] = (),
    lifecycle: str | None = None,
) -> Iterator[Json]:
    """Return the associations that have all of what is given, sorted."""
    for (resource, its_subject), value in sorted(state.associations.items(), key=lambda pair: pair[0]):
        if (
            subject in (None, its_subject)
            and name in (None, resource.name)
            and namespace in (None, "-", resource.namespace)
            and resource_id in (None, value.get("resourceId"))
            and resource_type in (None, resource.type)
            and (not types or resource.association_type in types)
            and lifecycle in (None, value.get("lifecycle"))
        ):
            yield value


def subject_of(state: RegistryState, target: Target, wanted: AssociationRequest) -> str:
    """Return the subject that is meant: that which is named, that which is there, or the topic's own."""
    if wanted.subject is not None:
        return resolve_alias(state, wanted.subject)
    old = _existing(state, target, wanted)
    return str(old["subject"]) if old else target.own_subject(wanted.association_type)


def complete(
    state: RegistryState, target: Target, wanted: AssociationRequest, *, is_create: bool
) -> AssociationRequest:
    """Return what is wanted with all defaults, checked."""
    old = _existing(state, target, wanted)
    lifecycle = wanted.lifecycle or (old["lifecycle"] if old else STRONG if wanted.schema else WEAK)
    own = target.own_subject(wanted.association_type)
    if old is None and wanted.subject is None and lifecycle == WEAK:
        raise invalid("subject", "must be provided for WEAK associations")
    subject = subject_of(state, target, wanted)
    check_writable(state, subject)
    frozen = wanted.frozen if wanted.frozen is not None else lifecycle == STRONG
    if lifecycle == WEAK and wanted.schema is not None:
        raise invalid("lifecycle", "cannot be WEAK when schema is provided")
    if lifecycle == WEAK and subject == own:
        raise invalid("subject", f"WEAK associations cannot use subject '{own}'")
    if frozen != (lifecycle == STRONG):
        raise invalid(
            "frozen", f"association with lifecycle of {lifecycle} cannot be frozen={str(frozen).lower()}"
        )
    if frozen and subject != own:
        raise invalid("subject", f"frozen associations must use subject '{own}'")
    full = replace(wanted, subject=subject, lifecycle=lifecycle, frozen=frozen)
    if old is None:
        _check_new(state, full, is_create=is_create)
    else:
        _check_change(old, full, target, is_create=is_create)
    if full.schema is not None and mode_in_scope(state, subject) == "IMPORT":
        raise invalid("schema", f"cannot be provided while subject '{subject}' is in IMPORT mode")
    return full


def _check_new(state: RegistryState, wanted: AssociationRequest, *, is_create: bool) -> None:
    assert wanted.subject is not None
    if wanted.lifecycle != STRONG or mode_in_scope(state, wanted.subject) == "IMPORT":
        return
    if not is_create:
        raise invalid(
            "lifecycle",
            "cannot be STRONG when creating an association; "
            "STRONG associations must be created with the topic",
        )
    if wanted.schema is None:
        raise invalid("schema", "schema must be provided when creating a frozen association")
    latest = state.latest(wanted.subject)
    if latest is not None and (latest.version != 1 or not wanted.has_schema):
        raise invalid(
            "frozen", "cannot create a frozen association when schemas already exist in the subject"
        )


def _check_change(old: Json, wanted: AssociationRequest, target: Target, *, is_create: bool) -> None:
    is_same = old["subject"] == wanted.subject and old["lifecycle"] == wanted.lifecycle
    if is_same and not (is_create and wanted.schema is not None and not wanted.has_schema):
        return
    if is_create:
        raise RegistryError(
            40903,
            f"An association of type '{wanted.association_type}' already exists for resource '{target.name}'",
        )
    if old["subject"] != wanted.subject:
        raise invalid(
            "subject",
            f"subject of association cannot be changed from '{old['subject']}' to '{wanted.subject}'",
        )
    if old.get("frozen"):
        raise RegistryError(
            40908,
            f"The association of type  '{wanted.association_type}' is frozen for subject '{wanted.subject}'",
        )


def check_subjects(state: RegistryState, target: Target, wanted: Sequence[AssociationRequest]) -> None:
    """Refuse associations that do not go together with those of other topics, or with each other."""
    lifecycles = {each["associationType"]: each["lifecycle"] for each in of_target(state, target)} | {
        each.association_type: each.lifecycle for each in wanted
    }
    if len(set(lifecycles.values())) > 1:
        said = ", ".join(f"{name}={value}" for name, value in lifecycles.items())
        raise invalid(
            "lifecycle", f"all associations for a resource must have the same lifecycle, but got {said}"
        )
    for each in wanted:
        assert each.subject is not None
        if each.schema is None and not state.has_subjects(each.subject):
            raise errors.no_active_version(each.subject)
        others = [
            other
            for other in find(state, subject=each.subject)
            if not (_is_of(other, target) and other["associationType"] == each.association_type)
        ]
        if others and each.lifecycle == STRONG:
            raise errors.association_exists(each.subject)
        if each.lifecycle == STRONG and _is_referenced(state, each.subject, wanted):
            raise RegistryError(42206, f"One or more references exist to the schema {each.subject}.")
        if any(other["lifecycle"] == STRONG for other in others):
            raise RegistryError(40905, f"A strong association already exists for subject '{each.subject}'")


def associate(
    state: RegistryState,
    target: Target,
    wanted: Sequence[AssociationRequest],
    guids: Sequence[str],
    now_ms: int,
    *,
    is_create: bool,
) -> Decision:
    """Associate subjects with a topic, after `complete`; their schemas are registered already."""
    wanted = [replace(each, schema=None) for each in wanted]
    check_subjects(state, target, wanted)
    records = []
    for each, guid in zip(wanted, guids, strict=True):
        old = _existing(state, target, each)
        assert each.subject is not None
        if old is not None:
            _check_change(old, each, target, is_create=is_create)
            if old["lifecycle"] == each.lifecycle:
                continue
        value: dict[str, Any] = {
            "guid": old["guid"] if old else guid,
            "resourceId": target.id,
            "lifecycle": each.lifecycle,
            "frozen": bool(each.frozen),
            "createTs": old.get("createTs", now_ms) if old else now_ms,
        }
        records.append(association_record(target.resource(each.association_type), each.subject, value))
    return Decision(wanted, records)


def of_target(state: RegistryState, target: Target) -> list[Json]:
    """Return the associations of a topic; without an id, of the last one with its name."""
    if target.id:
        return list(find(state, resource_id=target.id, resource_type=target.type))
    named = list(find(state, name=target.name, namespace=target.namespace, resource_type=target.type))
    last = max(named, key=lambda each: (each.get("updateTs", -1), each["resourceId"]), default=None)
    return [each for each in named if last is not None and each["resourceId"] == last["resourceId"]]


def _is_of(association: Json, target: Target) -> bool:
    if target.id:
        return bool(association["resourceId"] == target.id)
    return (association["resourceName"], association["resourceNamespace"]) == (target.name, target.namespace)


def _is_referenced(state: RegistryState, subject: str, wanted: Sequence[AssociationRequest]) -> bool:
    """Return whether a schema refers to a subject: one that is there, or one of the same request."""
    versions = state.subjects.get(subject, ())
    return any(state.referrers(subject, version, deleted=True) for version in versions) or any(
        in_context(each.subject or "", reference.subject) == subject
        for each in wanted
        if each.schema is not None
        for reference in each.schema.references
    )


def _existing(state: RegistryState, target: Target, wanted: AssociationRequest) -> Json | None:
    found = of_target(state, target)
    return next((each for each in found if each["associationType"] == wanted.association_type), None)


def disassociate(
    state: RegistryState,
    resource_id: str,
    resource_type: str | None,
    types: Sequence[str],
    *,
    cascade: bool,
    must_exist: bool = True,
) -> Decision:
    """Remove associations of a topic; with `cascade`, the subjects that belong to it alone as well."""
    found = list(find(state, resource_id=resource_id, resource_type=resource_type, types=types))
    if not found and must_exist:
        raise RegistryError(40410, f"Association for '{resource_id}' not found.")
    records, subjects = [], []
    for each in found:
        check_writable(state, each["subject"])
        if each.get("frozen") and not cascade:
            raise RegistryError(
                40908,
                f"The association of type  '{each['associationType']}' is frozen for subject "
                f"'{each['subject']}'",
            )
        resource = Resource(
            each["resourceName"], each["resourceNamespace"], each["resourceType"], each["associationType"]
        )
        records.append(association_record(resource, each["subject"], None))
        is_owned = each["lifecycle"] == STRONG and mode_in_scope(state, each["subject"]) != "IMPORT"
        if cascade and is_owned and state.has_subjects(each["subject"]):
            records += delete_subject(state, each["subject"], permanent=False, with_topic=True).records
            subjects.append(each["subject"])
    return Decision(subjects, records)
