"""From a line of input to a record."""

from __future__ import annotations

import json
from dataclasses import dataclass
from itertools import chain, repeat

from ottla.cli.support.input_template import InputTemplate
from ottla.cli.support.records import NewRecord, from_json
from ottla.cli.support.schemas import Encoder


@dataclass(frozen=True, slots=True)
class LineReader:
    """Converts a line of input into a record."""

    key: str | None
    key_separator: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    partition: int | None
    empty_is_null: bool
    is_json: bool
    keeps_partitions: bool
    encoder: Encoder | None = None
    key_field: str | None = None
    template: InputTemplate | None = None

    def in_bulk(self, lines: list[bytes]) -> tuple[list[bytes], list[bytes] | None] | None:
        """Return the values and keys of lines that need no object each; None if they do, or one is wrong."""
        if (
            self.is_json
            or self.key_field is not None
            or self.encoder is not None
            or self.template is not None
        ):
            return None
        if self.key_separator is None:
            if self.empty_is_null and (not self.key or b"" in lines):
                return None
            return lines, None if self.key is None else [self.key.encode()] * len(lines)
        separator = self.key_separator
        # One list without a tuple for each line: half the time, most of which the garbage collector took.
        pieces = list(chain.from_iterable(map(bytes.partition, lines, repeat(separator))))
        keys, found, values = pieces[::3], pieces[1::3], pieces[2::3]
        if b"" in found or (self.empty_is_null and (b"" in keys or b"" in values)):
            return None
        return values, keys

    def record(self, line: bytes) -> NewRecord:
        """Return the record; ValueError says what is wrong with the line."""
        found = self._record(line)
        return found if self.encoder is None else self.encoder.encode(found)

    def _record(self, line: bytes) -> NewRecord:
        if self.template is not None:
            return self._completed(self.template.record(line))
        if self.is_json:
            return self._completed(from_json(line, self.encoder.fields if self.encoder else ()))
        key_bytes = self.key.encode() if self.key is not None else None
        value: bytes | None = line
        if self.key_field is not None:
            key_bytes = _key_of(line, self.key_field)
        if self.key_separator is not None:
            key_bytes, found, value = line.partition(self.key_separator)
            if not found:
                shown = self.key_separator.decode(errors="backslashreplace")
                raise ValueError(f"no {shown!r} between key and value")
        if self.empty_is_null:
            key_bytes, value = key_bytes or None, value or None
        return NewRecord(key_bytes, value, self.headers, None, self.partition)

    def _completed(self, record: NewRecord) -> NewRecord:
        """Return a record from JSON or a template, with the values of the options."""
        return record._replace(
            key=self.key.encode() if self.key is not None else record.key,
            headers=record.headers + self.headers,
            partition=record.partition if self.keeps_partitions else self.partition,
        )


def _key_of(row: bytes, field: str) -> bytes | None:
    cells = json.loads(row)
    if not isinstance(cells, dict) or field not in cells:
        raise ValueError(f"there is no field {field!r}")
    found = cells[field]
    if found is None:
        return None
    return found.encode() if isinstance(found, str) else json.dumps(found).encode()
