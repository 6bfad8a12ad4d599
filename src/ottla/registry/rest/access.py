"""What a user needs for each path: an operation on `Subject:NAME`, or on the cluster.

The ACLs are the brokers' (http/broker_acls.py). Lists and look-ups by id show what the user may read; a
schema that is in several subjects may be read by users of any of them. A path that is not in the table is
refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from ottla.http.app import Request
from ottla.http.authentication import OPEN_PATHS
from ottla.http.security import Acls, operation_words
from ottla.registry.errors import RegistryError
from ottla.registry.formats import Reference
from ottla.registry.scopes import resolve_alias
from ottla.registry.state import RegistryState
from ottla.registry.subjects import in_context, normalize_subject
from ottla.security.acls import Operation

SUBJECT = "Subject:"

_ONE = "/subjects/{subject}"
_VERSION = f"{_ONE}/versions/{{version}}"
_CHECK = "/compatibility/subjects/{subject}/versions"
_DEK = "/dek-registry/v1/keks/{name}/deks/{subject}"
_DEK_VERSION = f"{_DEK}/versions/{{version}}"
_EXPORTER = "/exporters/{name}"
_O = Operation

ON_SUBJECT: dict[tuple[str, str], Operation] = {
    ("POST", _ONE): _O.READ,
    ("DELETE", _ONE): _O.DELETE,
    ("GET", f"{_ONE}/metadata"): _O.READ,
    ("GET", f"{_ONE}/versions"): _O.READ,
    ("POST", f"{_ONE}/versions"): _O.WRITE,
    ("GET", _VERSION): _O.READ,
    ("DELETE", _VERSION): _O.DELETE,
    ("GET", f"{_VERSION}/schema"): _O.READ,
    ("GET", f"{_VERSION}/referencedby"): _O.READ,
    ("POST", f"{_VERSION}/tags"): _O.WRITE,
    ("POST", _CHECK): _O.READ,
    ("POST", f"{_CHECK}/{{version}}"): _O.READ,
    ("GET", "/config/{subject}"): _O.DESCRIBE_CONFIGS,
    ("PUT", "/config/{subject}"): _O.ALTER_CONFIGS,
    ("DELETE", "/config/{subject}"): _O.ALTER_CONFIGS,
    ("GET", "/mode/{subject}"): _O.DESCRIBE_CONFIGS,
    ("PUT", "/mode/{subject}"): _O.ALTER_CONFIGS,
    ("DELETE", "/mode/{subject}"): _O.ALTER_CONFIGS,
    ("GET", "/associations/subjects/{subject}"): _O.READ,
    ("GET", _DEK): _O.READ,
    ("POST", _DEK): _O.WRITE,
    ("DELETE", _DEK): _O.DELETE,
    ("POST", f"{_DEK}/undelete"): _O.WRITE,
    ("GET", f"{_DEK}/versions"): _O.READ,
    ("GET", _DEK_VERSION): _O.READ,
    ("DELETE", _DEK_VERSION): _O.DELETE,
    ("POST", f"{_DEK_VERSION}/undelete"): _O.WRITE,
}
"""Operations on the subject that the path names."""

ON_CLUSTER: dict[tuple[str, str], Operation] = {
    ("GET", "/config"): _O.DESCRIBE_CONFIGS,
    ("PUT", "/config"): _O.ALTER_CONFIGS,
    ("DELETE", "/config"): _O.ALTER_CONFIGS,
    ("GET", "/mode"): _O.DESCRIBE_CONFIGS,
    ("PUT", "/mode"): _O.ALTER_CONFIGS,
    ("DELETE", "/mode"): _O.ALTER_CONFIGS,
    ("DELETE", "/contexts/{context}"): _O.ALTER_CONFIGS,
    ("GET", "/metrics"): _O.DESCRIBE,
    ("POST", "/associations"): _O.ALTER,
    ("POST", "/associations:batchMutate"): _O.ALTER,
    ("PUT", "/associations/resources/{resourceId}"): _O.ALTER,
    ("DELETE", "/associations/resources/{resourceId}"): _O.ALTER,
    ("GET", "/exporters"): _O.DESCRIBE,
    ("POST", "/exporters"): _O.ALTER,
    ("GET", _EXPORTER): _O.DESCRIBE,
    ("PUT", _EXPORTER): _O.ALTER,
    ("DELETE", _EXPORTER): _O.ALTER,
    ("GET", f"{_EXPORTER}/status"): _O.DESCRIBE,
    ("GET", f"{_EXPORTER}/config"): _O.DESCRIBE,
    ("PUT", f"{_EXPORTER}/config"): _O.ALTER,
    ("PUT", f"{_EXPORTER}/pause"): _O.ALTER,
    ("PUT", f"{_EXPORTER}/resume"): _O.ALTER,
    ("PUT", f"{_EXPORTER}/reset"): _O.ALTER,
    ("GET", "/dek-registry/v1/keks"): _O.DESCRIBE,
    ("POST", "/dek-registry/v1/keks"): _O.ALTER,
    ("GET", "/dek-registry/v1/keks/{name}"): _O.DESCRIBE,
    ("PUT", "/dek-registry/v1/keks/{name}"): _O.ALTER,
    ("DELETE", "/dek-registry/v1/keks/{name}"): _O.ALTER,
    ("POST", "/dek-registry/v1/keks/{name}/undelete"): _O.ALTER,
    ("POST", "/dek-registry/v1/keks/{name}/test"): _O.DESCRIBE,
    ("GET", "/dek-registry/v1/keks/{name}/deks"): _O.DESCRIBE,
    ("POST", "/dek-registry/v1/keks/{name}/deks"): _O.ALTER,
}
"""Operations on `kafka-cluster`."""

FILTERED = frozenset(
    {
        ("GET", "/subjects"),
        ("GET", "/schemas"),
        ("GET", "/schemas/ids/{id}"),
        ("GET", "/schemas/ids/{id}/schema"),
        ("GET", "/schemas/ids/{id}/subjects"),
        ("GET", "/schemas/ids/{id}/versions"),
        ("POST", "/schemas/ids/{id}/decode"),
        ("GET", "/schemas/guids/{guid}"),
        ("GET", "/schemas/guids/{guid}/ids"),
        ("POST", "/associations:batchGet"),
        ("GET", "/associations/resources/{resourceId}"),
        ("GET", "/associations/resources/{resourceNamespace}/{resourceName}"),
    }
)
"""Paths whose handlers show what the user may read."""

FOR_ALL = frozenset(
    {
        ("GET", "/schemas/types"),
        ("GET", "/contexts"),
        ("GET", "/v1/metadata/id"),
        ("GET", "/v1/metadata/version"),
        ("GET", "/v1/metadata/deployment"),
        ("POST", "/"),
    }
)
"""Paths that every authenticated user may call."""


class SubjectAccess:
    """Refuses requests that the ACLs do not allow, and lets handlers filter what they show."""

    def __init__(self, acls: Acls, state: Callable[[], RegistryState]) -> None:
        self._acls = acls
        self._state = state

    def __call__(self, request: Request) -> None:
        """Raise 40301 if the principal may not do this."""
        request.may_read = lambda subject: self._allows(request, Operation.READ, subject)
        method = "GET" if request.method == "HEAD" else request.method
        place = (method, request.route)
        if request.route in OPEN_PATHS or place in FILTERED or place in FOR_ALL:
            return
        operation = ON_SUBJECT.get(place)
        if operation is not None:
            needed = operation
            request.check_allowed = lambda subject: self._check(request, needed, subject)
            named = normalize_subject(request.params["subject"])
            for subject in {named, resolve_alias(self._state(), named)}:
                self._check(request, operation, subject)
            return
        operation = ON_CLUSTER.get(place, Operation.ALL)
        if not self._acls.allows_on_cluster(request.principal, request.host, operation):
            raise denied(operation, "Cluster: kafka-cluster")

    def _check(self, request: Request, operation: Operation, subject: str) -> None:
        if not self._allows(request, operation, subject):
            raise denied(operation, f"Subject: {subject}")

    def _allows(self, request: Request, operation: Operation, subject: str) -> bool:
        return self._acls.allows(request.principal, request.host, operation, SUBJECT + subject)


def denied(operation: Operation, what: str) -> RegistryError:
    """Return the error for what the ACLs do not allow."""
    return RegistryError(40301, f"User is denied operation {operation_words(operation)} on {what}")


def check_readable(request: Request, subjects: Iterable[str]) -> None:
    """Raise 40301 unless the principal may read one of the subjects."""
    named = list(subjects)
    if named and not any(map(request.may_read, named)):
        raise denied(Operation.READ, f"Subject: {named[0]}")


def found_subject(request: Request, state: RegistryState) -> str:
    """Return the subject that the path names; an alias is resolved.

    It is checked again: since the request was let in, the alias may have come to stand for another subject.
    """
    subject = resolve_alias(state, normalize_subject(request.params["subject"]))
    request.check_allowed(subject)
    return subject


def check_references(request: Request, subject: str, references: Iterable[Reference]) -> None:
    """Raise 40301 unless the principal may read all that a schema of `subject` refers to.

    Who may refer to a schema can read it: resolved, it is a part of the schema that refers to it.
    """
    for each in references:
        check_readable(request, [in_context(subject, each.subject)])
