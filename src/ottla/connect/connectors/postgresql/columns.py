"""Rows for PostgreSQL in columns: what rows.py and the sink make of records one by one.

For JSON with schemas whose keys and values have one schema each, as those of change data capture. What needs
a closer look raises FastPathMiss: other schemas in between, unusual types, values that the log does not have.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from ottla.connect.connectors.postgresql.debezium import UNAVAILABLE
from ottla.connect.connectors.postgresql.rows import ENVELOPE
from ottla.connect.data import schema as s
from ottla.connect.data.json_codec import FastPathMiss
from ottla.connect.data.json_columns import arrow_type, decimals_of, octets_of, parsed, payloads
from ottla.connect.data.schema import Schema

if TYPE_CHECKING:
    from ottla.connect.converters.plain import JsonConverter

OF_COLUMN = ""
"""The type of the column that a value is for."""
_KEY_TYPES = (*s.INTEGERS, s.STRING)
_KEY_NAMES = (None, "io.debezium.data.Uuid")
"""Equal in Arrow if PostgreSQL finds them equal."""
_TYPES = {s.BOOLEAN: "boolean", s.FLOAT32: "double precision", s.FLOAT64: "double precision"}
_DATE, _TIME = "io.debezium.time.Date", "io.debezium.time.MicroTime"
_TIMESTAMP = "io.debezium.time.MicroTimestamp"
_YEARS_DAYS = (-719_162, 2_932_896)
"""The years 1 to 9999, in days since 1970."""
_DAY_US = 86_400_000_000


class Outcome(NamedTuple):
    """What the records of a partition change in a table: the newest row of each key."""

    key: list[str]
    schemas: Mapping[str, Schema]
    types: list[str]
    """Of the columns, for PostgreSQL."""
    upserts: Any
    """A table of Arrow."""
    deletes: Any
    """A table of Arrow with the keys to delete, before the upserts."""


def by_place(batches: Sequence[Any]) -> Iterator[tuple[str, int, Any]]:
    """Yield topic, partition and rows in their order."""
    import pyarrow as pa

    table = pa.Table.from_batches(batches)
    for topic, rows in _split(table, "topic"):
        for partition, group in _split(rows, "partition"):
            yield topic, partition, group


def _split(table: Any, name: str) -> Iterator[tuple[Any, Any]]:
    """Yield each value of a column with its rows; a value for all rows costs no copy of them."""
    import pyarrow.compute as pc

    found = table.column(name).unique().to_pylist()
    for each in found:
        yield each, table if len(found) == 1 else table.filter(pc.equal(table.column(name), each))


def outcome_of(
    topic: str, rows: Any, key: JsonConverter, value: JsonConverter, pk_fields: Sequence[str]
) -> Outcome:
    """Return the outcome of records; raise FastPathMiss."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    keys, values = rows.column("key"), rows.column("value")
    key_schema, key_table = _parsed(topic, key, keys)
    key_names = list(pk_fields) or [each.name for each in key_schema.fields]
    if any(name not in key_schema.field_map() for name in key_names):
        raise FastPathMiss
    _check_keys(key_schema, key_table, key_names)
    has_value = _whole(values.is_valid())
    schema, found, is_delete = _values(topic, value, values, has_value)
    columns = {
        each.name: _Column(each.schema, found.column(each.name)) for each in (schema.fields if schema else ())
    }
    for name in key_names:
        if schema is not None and name not in columns:
            column = key_table.column(name).filter(has_value)
            columns = {name: _Column(key_schema.field_map()[name], column), **columns}
    position = pa.array(np.arange(len(keys)))
    indexed = key_table.select(key_names).append_column("#", position)
    last = indexed.group_by(key_names).aggregate([("#", "max")]).column("#_max")
    kept = pc.is_in(position, _whole(last))
    deletes = indexed.select(key_names).filter(is_delete).group_by(key_names).aggregate([])
    upserts, types = pa.table({}), []
    if columns:
        is_upsert = pc.and_(kept, pc.invert(is_delete)).filter(has_value)
        made = {name: each.for_copy() for name, each in columns.items()}
        upserts = pa.table({name: column for name, (_, column) in made.items()}).filter(is_upsert)
        types = [kind for kind, _ in made.values()]
    schemas = {name: each.schema for name, each in columns.items()}
    return Outcome(key_names, schemas, types, upserts, deletes.select(key_names))


def _whole(column: Any) -> Any:
    found = column.combine_chunks()
    if hasattr(found, "num_chunks"):
        if found.num_chunks != 1:
            raise FastPathMiss
        found = found.chunk(0)
    return found


def _parsed(topic: str, converter: JsonConverter, data: Any) -> tuple[Schema, Any]:
    """Return the schema and the fields of JSON structs without nulls."""
    import pyarrow as pa

    if not len(data):
        raise FastPathMiss
    start, schema = _schema(topic, converter, data[0].as_py() or b"")
    return schema, parsed(_lines(data, start), _arrow_schema(pa, schema))


