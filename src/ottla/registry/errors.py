"""What the registry refuses, with Confluent's codes and words.

The code's first three digits are the HTTP status. Clients compare codes, people read messages, and tests of
other products compare both: they are Confluent's to the letter.
"""

from __future__ import annotations

from ottla.http.errors import HttpError

LEVEL_NAMES = "none, backward, forward, full, backward_transitive, forward_transitive, and full_transitive"

TIMED_OUT = 50002


class RegistryError(HttpError):
    """An answer that is an error: a code of Confluent's and its message."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(code // 100 if code > 999 else code, code, message)


def subject_not_found(subject: str | None) -> RegistryError:
    """Return the error for a subject without versions."""
    return RegistryError(40401, f"Subject '{'null' if subject is None else subject}' not found.")


def version_not_found(version: int) -> RegistryError:
    """Return the error for a version that the subject does not have."""
    return RegistryError(40402, f"Version {version} not found.")


def schema_not_found(wanted: int | str | None = None) -> RegistryError:
    """Return the error for a schema, an id or a GUID that is not there."""
    return RegistryError(40403, "Schema not found" if wanted is None else f"Schema {wanted} not found")


def subject_soft_deleted(subject: str) -> RegistryError:
    """Return the error for a second soft delete of a subject."""
    return RegistryError(
        40404, f"Subject '{subject}' was soft deleted.Set permanent=true to delete permanently"
    )


def subject_not_soft_deleted(subject: str) -> RegistryError:
    """Return the error for a permanent delete that comes first."""
    return RegistryError(40405, f"Subject '{subject}' was not deleted first before being permanently deleted")


def version_soft_deleted(subject: str, version: int) -> RegistryError:
    """Return the error for a second soft delete of a version."""
    return RegistryError(
        40406,
        f"Subject '{subject}' Version {version} was soft deleted.Set permanent=true to delete permanently",
    )


def version_not_soft_deleted(subject: str, version: int) -> RegistryError:
    """Return the error for a permanent delete of a version that comes first."""
    return RegistryError(
        40407,
        f"Subject '{subject}' Version {version} was not deleted first before being permanently deleted",
    )


def no_subject_config(subject: str) -> RegistryError:
    """Return the error for a subject without a config of its own."""
    return RegistryError(40408, f"Subject '{subject}' does not have subject-level compatibility configured")


def no_subject_mode(subject: str | None) -> RegistryError:
    """Return the error for a subject without a mode of its own."""
    return RegistryError(40409, f"Subject '{subject}' does not have subject-level mode configured")


def incompatible(subject: str, messages: list[str]) -> RegistryError:
    """Return the error for a schema that cannot follow an earlier one."""
    return RegistryError(
        40901,
        f'Schema being registered is incompatible with an earlier schema for subject "{subject}", '
        f"details: [{', '.join(messages)}]",
    )


def association_exists(subject: str) -> RegistryError:
    """Return the error for a subject that belongs to a topic already."""
    return RegistryError(40904, f"An association already exists for subject '{subject}'")


def no_active_version(subject: str) -> RegistryError:
    """Return the error for a topic whose subject has no version, or would have none."""
    return RegistryError(40907, f"No active (non-deleted) version exists for subject '{subject}'")


def invalid_schema(message: str) -> RegistryError:
    """Return the error for a text that is no schema."""
    return RegistryError(42201, message)


def invalid_version(version: str) -> RegistryError:
    """Return the error for a version that is neither a positive number nor `latest`."""
    return RegistryError(
        42202,
        f"The specified version '{version}' is not a valid version id. "
        'Allowed values are between [1, 2^31-1] and the string "latest"',
    )


def invalid_level() -> RegistryError:
    """Return the error for an unknown compatibility level."""
    return RegistryError(42203, f"Invalid compatibility level. Valid values are {LEVEL_NAMES}")


def invalid_mode(
    message: str = "Invalid mode. Valid values are READWRITE, READONLY, IMPORT and FORWARD.",
) -> RegistryError:
    """Return the error for an unknown mode."""
    return RegistryError(42204, message)


def not_permitted(message: str) -> RegistryError:
    """Return the error for what the mode does not allow."""
    return RegistryError(42205, message)


def reference_exists(subject: str, version: int) -> RegistryError:
    """Return the error for the deletion of a schema that others refer to."""
    key = f"{{magic=1,keytype=SCHEMA,subject={subject},version={version}}}"
    return RegistryError(42206, f"One or more references exist to the schema {key}.")


def invalid_subject(subject: str) -> RegistryError:
    """Return the error for a subject name that is not allowed."""
    return RegistryError(42208, f"The specified subject '{subject}' is not a valid.")


def schema_too_large() -> RegistryError:
    """Return the error for a schema that does not fit into a record."""
    return RegistryError(42209, "Register operation failed because schema is too large")


def invalid_rule_set(message: str) -> RegistryError:
    """Return the error for rules that cannot be kept."""
    return RegistryError(42210, message)


def context_not_empty(context: str) -> RegistryError:
    """Return the error for the deletion of a context that has subjects."""
    return RegistryError(42211, f"The specified context '{context}' is not empty.")


def timed_out(message: str) -> RegistryError:
    """Return the error for what was not done in time; whether it is done later is not known."""
    return RegistryError(TIMED_OUT, message)


def forwarding_failed(message: str) -> RegistryError:
    """Return the error for a request that the elected process could not be given."""
    return RegistryError(50003, message)


def no_leader() -> RegistryError:
    """Return the error for a write while no process is elected."""
    return RegistryError(50004, "Leader not known.")
