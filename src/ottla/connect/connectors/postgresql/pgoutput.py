"""Decode PostgreSQL's logical replication messages (pgoutput, protocol version 1): one by one, or in columns.

Pure code.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

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
COMMIT, RELATION = b"C", b"R"
INSERT, UPDATE = ord("I"), ord("U")
NULL, SAME, TEXT = ord("n"), ord("u"), ord("t")
_NEW = ord("N")
_ROW_POSITION = 8
"""Kind, relation, N, number of columns."""
_LENGTH = 5
"""Kind and length of a text."""


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


def is_new_row(data: bytes) -> bool:
    """Return whether a message has the new row of an insert or update, and nothing of the old one."""
    return data[0] in (INSERT, UPDATE) and data[5] == _NEW


class Texts(NamedTuple):
    """The values of a column."""

    column: Any
    """Null also where an update has not changed a large value."""
    is_same: Any
    """Which are those; None if there are none."""


def texts_of(messages: Sequence[bytes], columns: int) -> list[Texts] | None:
    """Return the texts of each column of many new rows; None if a row has other columns."""
    import numpy as np
    import pyarrow as pa

    sizes = np.fromiter(map(len, messages), np.int64, len(messages))
    ends = np.cumsum(sizes)
    data = b"".join((*messages, bytes(_LENGTH)))
    if len(data) > 2**31 - 1:
        return None
    octets = np.frombuffer(data, np.uint8)
    position = ends - sizes + _ROW_POSITION
    if ((octets[position - 2].astype(np.int64) << 8 | octets[position - 1]) != columns).any():
        return None
    found = []
    evens = np.arange(0, 2 * len(messages) - 1, 2)
    for _ in range(columns):
        kinds = octets[position]
        is_null, is_same = kinds == NULL, kinds == SAME
        if not (is_null | is_same | (kinds == TEXT)).all():
            return None
        is_null |= is_same
        lengths = np.zeros(len(messages), np.int64)
        for each in range(1, _LENGTH):
            lengths = lengths << 8 | octets[position + each]
        begin = np.where(is_null, position + 1, position + _LENGTH)
        position = np.where(is_null, begin, begin + lengths)
        edges = np.stack((begin, position), axis=1).ravel().astype(np.int32)
        pieces = pa.Array.from_buffers(
            pa.binary(), len(edges) - 1, [None, pa.py_buffer(edges), pa.py_buffer(data)]
        )
        texts = pieces.take(pa.array(evens, mask=is_null)).cast(pa.string())
        found.append(Texts(texts, pa.array(is_same) if is_same.any() else None))
    return found if (position == ends).all() else None
