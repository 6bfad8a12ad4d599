"""Debezium's events of many rows at once, as JSON: what debezium.py and the JSON converter do row by row.

Inserts and updates without the old row are encoded in columns. Everything else comes as records in between,
and so do rows with a value that has no fast way here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ottla.connect.connectors.postgresql.debezium import (
    DATE,
    EPOCH_2000_MS,
    STREAM,
    TIMESTAMP,
    Events,
    Position,
    Table,
    unavailable,
)
from ottla.connect.connectors.postgresql.pgoutput import (
    INSERT,
    RELATION,
    Begin,
    Change,
    Decoder,
    Relation,
    Texts,
    is_new_row,
    relation_id,
    texts_of,
)
from ottla.connect.connectors.postgresql.stream import is_visible
from ottla.connect.data import schema as s
from ottla.connect.data.json_codec import Encode, FastPathMiss, encoder_of
from ottla.connect.data.json_columns import joined, json_texts, objects

if TYPE_CHECKING:
    from ottla.connect.converters.plain import JsonConverter
    from ottla.connect.data.schema import Schema

MIN_ROWS = 16
"""Fewer rows are encoded one by one: Arrow's calls cost as much for one row as for many."""
MAX_ROWS = 20_000
_CHANGES = (b"I", b"U", b"D")


class ColumnEncoder:
    """Encodes rows of tables in columns."""

    def __init__(self, key: JsonConverter, value: JsonConverter) -> None:
        self._key, self._value = key, value
        self._sources: dict[int, tuple[Schema, Encode]] = {}

    def rows(
        self, table: Table, texts: list[Any], ops: Any, sources: list[str], ends: list[str], which: Any
    ) -> Any:
        """Return an Arrow batch of records; `which` says of each row which source and end it has."""
        import pyarrow as pa

        try:
            return self._rows(table, texts, ops, (sources, ends), which)
        except (FastPathMiss, ValueError, ArithmeticError, pa.ArrowInvalid, pa.ArrowNotImplementedError):
            return None

    def _rows(
        self, table: Table, texts: list[Texts], ops: Any, ends: tuple[list[str], list[str]], which: Any
    ) -> Any:
        import pyarrow as pa

        decimals: str = self._value.settings["decimal.format"].upper()
        names = [each[0] for each in table.columns]
        found = {
            name: column_json(each, oid, schema, convert, decimals)
            for each, (name, oid, schema, convert) in zip(texts, table.columns, strict=True)
        }
        sources, tails = (pa.array(each).take(which) for each in ends)
        start, end = self._value.around(table.envelope)
        value = joined(
            [
                f'{start}{{"before":null,"after":',
                *objects(names, [found[each] for each in names]),
                ',"source":',
                sources,
                ',"op":"',
                ops,
                tails,
                end,
            ]
        )
        key = pa.nulls(len(value), pa.binary())
        if table.key_schema is not None:
            start, end = self._key.around(table.key_schema)
            if self._key.settings["decimal.format"].upper() != decimals:
                raise FastPathMiss
            if any(found[each].null_count for each in table.keys):
                raise FastPathMiss
            key = joined([start, *objects(table.keys, [found[each] for each in table.keys]), end])
        return key, value

    def source_text(self, table: Table, source: Any) -> str:
        """Return the JSON of where changes come from."""
        schema = table.envelope.field_map()["source"]
        kept = self._sources.get(id(schema))
        if kept is None or kept[0] is not schema:
            decimals = self._value.settings["decimal.format"].upper()
            kept = self._sources[id(schema)] = (schema, encoder_of(schema, decimals))
        return kept[1](source)


def column_json(
    texts: Texts, oid: int, schema: Schema, convert: Callable[[str], Any] | None, decimals: str
) -> Any:
    """Return a column of PostgreSQL's texts as JSON texts."""
    import pyarrow as pa
    import pyarrow.compute as pc

    try:
        found = _fast_json(texts.column, oid, schema, convert, decimals)
    except pa.ArrowInvalid:  # infinity, and years that Arrow does not know
        found = json_texts(texts.column, schema, convert, decimals=decimals)
    if texts.is_same is not None and (missing := unavailable(schema)) is not None:
        found = pc.if_else(texts.is_same, encoder_of(schema, decimals)(missing), found)
    return found


def _fast_json(
    column: Any, oid: int, schema: Schema, convert: Callable[[str], Any] | None, decimals: str
) -> Any:
    import pyarrow as pa
    import pyarrow.compute as pc

    if schema.type in s.INTEGERS and convert is int:
        return column
    if schema.type == s.BOOLEAN:
        return pc.if_else(pc.starts_with(column, "t"), "true", "false")
    if oid == TIMESTAMP:
        return column.cast(pa.timestamp("us")).cast(pa.int64()).cast(pa.string())
    if oid == DATE:
        return column.cast(pa.date32()).cast(pa.int32()).cast(pa.string())
    return json_texts(column, schema, convert, decimals=decimals)