def _lines(data: Any, start: bytes) -> Any:
    """Return the payloads only: each value has its schema, too, which is most of it."""
    import pyarrow as pa

    return pa.concat_arrays([payloads(each, start) for each in data.chunks if len(each)])


def _schema(topic: str, converter: JsonConverter, data: bytes) -> tuple[bytes, Schema]:
    found = converter.schema_of(topic, data) if converter.settings["schemas.enable"] else None
    if found is None or found[1].type != s.STRUCT:
        raise FastPathMiss
    return found


def _arrow_schema(pa: Any, schema: Schema) -> Any:
    return pa.schema([(each.name, arrow_type(each.schema)) for each in schema.fields])


def _check_keys(schema: Schema, table: Any, names: Sequence[str]) -> None:
    for name in names:
        kind = schema.field_map()[name]
        if kind.type not in _KEY_TYPES or kind.name not in _KEY_NAMES or table.column(name).null_count:
            raise FastPathMiss


def _values(
    topic: str, converter: JsonConverter, values: Any, has_value: Any
) -> tuple[Schema | None, Any, Any]:
    """Return the schema of rows, the rows that there are, and which records delete theirs."""
    import pyarrow as pa
    import pyarrow.compute as pc

    data = values.filter(has_value) if values.null_count else values
    if not len(data):
        return None, None, pc.invert(has_value)
    start, schema = _schema(topic, converter, data[0].as_py())
    lines = _lines(data, start)
    if not schema.field_map().keys() >= ENVELOPE:
        return schema, parsed(lines, _arrow_schema(pa, schema)), pc.invert(has_value)
    row = schema.field_map()["after"]
    if row.type != s.STRUCT:
        raise FastPathMiss
    fields = pa.struct(list(_arrow_schema(pa, row)))
    table = parsed(lines, pa.schema([("op", pa.string()), ("after", fields)]))
    ops, after = _whole(table.column("op")), _whole(table.column("after"))
    is_deleted = pc.equal(ops, "d")
    if not pc.all(pc.is_in(ops, pa.array(["c", "u", "r", "d"]))).as_py():
        raise FastPathMiss
    if not pc.all(pc.or_(is_deleted, after.is_valid())).as_py():
        raise FastPathMiss
    is_delete = pc.fill_null(pc.replace_with_mask(pc.invert(has_value), has_value, is_deleted), True)
    return row, pa.table(dict(zip(row.field_map(), after.flatten(), strict=True))), is_delete


class _Column(NamedTuple):
    """The values of a column."""

    schema: Schema
    values: Any

    def for_copy(self) -> tuple[str, Any]:
        """Return the type for PostgreSQL, and what COPY writes."""
        import pyarrow as pa
        import pyarrow.compute as pc

        schema, values = self.schema, _whole(self.values) if hasattr(self.values, "chunks") else self.values
        if schema.name == s.DECIMAL_NAME:
            return "numeric", decimals_of(values, int(schema.parameters.get("scale", "0")))
        if schema.type == s.BYTES:
            texts = octets_of(values)
            _refuse_unavailable(texts, "\\x" + UNAVAILABLE.encode().hex())
            return "bytea", texts
        if schema.type == s.STRING:
            _refuse_unavailable(values, UNAVAILABLE)
            return OF_COLUMN, values
        if schema.name == _DATE:
            _check_range(values, *_YEARS_DAYS)
            return "date", values.cast(pa.int32()).cast(pa.date32())
        if schema.name == _TIMESTAMP:
            _check_range(values, _YEARS_DAYS[0] * _DAY_US, (_YEARS_DAYS[1] + 1) * _DAY_US - 1)
            return "timestamp", values.cast(pa.timestamp("us"))
        if schema.name == _TIME:
            _check_range(values, 0, _DAY_US - 1)
            return "time", values.cast(pa.time64("us")).cast(pa.string())
        if schema.type in s.FLOATS and not pc.all(pc.is_finite(values), min_count=0).as_py():
            raise FastPathMiss
        return _TYPES.get(schema.type, "bigint"), values


def _refuse_unavailable(texts: Any, placeholder: str) -> None:
    import pyarrow.compute as pc

    if pc.any(pc.equal(texts, placeholder)).as_py():
        raise FastPathMiss


def _check_range(values: Any, low: int, high: int) -> None:
    import pyarrow.compute as pc

    found = pc.min_max(values).as_py()
    if found["min"] is not None and not low <= found["min"] <= found["max"] <= high:
        raise FastPathMiss


def csv_of(table: Any) -> bytes:
    """Return rows as PostgreSQL's COPY reads them in CSV: texts are quoted, nulls are not."""
    import pyarrow.csv as csv

    sink = io.BytesIO()
    csv.write_csv(table, sink, csv.WriteOptions(include_header=False))
    return sink.getvalue()
