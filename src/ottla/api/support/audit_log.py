"""Write the audit log: denied operations, failed logins and changes, with their principals, as JSON lines.

    {"time":"2026-11-16T18:30:00.123Z","event":"denied","principal":"User:bob","host":"10.0.0.7",
     "client_id":"etl","api":"Produce","operation":"WRITE","resource":"TOPIC","name":"orders","broker":1}

A denial line says how many more were left out since the last one: a client that retries must not fill the
disk. The limit counts for each user, so that one user cannot hide what another was denied. Changes are always
written. Names and numbers only: no value of a config, no password, no HMAC.
"""

from __future__ import annotations

import json
import logging
import os
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from ottla.common.clock import Clock
from ottla.controller.machine import ConfigAlteration
from ottla.metadata.records import ConfigResource
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.errors import KafkaError
from ottla.security.acls import Operation, ResourceType

if TYPE_CHECKING:
    from ottla.api.support.context import RequestContext

log = logging.getLogger("ottla.audit")

MAX_NAME_CHARS = 300
MAX_USERS_WITH_DENIALS = 100
"""Of how many users denials are written in one second; and of how many addresses, failed logins."""
Sink = Callable[[str], None]


def to_logger(line: str) -> None:
    """Write a line to the broker's log."""
    log.info("%s", line)


class AuditFile:
    """The file of the audit log, readable by its owner only; a rotated one is opened again."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._descriptor = self._open()

    def write(self, line: str) -> None:
        """Append a line with one system call, so that lines of several processes do not mix."""
        try:
            if not os.path.exists(self._path):
                # The old one stays open until there is a new one: its number must not become another file's.
                opened = self._open()
                self.close()
                self._descriptor = opened
            os.write(self._descriptor, f"{line}\n".encode())
        except OSError as error:
            log.error("cannot write %s: %s: %s", self._path, error, line)

    def close(self) -> None:
        """Close the file."""
        os.close(self._descriptor)

    def _open(self) -> int:
        return os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)


class AuditLog:
    """Writes events to sinks: the logger or a file, and the topic `__audit`."""

    def __init__(self, node_id: int, clock: Clock, sinks: list[Sink], denials_per_second: int) -> None:
        self._node_id = node_id
        self._clock = clock
        self.sinks = sinks
        self._denials_per_second = denials_per_second
        self._second = -1
        self._denials: Counter[str] = Counter()  # in this second, by principal
        self._failed_logins: Counter[str] = Counter()  # the same by address: strangers must not hide denials
        self._left_out = 0

    def denied(
        self, ctx: RequestContext, operation: Operation, resource_type: ResourceType, name: str
    ) -> None:
        """Write a denial, if its user had not too many in this second."""
        if self._has_room(self._denials, ctx.connection.principal):
            resource = _resource(resource_type, name)
            self._write("denied", ctx, operation=operation.name, **resource, **self._left_out_since())

    def login_failed(self, ctx: RequestContext, mechanism: str, reason: str) -> None:
        """Write a login that failed, if its address had not too many in this second."""
        if self._has_room(self._failed_logins, ctx.connection.host):
            self._write(
                "denied",
                ctx,
                operation="LOGIN",
                resource="MECHANISM",
                name=mechanism,
                allowed=False,
                error=reason[:MAX_NAME_CHARS],
                **self._left_out_since(),
            )

    def _has_room(self, written: Counter[str], user: str) -> bool:
        second = self._clock.mono_ms() // 1000
        if second != self._second:
            self._second = second
            self._denials.clear()
            self._failed_logins.clear()
        if written[user] >= self._denials_per_second or (
            user not in written and len(written) >= MAX_USERS_WITH_DENIALS
        ):
            self._left_out += 1
            return False
        written[user] += 1
        return True

    def _left_out_since(self) -> dict[str, Any]:
        left_out, self._left_out = self._left_out, 0
        return {"left_out": left_out} if left_out else {}

    def changed(self, ctx: RequestContext, resource_type: str, name: str, error: KafkaError | None) -> None:
        """Write an administrative change, also one that failed."""
        more = {} if error is None else {"error": error.code.name.upper()}
        self._write(
            "changed",
            ctx,
            operation=ApiKey(ctx.api_key).name,
            resource=resource_type,
            name=name[:MAX_NAME_CHARS],
            allowed=True,
            **more,
        )

    def _write(self, event: str, ctx: RequestContext, **fields: Any) -> None:
        connection = ctx.connection
        line = {
            "time": _timestamp(self._clock.wall_ms()),
            "event": event,
            "principal": connection.principal,
            "host": connection.host,
            "client_id": None if ctx.client_id is None else ctx.client_id[:MAX_NAME_CHARS],
            "api": ApiKey(ctx.api_key).name,
            **fields,
            "broker": self._node_id,
        }
        text = json.dumps(line, separators=(",", ":"))
        for sink in self.sinks:
            sink(text)


def audit_change(
    ctx: RequestContext, resource_type: ResourceType, name: str, result: object, kind: str | None = None
) -> None:
    """Write an administrative change, if there is an audit log; `result` is a KafkaError if it failed."""
    audit = ctx.services.audit
    if audit is not None:
        error = result if isinstance(result, KafkaError) else None
        audit.changed(ctx, kind or resource_type.name, name, error)


def audit_config_change(ctx: RequestContext, alteration: ConfigAlteration, result: object) -> None:
    """Write a change of configs: the names of the keys, never their values."""
    try:
        kind = ConfigResource(alteration.resource_type).name
    except ValueError:
        kind = str(alteration.resource_type)
    keys = ",".join(change.key for change in alteration.changes)
    name = alteration.resource_name or "all"
    audit_change(ctx, ResourceType.CLUSTER, f"{name}: {keys}", result, kind)


def _resource(resource_type: ResourceType, name: str) -> dict[str, Any]:
    return {"resource": resource_type.name, "name": name[:MAX_NAME_CHARS], "allowed": False}


def _timestamp(wall_ms: int) -> str:
    text = datetime.fromtimestamp(wall_ms / 1000, UTC).isoformat(timespec="milliseconds")
    return text.replace("+00:00", "Z")
