"""Formats of files: text, JSON lines, CSV and Parquet, read by position and written whole."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterator
from datetime import UTC
from typing import Any

from ottla.connect.converters.plain import as_text
from ottla.connect.data import schema as s
from ottla.connect.data.json_form import from_epoch_ms, to_json
from ottla.connect.data.record import Record
from ottla.connect.data.schema import Schema
from ottla.connect.errors import DataError
from ottla.connect.sdk import Refused

EXTENSIONS = {"text": "txt", "jsonl": "jsonl", "csv": "csv", "parquet": "parquet"}
CHUNK = 1 << 20
TEXT = Schema(s.STRING)
Rows = Iterator[tuple[Any, Schema | None]]

# Reading.


def line_end(path: str, position: int, most: int, settled_size: int | None) -> int:
    """Return the end of the last whole line within `most` bytes; at least one line, however long it is."""
    with open(path, "rb") as file:
        file.seek(position)
        data = file.read(most)
        at = data.rfind(b"\n")
        while at < 0:
            more = file.read(CHUNK)
            if not more:
                # The last line has no end: it is whole if the file does not grow any more.
                return position if settled_size is None else position + len(data)
            data += more
            at = data.find(b"\n")
        if settled_size is not None and position + len(data) >= settled_size:
            return position + len(data)
        return position + at + 1


def _read(path: str, begin: int, end: int) -> bytes:
    with open(path, "rb") as file:
        file.seek(begin)
        data = file.read(end - begin)
    if len(data) != end - begin:
        raise DataError(
            f"{path} is shorter than it was: {begin + len(data)} bytes, and {end} were read before"
        )
    return data


def _lines(path: str, begin: int, end: int) -> list[bytes]:
    lines = _read(path, begin, end).split(b"\n")
    return lines[:-1] if not lines[-1] else lines


def _text(path: str, begin: int, end: int) -> Rows:
    for line in _lines(path, begin, end):
        yield line.rstrip(b"\r").decode("utf-8", "replace"), TEXT


def text_batches(topic: str, path: str, begin: int, end: int) -> Iterator[Any]:
    """Return lines as Arrow batches for topics."""
    import pyarrow as pa

    from ottla.connect.engine.source_stream import arrow_schema

    schema = arrow_schema()
    data = _read(path, begin, end)
    for lines in _arrow_lines(data):
        count = len(lines)
        columns = [pa.repeat(pa.scalar(topic, pa.string()), count)]
        columns += [pa.nulls(count, schema.field(name).type) for name in ("partition", "key")]
        columns.append(lines)
        columns += [pa.nulls(count, schema.field(name).type) for name in ("headers", "timestamp")]
        yield pa.RecordBatch.from_arrays(columns, schema=schema)


def _arrow_lines(data: bytes) -> Iterator[Any]:
    """Return the lines of a file in Arrow, without a Python object for each."""
    import pyarrow as pa
    import pyarrow.compute as pc

    place = 0
    while place < len(data):
        after = place + CHUNK
        # Up to the end of a line, without it; a last line may have none.
        stop = data.find(b"\n", after) if after < len(data) else len(data) - data.endswith(b"\n")
        stop = len(data) if stop < 0 else stop
        lines = pc.split_pattern(pa.array([data[place:stop]], pa.binary()), b"\n").flatten()
        if data.find(b"\r", place, stop) >= 0:
            lines = pa.array([each.rstrip(b"\r") for each in lines.to_pylist()], pa.binary())
        yield lines
        place = stop + 1


def _json_lines(path: str, begin: int, end: int) -> Rows:
    for line in _lines(path, begin, end):
        if line.strip():
            try:
                yield json.loads(line), None
            except ValueError as error:
                raise DataError(f"{path}: not JSON: {line[:100]!r}: {error}") from None


def _csv(path: str, begin: int, end: int) -> Rows:
    with open(path, "rb") as file:
        first = file.readline()
    header = next(csv.reader([first.decode("utf-8-sig")]))
    schema = s.struct({name: Schema(s.STRING, optional=True) for name in header})
    lines = _lines(path, begin, end)
    for row in csv.reader(each.decode() for each in (lines[1:] if begin == 0 else lines)):
        if row:
            yield dict(zip(header, row, strict=False)), schema


def parquet_groups(path: str) -> int:
    """Return how many row groups a file has; 0 while it is being written."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        return int(pq.ParquetFile(path).num_row_groups)
    except (pa.ArrowInvalid, OSError):
        return 0


def _parquet(path: str, begin: int, end: int) -> Rows:
    import pyarrow.parquet as pq

    file = pq.ParquetFile(path)
    schema = schema_of_arrow(file.schema_arrow)
    for batch in file.iter_batches(row_groups=list(range(begin, end))):
        for row in batch.to_pylist():
            yield row, schema


READERS: dict[str, Callable[[str, int, int], Rows]] = {
    "text": _text,
    "jsonl": _json_lines,
    "csv": _csv,
    "parquet": _parquet,
}


