"""Decode PostgreSQL's logical replication messages (pgoutput, protocol version 1). Pure code."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

UNCHANGED = object()
"""A large value that an update has not changed, and PostgreSQL does not send."""


@dataclass(frozen=True)
class Column:
    """A column of a relation."""

    name: str
    oid: int
    modifier: int
    is_key: bool


@dataclass(frozen=True)
class Relation:
    """A table as it is at this place of the log."""

    id: int
    schema: str
    table: str
    columns: tuple[Column, ...]


@dataclass(frozen=True)
class Begin:
    """The begin of a transaction."""

    final_lsn: int
    commit_us: int
    """Since 2000-01-01."""
    xid: int


@dataclass(frozen=True)
class Commit:
    """The end of a transaction."""

    lsn: int
    end_lsn: int


@dataclass(slots=True)
class Change:
    """An insert (c), update (u), delete (d) or truncate (t) of one row or table."""

    op: str
    relation: Relation
    before: dict[str, Any] | None
    after: dict[str, Any] | None
    is_whole: bool = False
    """Whether `before` is the whole row, not only its key."""


Message = Begin | Commit | Change


_BEGIN, _COMMIT = struct.Struct(">qqi"), struct.Struct(">bqqq")
_ID, _COUNT, _TYPE = struct.Struct(">i"), struct.Struct(">h"), struct.Struct(">Ii")
NULL, SAME = ord("n"), ord("u")
COMMIT, RELATION = b"C", b"R"


def relation_id(data: bytes) -> int:
    """Return the table that a message is about."""
    return int(_ID.unpack_from(data, 1)[0])


def commit_end(data: bytes) -> int:
    """Return where the transaction ends that a commit message ends."""
    return int(_COMMIT.unpack_from(data, 1)[2])


class Decoder:
    """Decodes messages in their order; it keeps the relations that it was shown.

    `keys` has the columns of the primary key by the message of a relation, where that does not name them.
    """

    def __init__(self, keys: Mapping[bytes, Sequence[str]] | None = None) -> None:
        self._keys = keys or {}
        self._relations: dict[int, tuple[Relation, list[str]]] = {}

    def relation(self, data: bytes) -> Relation:
        """Return the table of a change."""
        return self._relations[relation_id(data)][0]

    def decode(self, data: bytes) -> Sequence[Message]:
        """Return what a message says; nothing for relations, types, origins and logical messages."""
        kind = data[:1]
        if kind == b"U":
            return (self._update(data),)
        if kind == b"I":
            relation, names = self._relations[_ID.unpack_from(data, 1)[0]]
            return (Change("c", relation, None, _row(data, 6, names)[0]),)
        if kind == b"D":
            relation, names = self._relations[_ID.unpack_from(data, 1)[0]]
            return (Change("d", relation, _row(data, 6, names)[0], None, data[5:6] == b"O"),)
        if kind == b"B":
            return (Begin(*_BEGIN.unpack_from(data, 1)),)
        if kind == b"C":
            _, lsn, end_lsn, _ = _COMMIT.unpack_from(data, 1)
            return (Commit(lsn, end_lsn),)
        if kind == b"R":
            relation = relation_of(data)
            if (keys := self._keys.get(data)) is not None:
                columns = (replace(each, is_key=each.name in keys) for each in relation.columns)
                relation = replace(relation, columns=tuple(columns))
            self._relations[relation.id] = relation, [each.name for each in relation.columns]
        if kind == b"T":
            return self._truncate(data)
        return ()

    def _truncate(self, data: bytes) -> Sequence[Message]:
        (count,) = _ID.unpack_from(data, 1)
        numbers = struct.unpack_from(f">{count}i", data, 6)
        known = [self._relations[each][0] for each in numbers if each in self._relations]
        return [Change("t", each, None, None) for each in known]

    def _update(self, data: bytes) -> Change:
        relation, names = self._relations[_ID.unpack_from(data, 1)[0]]
        before, whole = None, False
        kind, position = data[5:6], 6
        if kind in (b"K", b"O"):
            whole = kind == b"O"
            before, position = _row(data, position, names)
            position += 1
        after, _ = _row(data, position, names)
        if before is not None and whole:
            after = {name: before.get(name) if each is UNCHANGED else each for name, each in after.items()}
        return Change("u", relation, before, after, whole)


def _row(data: bytes, position: int, names: Sequence[str]) -> tuple[dict[str, Any], int]:
    """Return the texts of a row by column, and where it ends."""
    (count,) = _COUNT.unpack_from(data, position)
    position += 2
    found: dict[str, Any] = {}
    for name in names[:count]:
        kind = data[position]
        if kind == NULL:
            found[name] = None
            position += 1
        elif kind == SAME:
            found[name] = UNCHANGED
            position += 1
        else:
            begin = position + 5
            position = begin + int.from_bytes(data[position + 1 : begin])
            found[name] = data[begin:position].decode()
    return found, position


def has_whole_rows(data: bytes) -> bool:
    """Return whether a message describes a table with REPLICA IDENTITY FULL: all columns are called keys."""
    if data[:1] != RELATION:
        return False
    _, position = _text(data, 5)
    _, position = _text(data, position)
    return data[position : position + 1] == b"f"


def relation_of(data: bytes) -> Relation:
    """Return what a relation message describes."""
    (number,) = _ID.unpack_from(data, 1)
    schema, position = _text(data, 5)
    table, position = _text(data, position)
    (count,) = _COUNT.unpack_from(data, position + 1)
    position += 3
    columns = []
    for _ in range(count):
        is_key = bool(data[position] & 1)
        name, position = _text(data, position + 1)
        oid, modifier = _TYPE.unpack_from(data, position)
        position += 8
        columns.append(Column(name, oid, modifier, is_key))
    return Relation(number, schema or "pg_catalog", table, tuple(columns))


def _text(data: bytes, position: int) -> tuple[str, int]:
    end = data.index(b"\x00", position)
    return data[position:end].decode(), end + 1
