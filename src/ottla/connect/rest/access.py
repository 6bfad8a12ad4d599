"""What a user needs for each call: an operation on `Connector:NAME`, or on the cluster.

Kafka has no resource type for connectors: as a subject of the registry, a connector is a TOPIC resource whose
name begins with its kind (http/broker_acls.py). Calls whose connector is named in the body are decided by
their handlers with `check`; a call that is in no table needs ALL on the cluster.
"""

from __future__ import annotations

from ottla.http.app import Request
from ottla.http.authentication import OPEN_PATHS
from ottla.http.errors import HttpError
from ottla.http.security import Acls, operation_words
from ottla.security.acls import Operation

CONNECTOR = "Connector:"
_NAME = "/connectors/{connector}"
_TASK = f"{_NAME}/tasks/{{task}}"
_O = Operation

ON_CONNECTOR: dict[tuple[str, str], Operation] = {
    ("GET", _NAME): _O.DESCRIBE,
    ("GET", f"{_NAME}/config"): _O.DESCRIBE,
    ("GET", f"{_NAME}/status"): _O.DESCRIBE,
    ("GET", f"{_NAME}/tasks"): _O.DESCRIBE,
    ("GET", f"{_TASK}/status"): _O.DESCRIBE,
    ("GET", f"{_NAME}/topics"): _O.DESCRIBE,
    ("GET", f"{_NAME}/offsets"): _O.DESCRIBE,
    ("PUT", f"{_NAME}/config"): _O.ALTER,
    ("PATCH", f"{_NAME}/config"): _O.ALTER,
    ("PATCH", f"{_NAME}/offsets"): _O.ALTER,
    ("DELETE", f"{_NAME}/offsets"): _O.ALTER,
    ("PUT", f"{_NAME}/topics/reset"): _O.ALTER,
    ("PUT", f"{_NAME}/pause"): _O.WRITE,
    ("PUT", f"{_NAME}/resume"): _O.WRITE,
    ("PUT", f"{_NAME}/stop"): _O.WRITE,
    ("POST", f"{_NAME}/restart"): _O.WRITE,
    ("POST", f"{_TASK}/restart"): _O.WRITE,
    ("DELETE", _NAME): _O.DELETE,
}
"""Operations on the connector that the path names."""

ON_CLUSTER: dict[tuple[str, str], Operation] = {
    ("GET", "/admin/loggers"): _O.DESCRIBE,
    ("GET", "/admin/loggers/{logger}"): _O.DESCRIBE,
    ("PUT", "/admin/loggers/{logger}"): _O.ALTER,
    ("GET", "/metrics"): _O.DESCRIBE,
}
"""Operations on `kafka-cluster`."""

BY_HANDLER = frozenset(
    {
        ("GET", "/connectors"),
        ("POST", "/connectors"),
        ("PUT", "/connector-plugins/{plugin}/config/validate"),
    }
)
"""Calls whose handlers decide: they show what the user may see, or the name is in the body."""

FOR_ALL = frozenset({("GET", "/connector-plugins"), ("GET", "/connector-plugins/{plugin}/config")})
"""Calls that every authenticated user may make."""


class ConnectorAccess:
    """Refuses what the ACLs do not allow; without ACLs, nothing."""

    def __init__(self, acls: Acls | None = None) -> None:
        self.acls = acls

    def __call__(self, request: Request) -> None:
        """Raise 403 if the principal may not send this request."""
        place = ("GET" if request.method == "HEAD" else request.method, request.route)
        if request.route in OPEN_PATHS or place in BY_HANDLER or place in FOR_ALL:
            return
        operation = ON_CONNECTOR.get(place)
        if operation is not None:
            self.check(request, request.params["connector"], operation)
            return
        operation = ON_CLUSTER.get(place, Operation.ALL)
        if self.acls is not None and not self.acls.allows_on_cluster(
            request.principal, request.host, operation
        ):
            raise denied(operation, "Cluster: kafka-cluster")

    def may(self, request: Request, name: str, operation: Operation) -> bool:
        """Return whether the sender of a request may do something with a connector."""
        return self.acls is None or self.acls.allows(
            request.principal, request.host, operation, CONNECTOR + name
        )

    def check(self, request: Request, name: str, *operations: Operation) -> None:
        """Raise 403 unless the sender may do one of the operations with a connector."""
        if not any(self.may(request, name, each) for each in operations):
            raise denied(operations[0], f"Connector: {name}")


def denied(operation: Operation, what: str) -> HttpError:
    """Return the error for what the ACLs do not allow."""
    return HttpError(403, 403, f"User is denied operation {operation_words(operation)} on {what}")
