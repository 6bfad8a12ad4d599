"""Exporters and their status, as they are kept in the topic `_exporters`, and what its records add up to.

{"type":"EXPORTER","name":"dr"}
    {"name":"dr","contextType":"AUTO","context":".","subjects":["*"],"subjectRenameFormat":"${subject}",
     "config":{"schema.registry.url":"..."},"paused":false,"epoch":1}        no value: deleted
{"type":"STATUS","name":"dr"}
    {"state":"RUNNING","offset":17,"ts":1789000000000,"trace":null,"epoch":1}
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from ottla.registry.entities import Json
from ottla.registry.records import UnreadableRecord

EXPORTER, STATUS = "EXPORTER", "STATUS"
AUTO, CUSTOM, NONE, DEFAULT = "AUTO", "CUSTOM", "NONE", "DEFAULT"
CONTEXT_TYPES = (AUTO, CUSTOM, NONE, DEFAULT)
STARTING, RUNNING, PAUSED, ERROR = "STARTING", "RUNNING", "PAUSED", "ERROR"
PLACEHOLDER = "${subject}"
URL_KEY = "schema.registry.url"
HIDDEN = "[hidden]"
_SECRET_WORDS = ("password", "secret", "user.info", "token", "key")


@dataclass(frozen=True, slots=True)
class Exporter:
    """What is exported, and where to."""

    name: str
    context_type: str = AUTO
    context: str = "."
    subjects: tuple[str, ...] = ("*",)
    rename_format: str = PLACEHOLDER
    config: dict[str, str] = field(default_factory=dict)
    is_paused: bool = False
    epoch: int = 1
    """Incremented when it has to copy everything again: after a reset, and after a change."""

    def shown(self) -> Json:
        """Return it as clients see it: passwords are hidden."""
        return {
            "name": self.name,
            "contextType": self.context_type,
            "context": self.context,
            "subjects": list(self.subjects),
            "subjectRenameFormat": self.rename_format,
            "config": shown_config(self.config),
        }


@dataclass(frozen=True, slots=True)
class Status:
    """How an exporter is doing."""

    state: str
    offset: int = 0
    """The schemas were copied up to this offset of their topic."""
    timestamp: int = 0
    trace: str | None = None
    epoch: int = 1


def shown_config(config: dict[str, str]) -> dict[str, str]:
    """Return a config without its secrets."""
    return {
        name: HIDDEN if any(word in name.lower() for word in _SECRET_WORDS) else value
        for name, value in config.items()
    }


@dataclass(frozen=True, slots=True)
class ExporterRecord:
    """An exporter, or its status, under its name; None: it is deleted."""

    type: str
    name: str
    value: Exporter | Status | None

    def encode(self) -> tuple[bytes, bytes | None]:
        """Return key and value as they stand in the log."""
        key = _dump({"type": self.type, "name": self.name})
        match self.value:
            case None:
                return key, None
            case Exporter() as found:
                whole = {**found.shown(), "config": found.config}
                return key, _dump({**whole, "paused": found.is_paused, "epoch": found.epoch})
            case Status() as found:
                return key, _dump(
                    {
                        "state": found.state,
                        "offset": found.offset,
                        "ts": found.timestamp,
                        "trace": found.trace,
                        "epoch": found.epoch,
                    }
                )


def decode(key: bytes | None, value: bytes | None) -> ExporterRecord | None:
    """Return a record; None if it is of a kind that is not known."""
    try:
        name = json.loads(key or b"")
        content = json.loads(value) if value else None
        if name["type"] == EXPORTER:
            return ExporterRecord(EXPORTER, name["name"], None if content is None else _exporter(content))
        if name["type"] == STATUS:
            return ExporterRecord(STATUS, name["name"], None if content is None else _status(content))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise UnreadableRecord(f"{error!r}") from None
    return None


def _exporter(content: Json) -> Exporter:
    return Exporter(
        content["name"],
        content["contextType"],
        content["context"],
        tuple(content["subjects"]),
        content["subjectRenameFormat"],
        dict(content["config"]),
        bool(content["paused"]),
        int(content["epoch"]),
    )


def _status(content: Json) -> Status:
    return Status(
        content["state"], int(content["offset"]), int(content["ts"]), content["trace"], int(content["epoch"])
    )


def _dump(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


class ExporterState:
    """All exporters, by name, with their status."""

    def __init__(self) -> None:
        self.position = 0
        self.exporters: dict[str, Exporter] = {}
        self._statuses: dict[str, Status] = {}

    def replay(self, record: ExporterRecord | None, offset: int, timestamp: int = -1) -> None:
        """Take one record over."""
        match record:
            case ExporterRecord(_, name, Exporter() as found):
                self.exporters[name] = found
            case ExporterRecord(_, name, Status() as found):
                self._statuses[name] = found
            case ExporterRecord(kind, name, None):
                if kind == EXPORTER:
                    self.exporters.pop(name, None)
                self._statuses.pop(name, None)
        self.position = offset + 1

    def status(self, name: str) -> Status:
        """Return how an exporter is doing: PAUSED, or what its runner said of this epoch."""
        exporter, said = self.exporters[name], self._statuses.get(name)
        if said is None or said.epoch != exporter.epoch:
            said = Status(STARTING, epoch=exporter.epoch)
        if exporter.is_paused:
            return Status(PAUSED, said.offset, said.timestamp, None, exporter.epoch)
        return said
