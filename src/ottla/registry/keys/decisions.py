"""What is decided about keys: records to write and an answer, from a state and a request. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from ottla.registry.entities import Json
from ottla.registry.errors import RegistryError
from ottla.registry.keys.records import Dek, DekId, Kek, KeyRecord
from ottla.registry.keys.state import KeyState


@dataclass(frozen=True, slots=True)
class KeyDecision:
    """What to write, in one batch, and what to answer when it is written."""

    answer: Any
    records: list[KeyRecord] = field(default_factory=list)


_KMS = ("aws", "azure", "gcp")


def not_found(name: str) -> RegistryError:
    """Return the error for a key that is not there."""
    return RegistryError(40470, f"Key '{name}' not found")


def not_soft_deleted(name: str) -> RegistryError:
    """Return the error for a permanent delete that comes first."""
    return RegistryError(40471, f"Key '{name}' was not deleted first before being permanently deleted")


def must_be_undeleted(name: str) -> RegistryError:
    """Return the error for a DEK of a deleted KEK."""
    return RegistryError(40472, f"Key '{name}' must be undeleted first")


def already_exists(name: str) -> RegistryError:
    """Return the error for a key that is there already, and is another."""
    return RegistryError(40971, f"Key '{name}' already exists; use a different value")


def invalid(name: str) -> RegistryError:
    """Return the error for a field that is missing, or not allowed."""
    return RegistryError(42271, f"Invalid or missing key info: {name}")


def referenced(name: str) -> RegistryError:
    """Return the error for the deletion of a KEK that has DEKs."""
    return RegistryError(42272, f"One or more references exist to the key {name}")


def no_kms(kms_type: str) -> RegistryError:
    """Return the error for a DEK that the registry would have to generate."""
    return RegistryError(
        50070, f"This registry has no access to {kms_type}: send the DEK as encryptedKeyMaterial"
    )


def _found(state: KeyState, name: str, *, deleted: bool = False) -> Kek:
    kek = state.kek(name, deleted=deleted)
    if kek is None:
        raise not_found(name)
    return kek


def create_kek(state: KeyState, kek: Kek) -> KeyDecision:
    """Create a KEK; an equal one that was deleted is restored."""
    kind = next((each for each in _KMS if kek.kms_type.lower().startswith(each)), None)
    kek = kek if kind is None else replace(kek, kms_type=f"{kind}-kms")
    old = state.keks.get(kek.name)
    if old is not None and (kek.deleted == old.deleted or not old.is_equivalent(kek)):
        raise already_exists(kek.name)
    return KeyDecision(kek.name, [KeyRecord(kek.name, kek)])


def update_kek(state: KeyState, name: str, changes: Json) -> KeyDecision:
    """Change the properties, the text or the sharing of a KEK."""
    kek = _found(state, name)
    changed = replace(
        kek,
        kms_props=(changes["kmsProps"] or {}) if "kmsProps" in changes else kek.kms_props,
        doc=changes.get("doc", kek.doc),
        shared=bool(changes.get("shared", kek.shared)),
    )
    return KeyDecision(name, [] if changed.is_equivalent(kek) else [KeyRecord(name, changed)])


def check_sharing(kek: Kek) -> None:
    """Refuse a KEK with which the registry cannot encrypt a DEK: always, since it has no access to a KMS."""
    raise no_kms(kek.kms_type) if kek.shared else invalid("shared")


def delete_kek(state: KeyState, name: str, *, permanent: bool) -> KeyDecision:
    """Delete a KEK without DEKs, softly or for good."""
    kek = _found(state, name, deleted=True)
    if state.deks_of(name, deleted=permanent):
        raise referenced(name)
    if permanent:
        if not kek.deleted:
            raise not_soft_deleted(name)
        return KeyDecision(None, [KeyRecord(name, None)])
    return KeyDecision(None, [] if kek.deleted else [KeyRecord(name, replace(kek, deleted=True))])


def undelete_kek(state: KeyState, name: str) -> KeyDecision:
    """Bring a deleted KEK back."""
    kek = _found(state, name, deleted=True)
    return KeyDecision(None, [KeyRecord(name, replace(kek, deleted=False))] if kek.deleted else [])


def create_dek(state: KeyState, dek: Dek, *, rewrap: bool) -> KeyDecision:
    """Create a DEK; with `rewrap`, encrypt one anew: the client has done it."""
    kek = _found(state, dek.id.kek_name)
    old = state.deks.get(dek.id)
    is_same = old is not None and old.encrypted_key_material == dek.encrypted_key_material
    if not rewrap and old is not None and (dek.deleted == old.deleted or not is_same):
        raise already_exists(dek.id.subject)
    if dek.encrypted_key_material is None:
        raise no_kms(kek.kms_type) if kek.shared else invalid("encryptedKeyMaterial")
    return KeyDecision(dek.id, [KeyRecord(dek.id, dek)])


def delete_deks(
    state: KeyState, kek_name: str, subject: str, algorithm: str, version: int | None, *, permanent: bool
) -> KeyDecision:
    """Delete one version of a subject's DEKs, or all, softly or for good."""
    deks = _wanted(state, kek_name, subject, algorithm, version)
    if permanent:
        if any(not each.deleted for each in deks):
            raise not_soft_deleted(subject)
        return KeyDecision(None, [KeyRecord(each.id, None) for each in deks])
    return KeyDecision(
        None, [KeyRecord(each.id, replace(each, deleted=True)) for each in deks if not each.deleted]
    )


def undelete_deks(
    state: KeyState, kek_name: str, subject: str, algorithm: str, version: int | None
) -> KeyDecision:
    """Bring deleted DEKs back; their KEK must be there."""
    if _found(state, kek_name, deleted=True).deleted:
        raise must_be_undeleted(kek_name)
    deks = _wanted(state, kek_name, subject, algorithm, version)
    return KeyDecision(
        None, [KeyRecord(each.id, replace(each, deleted=False)) for each in deks if each.deleted]
    )


def find_dek(
    state: KeyState, kek_name: str, subject: str, algorithm: str, version: int, *, deleted: bool
) -> Dek:
    """Return a DEK; -1 is its latest version."""
    _found(state, kek_name, deleted=deleted)
    if version == -1:
        found = state.deks_of(kek_name, subject, algorithm, deleted=deleted)
        if found:
            return found[-1]
    else:
        dek = state.deks.get(DekId(kek_name, subject, algorithm, version))
        if dek is not None and (deleted or not dek.deleted):
            return dek
    raise not_found(subject)


def _wanted(state: KeyState, kek_name: str, subject: str, algorithm: str, version: int | None) -> list[Dek]:
    _found(state, kek_name, deleted=True)
    deks = state.deks_of(kek_name, subject, algorithm, deleted=True)
    if version == -1:
        deks = deks[-1:]
    elif version is not None:
        deks = [each for each in deks if each.id.version == version]
    if not deks:
        raise not_found(subject)
    return deks
