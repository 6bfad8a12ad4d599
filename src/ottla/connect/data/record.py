"""Records of Connect, on their way from a source to a topic or from a topic to a target."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ottla.connect.data.schema import Schema


class Header(NamedTuple):
    """A header of a record."""

    name: str
    schema: Schema | None
    value: Any


@dataclass(slots=True)
class Record:
    """A record; schemas are None where the data has none."""

    topic: str
    value: Any = None
    value_schema: Schema | None = None
    key: Any = None
    key_schema: Schema | None = None
    partition: int | None = None
    timestamp_ms: int | None = None
    headers: list[Header] = field(default_factory=list)
    offset: int = -1
    """In its topic; sinks only."""
    origin: str = ""
    """The topic that it was read from; a transform may have changed `topic`. Sinks only."""


class RawRecord(NamedTuple):
    """A record as it is in a topic."""

    topic: str
    partition: int | None
    offset: int
    timestamp_ms: int | None
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()