class PendingRows:
    """New rows of a table that follow each other, not encoded yet."""

    def __init__(self, table: Table, relation: Relation) -> None:
        self.table, self.relation = table, relation
        self.messages: list[bytes] = []
        self.which: list[int] = []
        self.positions: list[Position] = []

    def add(self, data: bytes, at: Position) -> None:
        """Add the message of a row."""
        if not self.positions or self.positions[-1] is not at:
            self.positions.append(at)
        self.messages.append(data)
        self.which.append(len(self.positions) - 1)

    def batch(self, encoder: ColumnEncoder, source_of: Callable[[Table, Position, str], Any]) -> Any:
        """Return the rows as an Arrow batch; None if they are to be encoded one by one."""
        import pyarrow as pa

        if len(self.messages) < MIN_ROWS:
            return None
        texts = texts_of(self.messages, len(self.relation.columns))
        if texts is None:
            return None
        table, which = self.table, pa.array(self.which, pa.int32())
        ops = pa.array(["c" if each[0] == INSERT else "u" for each in self.messages])
        sources = [encoder.source_text(table, source_of(table, each, STREAM)) for each in self.positions]
        made = encoder.rows(
            table, texts, ops, sources, [tail_of(each.commit_ms) for each in self.positions], which
        )
        if made is None:
            return None
        times = pa.array([each.commit_ms * 1000 for each in self.positions], pa.int64()).take(which)
        keys, values = made
        return record_batch(table.topic, keys, values, times)


def tail_of(now_ms: int) -> str:
    """Return the end of an event."""
    return f'","ts_ms":{now_ms},"ts_us":{now_ms * 1000},"ts_ns":{now_ms * 1_000_000}}}'


def record_batch(topic: str, key: Any, value: Any, times_us: Any) -> Any:
    """Return an Arrow batch for the sink of topics."""
    import pyarrow as pa

    from ottla.connect.engine.source_stream import arrow_schema

    schema, count = arrow_schema(), len(value)
    headers = schema.field("headers").type
    columns = [
        pa.DictionaryArray.from_arrays(pa.array([0] * count, pa.int8()), pa.array([topic])).cast(pa.string()),
        pa.nulls(count, pa.int32()),
        key,
        value,
        pa.ListArray.from_arrays(pa.array([0] * (count + 1), pa.int32()), pa.array([], headers.value_type)),
        times_us.cast(pa.timestamp("us", tz="UTC")),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


class LogColumns:
    """Reads messages of the log: new rows in Arrow batches, everything else in records."""

    def __init__(self, events: Events, encoder: ColumnEncoder, is_wanted: Callable[[str, str], bool]) -> None:
        self._events, self._encoder, self._is_wanted = events, encoder, is_wanted
        self._pending: dict[int, PendingRows] = {}

    def read(
        self, rows: Sequence[tuple[int, int, bytes]], xids: str | None, keys: Mapping[bytes, Sequence[str]]
    ) -> Iterator[Any]:
        """Yield batches and records; those of a table are in their order."""
        decoder = Decoder(keys)
        at, skips = Position(0, 0, 0), False
        for lsn, _, data in rows:
            if not is_new_row(data):
                if data[:1] in _CHANGES and not skips:
                    yield from self._flush(decoder, decoder.relation(data).id)
                elif data[:1] == RELATION:
                    yield from self._flush(decoder, relation_id(data))
                elif data[:1] == b"T":
                    yield from self._flush_all(decoder)
                for message in decoder.decode(data):
                    if isinstance(message, Begin):
                        at = Position(lsn, message.xid, message.commit_us // 1000 + EPOCH_2000_MS)
                        skips = xids is not None and is_visible(xids, message.xid)
                    elif isinstance(message, Change) and not skips and self._wants(message.relation):
                        yield from self._events.records(message, at)
            elif not skips and self._wants(relation := decoder.relation(data)):
                pending = self._pending.get(relation.id)
                if pending is None:
                    pending = PendingRows(self._events.table(relation), relation)
                    self._pending[relation.id] = pending
                pending.add(data, at)
                if len(pending.messages) >= MAX_ROWS:
                    yield from self._flush(decoder, relation.id)
        yield from self._flush_all(decoder)

    def _wants(self, relation: Relation) -> bool:
        return self._is_wanted(relation.schema, relation.table)

    def _flush_all(self, decoder: Decoder) -> Iterator[Any]:
        for number in list(self._pending):
            yield from self._flush(decoder, number)

    def _flush(self, decoder: Decoder, number: int) -> Iterator[Any]:
        pending = self._pending.pop(number, None)
        if pending is None:
            return
        batch = pending.batch(self._encoder, self._events.source)
        if batch is not None:
            yield batch
            return
        for data, place in zip(pending.messages, pending.which, strict=True):
            for change in decoder.decode(data):
                yield from self._events.records(change, pending.positions[place])  # type: ignore[arg-type]
