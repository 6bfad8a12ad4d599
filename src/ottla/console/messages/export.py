"""Messages as CSV, as JSON (one object per line), and as Parquet."""

from __future__ import annotations

import csv
import io
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

from ottla.console.messages.decoding import json_text
from ottla.console.messages.message import Message
from ottla.console.messages.search import Progress

CSV, JSON, PARQUET = "csv", "json", "parquet"
KINDS = {
    CSV: "text/csv; charset=utf-8",
    JSON: "application/x-ndjson",
    PARQUET: "application/vnd.apache.parquet",
}
COLUMNS = ("topic", "partition", "offset", "timestamp", "key", "value", "headers")
FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")
"""Also those of full width, which some spreadsheets take for the others."""
PARQUET_ROWS = 10_000


async def exported(kind: str, scan: AsyncIterator[Progress]) -> AsyncIterator[bytes]:
    """Yield the file of what a scan finds, as it finds it."""
    if kind == PARQUET:
        async for part in _parquet(scan):
            yield part
        return
    if kind == CSV:
        yield _csv_row(COLUMNS)
    async for progress in scan:
        write = _csv if kind == CSV else _json_line
        found = b"".join(write(each) for each in progress.hits)
        if found:
            yield found


def _row(message: Message) -> list[Any]:
    record = message.record
    key = None if record.key is None else message.key.text
    value = None if record.value is None else _whole_text(message)
    headers = json_text(dict(message.headers())) if record.headers else ""
    return [record.topic, record.partition, record.offset, record.timestamp, key, value, headers]


def _whole_text(message: Message) -> str:
    """Return the text of a value; one that is too large to be parsed is exported whole, as text."""
    if message.value.is_cut:
        return (message.record.value or b"").decode(errors="replace")
    return message.value.text


def _csv(message: Message) -> bytes:
    row = _row(message)
    row[3] = _moment(row[3])
    return _csv_row(["" if each is None else _inert(each) for each in row])


def _moment(timestamp_ms: int) -> str | int:
    """Return a time in ISO 8601; as milliseconds if its year has more than four digits."""
    try:
        return datetime.fromtimestamp(timestamp_ms / 1000, UTC).isoformat(timespec="milliseconds")
    except (OverflowError, ValueError, OSError):
        return timestamp_ms


def _inert(cell: Any) -> Any:
    """Return a cell that no spreadsheet takes for a formula."""
    if isinstance(cell, str) and cell.startswith(FORMULA_STARTS):
        return "'" + cell
    return cell


def _csv_row(cells: Any) -> bytes:
    out = io.StringIO()
    csv.writer(out).writerow(cells)
    return out.getvalue().encode()


def _json_line(message: Message) -> bytes:
    record = message.record
    line = {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp": record.timestamp,
        "key": _json_part(message.key),
        "value": _whole_text(message) if message.value.is_cut else _json_part(message.value),
        "headers": dict(message.headers()),
    }
    try:
        return json_text(line, allows_nan=False).encode() + b"\n"
    except (RecursionError, ValueError):  # nested too deeply to be written, or with a number that is none
        return json_text({**line, "key": message.key.text, "value": message.value.text}).encode() + b"\n"


def _json_part(part: Any) -> Any:
    return part.data if part.is_structured else part.text


async def _parquet(scan: AsyncIterator[Progress]) -> AsyncIterator[bytes]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    schema = pa.schema(
        [
            ("topic", pa.string()),
            ("partition", pa.int32()),
            ("offset", pa.int64()),
            ("timestamp", pa.timestamp("ms", tz="UTC")),
            ("key", pa.string()),
            ("value", pa.string()),
            ("headers", pa.string()),
        ]
    )
    out = _Sink()
    writer = pq.ParquetWriter(out, schema, compression="zstd")
    rows: list[list[Any]] = []

    def write() -> bytes:
        """Write a row group, and return what it added to the file."""
        columns = list(zip(*rows, strict=True))
        arrays = [pa.array(each, field.type) for each, field in zip(columns, schema, strict=True)]
        writer.write_table(pa.Table.from_arrays(arrays, schema=schema))
        rows.clear()
        return out.taken()

    async for progress in scan:
        rows.extend(_row(each) for each in progress.hits)
        if len(rows) >= PARQUET_ROWS:
            yield write()
    if rows:
        yield write()
    writer.close()
    yield out.taken()


class _Sink:
    """A file that hands out what was written to it, piece by piece."""

    closed = False

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._size = 0

    def write(self, data: Any) -> int:
        """Keep what is written."""
        part = bytes(data)
        self._parts.append(part)
        self._size += len(part)
        return len(part)

    def tell(self) -> int:
        """Return how much was written."""
        return self._size

    def flush(self) -> None:
        """Do nothing: there is no buffer below."""

    def close(self) -> None:
        """Do nothing: what was written is still to be taken."""

    def taken(self) -> bytes:
        """Return what was written since the last call."""
        found = b"".join(self._parts)
        self._parts.clear()
        return found