def schema_of_arrow(schema: Any) -> Schema | None:
    """Return the schema of Arrow columns; None if a type has no counterpart."""
    import pyarrow as pa

    kinds = (
        (pa.types.is_boolean, Schema(s.BOOLEAN, optional=True)),
        (pa.types.is_int8, Schema(s.INT8, optional=True)),
        (pa.types.is_int16, Schema(s.INT16, optional=True)),
        (pa.types.is_int32, Schema(s.INT32, optional=True)),
        (pa.types.is_integer, Schema(s.INT64, optional=True)),
        (pa.types.is_floating, Schema(s.FLOAT64, optional=True)),
        (pa.types.is_string, Schema(s.STRING, optional=True)),
        (pa.types.is_large_string, Schema(s.STRING, optional=True)),
        (pa.types.is_binary, Schema(s.BYTES, optional=True)),
        (pa.types.is_timestamp, s.timestamp_schema(optional=True)),
        (pa.types.is_date, s.date_schema(optional=True)),
    )
    fields = {}
    for field in schema:
        if pa.types.is_decimal(field.type):
            fields[field.name] = s.decimal(field.type.scale, optional=True)
            continue
        found = next((kind for check, kind in kinds if check(field.type)), None)
        if found is None:
            return None
        fields[field.name] = found
    return s.struct(fields)


# Writing.


def grouped(records: Iterator[Record], most: int, partition_by: str) -> Iterator[tuple[str, list[Record]]]:
    """Return the records of each file with its name; records come sorted by topic, partition and offset."""
    open_files: dict[str, list[Record]] = {}
    place: tuple[str, int | None] | None = None
    for record in records:
        if place != (record.origin, record.partition):
            yield from _named(open_files)
            open_files, place = {}, (record.origin, record.partition)
        folder = _folder(record, partition_by)
        group = open_files.setdefault(folder, [])
        group.append(record)
        if len(group) >= most:
            yield from _named({folder: open_files.pop(folder)})
    yield from _named(open_files)


def _named(files: dict[str, list[Record]]) -> Iterator[tuple[str, list[Record]]]:
    for folder, group in files.items():
        first = group[0]
        yield f"{folder}/{first.origin or first.topic}+{first.partition}+{first.offset:010d}", group


def _folder(record: Record, partition_by: str) -> str:
    if partition_by == "none" or record.timestamp_ms is None:
        return record.topic
    moment = from_epoch_ms(record.timestamp_ms).astimezone(UTC)
    day = f"{record.topic}/year={moment:%Y}/month={moment:%m}/day={moment:%d}"
    return day if partition_by == "day" else f"{day}/hour={moment:%H}"


def encode(kind: str, records: list[Record], refused: list[Refused]) -> bytes | None:
    """Return the content of a file; records that do not fit are refused. None if none is left."""
    if kind == "text":
        return b"".join(as_text(each.value).encode() + b"\n" for each in records if each.value is not None)
    if kind == "jsonl":
        return _encode_json(records, refused)
    rows: list[tuple[Record, dict[str, Any]]] = []
    for each in records:
        if each.value is None:
            refused.append(Refused(each, "a record without a value cannot be a row"))
        else:
            rows.append((each, each.value if isinstance(each.value, dict) else {"value": each.value}))
    if not rows:
        return None
    return _encode_csv(rows) if kind == "csv" else _encode_parquet(rows, refused)


def _encode_json(records: list[Record], refused: list[Refused]) -> bytes | None:
    lines = []
    for each in records:
        try:
            value = to_json(each.value_schema, each.value, decimals="NUMERIC")
            lines.append(json.dumps(value, separators=(",", ":"), ensure_ascii=False))
        except (TypeError, ValueError) as error:
            refused.append(Refused(each, f"not JSON: {error}"))
    return ("\n".join(lines) + "\n").encode() if lines else None


def _encode_csv(rows: list[tuple[Record, dict[str, Any]]]) -> bytes:
    names = dict.fromkeys(name for _, row in rows for name in row)
    file = io.StringIO()
    writer = csv.DictWriter(file, list(names), lineterminator="\n")
    writer.writeheader()
    for _, row in rows:
        writer.writerow({name: "" if value is None else as_text(value) for name, value in row.items()})
    return file.getvalue().encode()


def _encode_parquet(rows: list[tuple[Record, dict[str, Any]]], refused: list[Refused]) -> bytes | None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        table = pa.Table.from_pylist([row for _, row in rows])
    except (pa.ArrowInvalid, pa.ArrowTypeError):
        rows = list(_same_types(rows, refused))
        if not rows:
            return None
        table = pa.Table.from_pylist([row for _, row in rows])
    names = dict.fromkeys(name for _, row in rows for name in row)
    if list(names) != table.column_names:
        table = pa.Table.from_pylist([{name: row.get(name) for name in names} for _, row in rows])
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, compression="snappy")
    return bytes(sink.getvalue())


def _same_types(
    rows: list[tuple[Record, dict[str, Any]]], refused: list[Refused]
) -> Iterator[tuple[Record, dict[str, Any]]]:
    """Yield the rows whose fields have the types of the first row that has them."""
    types: dict[str, type] = {}
    for record, row in rows:
        odd = next(
            (
                name
                for name, value in row.items()
                if value is not None and types.setdefault(name, type(value)) is not type(value)
            ),
            None,
        )
        if odd is None:
            yield record, row
        else:
            refused.append(Refused(record, f"the field {odd} is {types[odd].__name__} in other records"))
