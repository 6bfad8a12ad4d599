"""Decode PostgreSQL's logical replication messages (pgoutput, protocol version 1). Pure code."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
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


@dataclass(frozen=True)
class Change:
    """An insert (c), update (u), delete (d) or truncate (t) of one row or table."""

    op: str
    relation: Relation
    before: dict[str, Any] | None
    after: dict[str, Any] | None
    is_whole: bool = False
    """Whether `before` is the whole row, not only its key."""


Message = Begin | Commit | Change


class Decoder:
    """Decodes messages in their order; it keeps the relations that it was shown."""

    def __init__(self) -> None:
        self._relations: dict[int, Relation] = {}

    def decode(self, data: bytes) -> Iterator[Message]:
        """Yield what a message says; nothing for relations, types, origins and logical messages."""
        kind, reader = data[:1], _Reader(data, 1)
        if kind == b"B":
            yield Begin(*reader.unpack(">qqi"))
        elif kind == b"C":
            _, lsn, end_lsn, _ = reader.unpack(">bqqq")
            yield Commit(lsn, end_lsn)
        elif kind == b"R":
            relation = reader.relation()
            self._relations[relation.id] = relation
        elif kind == b"I":
            relation = self._relation(reader)
            reader.take(1)
            yield Change("c", relation, None, reader.row(relation))
        elif kind == b"U":
            yield self._update(reader)
        elif kind == b"D":
            relation = self._relation(reader)
            whole = reader.take(1) == b"O"
            yield Change("d", relation, reader.row(relation), None, whole)
        elif kind == b"T":
            count, _ = reader.unpack(">ib")
            for number in reader.unpack(f">{count}i"):
                if number in self._relations:
                    yield Change("t", self._relations[number], None, None)

    def _relation(self, reader: _Reader) -> Relation:
        return self._relations[reader.unpack(">i")[0]]

    def _update(self, reader: _Reader) -> Change:
        relation = self._relation(reader)
        before, whole = None, False
        kind = reader.take(1)
        if kind in (b"K", b"O"):
            whole = kind == b"O"
            before = reader.row(relation)
            reader.take(1)
        after = reader.row(relation)
        if before is not None and whole:
            after = {name: before.get(name) if each is UNCHANGED else each for name, each in after.items()}
        return Change("u", relation, before, after, whole)


class _Reader:
    def __init__(self, data: bytes, at: int) -> None:
        self._data, self._at = data, at

    def take(self, size: int) -> bytes:
        self._at += size
        return self._data[self._at - size : self._at]

    def unpack(self, form: str) -> tuple[Any, ...]:
        return struct.unpack(form, self.take(struct.calcsize(form)))

    def text(self) -> str:
        end = self._data.index(b"\x00", self._at)
        found = self._data[self._at : end].decode()
        self._at = end + 1
        return found

    def relation(self) -> Relation:
        (number,) = self.unpack(">i")
        schema, table = self.text(), self.text()
        _, count = self.unpack(">bh")
        columns = []
        for _ in range(count):
            (flags,) = self.unpack(">b")
            name = self.text()
            oid, modifier = self.unpack(">Ii")
            columns.append(Column(name, oid, modifier, bool(flags & 1)))
        return Relation(number, schema or "pg_catalog", table, tuple(columns))

    def row(self, relation: Relation) -> dict[str, Any]:
        (count,) = self.unpack(">h")
        found: dict[str, Any] = {}
        for column in relation.columns[:count]:
            kind = self.take(1)
            if kind == b"n":
                found[column.name] = None
            elif kind == b"u":
                found[column.name] = UNCHANGED
            else:
                (size,) = self.unpack(">i")
                found[column.name] = self.take(size).decode()
        return found
