"""Rows of a CSV file, or of an Avro file, as lines of JSON: `ottla produce --format csv|avro`.

CSV has text only. With a schema for the values (Avro or JSON Schema), a cell becomes the type of its field: a
number, true or false, null if it is empty and may be; without one it stays text.
"""

from __future__ import annotations

import asyncio
import csv
import io
import json
from collections.abc import AsyncIterator, Iterator, Mapping
from itertools import islice
from typing import Any, BinaryIO

ROWS_AT_ONCE = 1_000

Kinds = Mapping[str, frozenset[str]]
"""By field: the types of Avro or JSON Schema that it may have."""

_WHOLE = frozenset({"int", "long", "integer"})
_NUMBER = frozenset({"float", "double", "number"})
_TRUTH = {"true": True, "false": False}


class RowError(ValueError):
    """A row that cannot be read; the text says which."""


async def in_portions(rows: Iterator[bytes]) -> AsyncIterator[list[bytes]]:
    """Yield rows, many at a time, read in a thread; those before a bad row come first."""
    error: RowError | None = None
    while error is None:
        some, error = await asyncio.to_thread(_portion, rows)
        if not some:
            break
        yield some
    if error is not None:
        raise error


def _portion(rows: Iterator[bytes]) -> tuple[list[bytes], RowError | None]:
    found: list[bytes] = []
    try:
        found.extend(islice(rows, ROWS_AT_ONCE))  # keeps those before an error
    except RowError as error:
        return found, error
    return found, None


def csv_rows(file: BinaryIO, kinds: Kinds, delimiter: str = ",") -> Iterator[bytes]:
    """Yield each row as a JSON object; the first row has the names. RowError says what is wrong with one."""
    text = io.TextIOWrapper(file, encoding="utf-8-sig", newline="")
    rows = csv.reader(text, delimiter=delimiter, strict=True)
    try:
        names = next(rows, [])
        for row in rows:
            if not row:
                continue
            if len(row) != len(names):
                raise ValueError(f"{len(row)} cells, and the first line names {len(names)}")
            cells = {name: _cell(name, cell, kinds) for name, cell in zip(names, row, strict=True)}
            yield json.dumps(cells, ensure_ascii=False).encode()
    except (csv.Error, ValueError) as error:
        raise RowError(f"line {rows.line_num} of the CSV: {error}") from None


def _cell(name: str, text: str, kinds: Kinds) -> Any:
    kind = kinds.get(name, frozenset())
    if not text and "null" in kind:
        return None
    try:
        if kind & _WHOLE:
            return int(text)
        if kind & _NUMBER:
            return float(text)
    except ValueError:
        if "string" not in kind:
            raise ValueError(f"{name}: {text!r} is not a number") from None
    if "boolean" in kind and text.lower() in _TRUTH:
        return _TRUTH[text.lower()]
    return text


def avro_rows(file: BinaryIO) -> Iterator[bytes]:
    """Yield each record of an Avro object container file as JSON; RowError if it is none."""
    import fastavro

    from ottla.registry.serdes.plain_json import to_json_text

    try:
        for row in fastavro.reader(file):
            yield to_json_text(row)
    except (ValueError, EOFError, KeyError, IndexError, TypeError) as error:
        raise RowError(f"not an Avro object container file: {error}") from None


def field_kinds(schema_type: str, text: str) -> Kinds:
    """Return the types of the fields of an Avro record, or of a JSON Schema object; nothing for others."""
    if schema_type not in ("AVRO", "JSON"):
        return {}
    schema = json.loads(text)
    if not isinstance(schema, dict):
        return {}
    if schema_type == "AVRO":
        return {each["name"]: frozenset(_names(each["type"])) for each in schema.get("fields", ())}
    found = schema.get("properties", {})
    return {name: frozenset(_names(each.get("type", ()))) for name, each in found.items()}


def _names(declared: Any) -> list[str]:
    """Return the names of a type: of a union, of its parts; a logical type takes text, as JSON has it."""
    if isinstance(declared, str):
        return [declared]
    if isinstance(declared, list | tuple):
        return [name for each in declared for name in _names(each)]
    return ["string"] if "logicalType" in declared else _names(declared.get("type", ()))
