"""Debezium's events for PostgreSQL: schemas and values of rows, the envelope, keys and tombstones."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from functools import cache
from typing import Any

from ottla import __version__
from ottla.connect.connectors.postgresql.pgoutput import UNCHANGED, Change, Column, Relation
from ottla.connect.data import schema as s
from ottla.connect.data.json_codec import Constant
from ottla.connect.data.json_form import unscaled
from ottla.connect.data.record import Record
from ottla.connect.data.schema import Schema
from ottla.connect.errors import DataError

log = logging.getLogger(__name__)

UNAVAILABLE = "__debezium_unavailable_value"
"""Stands for a large value that an update has not changed, because it is not in the log."""
SNAPSHOT, STREAM = "true", "false"
WARN, SKIP, FAIL = FAILURE_MODES = ("warn", "skip", "fail")
"""What happens to a value that its column's schema does not have."""
_TEXT = Schema(s.STRING, optional=True)
_LONG = Schema(s.INT64, optional=True)
VARIABLE = s.struct(
    {"scale": Schema(s.INT32), "value": Schema(s.BYTES)},
    "io.debezium.data.VariableScaleDecimal",
    optional=True,
)
SOURCE = s.struct(
    {
        "version": Schema(s.STRING),
        "connector": Schema(s.STRING),
        "name": Schema(s.STRING),
        "ts_ms": Schema(s.INT64),
        "snapshot": _TEXT,
        "db": Schema(s.STRING),
        "sequence": _TEXT,
        "ts_us": _LONG,
        "ts_ns": _LONG,
        "schema": Schema(s.STRING),
        "table": Schema(s.STRING),
        "txId": _LONG,
        "lsn": _LONG,
        "xmin": _LONG,
    },
    "io.debezium.connector.postgresql.Source",
)
_BY_OID = {
    16: Schema(s.BOOLEAN, optional=True),
    17: Schema(s.BYTES, optional=True),
    20: Schema(s.INT64, optional=True),
    21: Schema(s.INT16, optional=True),
    23: Schema(s.INT32, optional=True),
    26: Schema(s.INT64, optional=True),
    700: Schema(s.FLOAT32, optional=True),
    701: Schema(s.FLOAT64, optional=True),
    114: Schema(s.STRING, True, "io.debezium.data.Json", 1),
    3802: Schema(s.STRING, True, "io.debezium.data.Json", 1),
    1082: Schema(s.INT32, True, "io.debezium.time.Date", 1),
    1083: Schema(s.INT64, True, "io.debezium.time.MicroTime", 1),
    1114: Schema(s.INT64, True, "io.debezium.time.MicroTimestamp", 1),
    1184: Schema(s.STRING, True, "io.debezium.time.ZonedTimestamp", 1),
    2950: Schema(s.STRING, True, "io.debezium.data.Uuid", 1),
}
NUMERIC = 1700
DATE, TIME, TIMESTAMP, TIMESTAMPTZ = 1082, 1083, 1114, 1184
INFINITIES: dict[str, dict[int, Any]] = {
    "infinity": {DATE: 2**31 - 1, TIMESTAMP: 9_223_372_036_825_200_000, TIMESTAMPTZ: "infinity"},
    "-infinity": {DATE: -(2**31), TIMESTAMP: -9_223_372_036_832_400_000, TIMESTAMPTZ: "-infinity"},
}
"""Times without end: those of PostgreSQL for dates, of its JDBC driver for timestamps."""
CYCLE_YEARS, CYCLE_DAYS = 400, 146_097
"""After which the calendar is the same again."""
DAY_US = 86_400_000_000
EPOCH_2000_MS = 946_684_800_000


@cache
def column_schema(oid: int, modifier: int, decimals: str) -> Schema:
    """Return the schema of a column."""
    if oid != NUMERIC:
        return _BY_OID.get(oid, _TEXT)
    if decimals == "string":
        return _TEXT
    if decimals == "double":
        return Schema(s.FLOAT64, optional=True)
    return VARIABLE if modifier < 0 else s.decimal((modifier - 4) & 0xFFFF, optional=True)


def column_value(oid: int, schema: Schema, value: Any) -> Any:
    """Return a value from PostgreSQL's text, or from psycopg's object."""
    if value is None:
        return None
    if value is UNCHANGED:
        return unavailable(schema)
    if isinstance(value, str):
        convert = text_converter(oid, schema)
        return value if convert is None else convert(value)
    return _from_object(schema, value)


def unavailable(schema: Schema) -> str | bytes | None:
    """Return what stands for a value that is not in the log; None if the type has nothing for it."""
    if schema.type == s.BYTES and schema.name is None:
        return UNAVAILABLE.encode()
    return UNAVAILABLE if schema.type == s.STRING else None


def text_converter(oid: int, schema: Schema) -> Callable[[str], Any] | None:
    """Return what makes a value of PostgreSQL's text; None if the text is the value."""
    if schema.type == s.BOOLEAN:
        return lambda text: text.startswith("t")  # t, or true if it was cast to text
    if oid == NUMERIC:
        return _decimal if schema.type == s.BYTES else lambda text: _number(schema, Decimal(text))
    if oid == 17:
        return lambda text: bytes.fromhex(text.removeprefix("\\x"))
    if oid in (DATE, TIME, TIMESTAMP, TIMESTAMPTZ):
        return lambda text: _time(oid, text)
    if schema.type in s.INTEGERS:
        return int
    return float if schema.type in s.FLOATS else None


def _decimal(text: str) -> Decimal:
    value = Decimal(text)
    if not value.is_finite():
        raise ValueError(f"{text} is not a decimal number; set decimal.handling.mode to string or double")
    return value


_EPOCH, _MICROSECOND = datetime(1970, 1, 1), timedelta(microseconds=1)


def _time(oid: int, text: str) -> Any:
    try:
        return _near_time(oid, text)
    except ValueError:
        return _far_time(oid, text)


def _near_time(oid: int, text: str) -> Any:
    if oid == DATE:
        return (date.fromisoformat(text) - date(1970, 1, 1)).days
    if oid == TIME:
        return _of_day(time.fromisoformat(text))
    moment = datetime.fromisoformat(text)
    if oid == TIMESTAMP:
        return (moment - _EPOCH) // _MICROSECOND
    return zoned(moment)


def _far_time(oid: int, text: str) -> Any:
    """Return a time that Python has not: infinity, a year before 1 or after 9999, or the end of a day."""
    if oid == TIME and text == "24:00:00":
        return DAY_US
    if text in INFINITIES:
        return INFINITIES[text][oid]
    years, _, rest = text.removesuffix(" BC").partition("-")
    year = 1 - int(years) if text.endswith(" BC") else int(years)
    cycles = (year - 2000) // CYCLE_YEARS
    found = _near_time(oid, f"{year - cycles * CYCLE_YEARS}-{rest}")
    if oid == TIMESTAMPTZ:
        year = int(found[:4]) + cycles * CYCLE_YEARS
        sign = "-" if year < 0 else "+" if year > 9999 else ""
        return f"{sign}{abs(year):04}{found[4:]}"
    return found + cycles * CYCLE_DAYS * (1 if oid == DATE else DAY_US)


def _from_object(schema: Schema, value: Any) -> Any:
    if isinstance(value, Decimal):
        return _number(schema, value)
    if isinstance(value, datetime):
        if schema.type == s.STRING:
            return zoned(value)
        return (value - datetime(1970, 1, 1)) // timedelta(microseconds=1)
    if isinstance(value, date):
        return (value - date(1970, 1, 1)).days
    if isinstance(value, time):
        return _of_day(value)
    if isinstance(value, memoryview | bytearray):
        return bytes(value)
    return value if schema.type != s.STRING else str(value)


def _of_day(value: time) -> int:
    seconds = (value.hour * 60 + value.minute) * 60 + value.second
    return seconds * 1_000_000 + value.microsecond


def zoned(moment: datetime) -> str:
    """Return a moment in UTC as Debezium writes it."""
    text = moment.astimezone(UTC).isoformat(timespec="microseconds").removesuffix("+00:00")
    return f"{text}Z"


def _number(schema: Schema, value: Decimal) -> Any:
    if schema.type == s.STRING:
        return str(value)
    if schema.type == s.FLOAT64:
        return float(value)
    if schema.type == s.STRUCT:
        exponent = _decimal(str(value)).as_tuple().exponent
        scale = -exponent if isinstance(exponent, int) else 0
        return {"scale": scale, "value": unscaled(value, scale)}
    return value


@dataclass(frozen=True)
class Position:
    """Where in the log a change is."""

    lsn: int
    xid: int
    commit_ms: int


class Table:
    """The schemas of a table's records, and what makes values of its columns."""

    def __init__(self, relation: Relation, topic: str, decimals: str, failures: str = WARN) -> None:
        self.relation, self.topic, self.failures = relation, topic, failures
        self._warned: set[str] = set()
        self.source: tuple[Position, Constant] | None = None
        columns = {each.name: column_schema(each.oid, each.modifier, decimals) for each in relation.columns}
        self.columns = [
            (each.name, each.oid, columns[each.name], text_converter(each.oid, columns[each.name]))
            for each in relation.columns
        ]
        self.keys = [each.name for each in relation.columns if each.is_key]
        row = s.struct(columns, f"{topic}.Value", optional=True)
        key = {name: replace(columns[name], optional=False) for name in self.keys}
        self.key_schema = s.struct(key, f"{topic}.Key") if key else None
        self.envelope = s.struct(
            {
                "before": row,
                "after": row,
                "source": SOURCE,
                "op": Schema(s.STRING),
                "ts_ms": _LONG,
                "ts_us": _LONG,
                "ts_ns": _LONG,
            },
            f"{topic}.Envelope",
        )

    def row(self, values: dict[str, Any] | None) -> dict[str, Any] | None:
        """Return a row by Debezium's types."""
        if values is None:
            return None
        get, found = values.get, {}
        for name, oid, schema, convert in self.columns:
            value = get(name)
            try:
                if type(value) is str:
                    found[name] = value if convert is None else convert(value)
                else:
                    found[name] = None if value is None else column_value(oid, schema, value)
            except (ValueError, ArithmeticError) as error:
                self._note_unconverted(name, error)
                found[name] = None
        return found

    def _note_unconverted(self, name: str, error: Exception) -> None:
        """Leave a value out that the column's schema does not have, as Debezium does; or refuse it."""
        where = f"{self.relation.schema}.{self.relation.table}.{name}"
        if self.failures == FAIL:
            raise DataError(f"{where}: {error}") from None
        if self.failures == WARN and name not in self._warned:
            self._warned.add(name)
            log.warning("%s: a value is written as null, and so are others like it: %s", where, error)

    def key(self, row: dict[str, Any] | None) -> dict[str, Any] | None:
        """Return the key of a row."""
        return {name: row[name] for name in self.keys} if self.keys and row is not None else None


class Events:
    """Makes records of changes."""

    def __init__(
        self, prefix: str, database: str, *, decimals: str, tombstones: bool, failures: str = WARN
    ) -> None:
        self.prefix, self.database = prefix, database
        self.decimals, self.tombstones, self.failures = decimals, tombstones, failures
        self._tables: dict[int, Table] = {}

    def table(self, relation: Relation) -> Table:
        """Return what is known of a relation: of this object, because each is a table at another time."""
        found = self._tables.get(id(relation))
        if found is None or found.relation is not relation:
            topic = f"{self.prefix}.{relation.schema}.{relation.table}"
            found = self._tables[id(relation)] = Table(relation, topic, self.decimals, self.failures)
        return found

    def records(self, change: Change, at: Position, snapshot: str = STREAM) -> list[Record]:
        """Return the records of a change: a delete is followed by a tombstone."""
        if change.op == "t":
            return []
        table = self.table(change.relation)
        before, after = table.row(change.before), table.row(change.after)
        old_key, new_key = table.key(before), table.key(after)
        if change.op == "u" and before is not None and old_key != new_key:
            return [
                *self._event(table, "d", before, None, old_key, at, snapshot),
                *self._event(table, "c", None, after, new_key, at, snapshot),
            ]
        shown = before if change.is_whole or change.op == "d" else None
        key = old_key if after is None else new_key
        return self._event(table, change.op, shown, after, key, at, snapshot)

    def source(self, table: Table, at: Position, snapshot: str) -> Constant:
        """Return where a change comes from: one object for all changes of a table in a transaction."""
        kept = table.source
        if kept is not None and kept[0] is at:
            return kept[1]
        found = Constant(
            version=__version__,
            connector="postgresql",
            name=self.prefix,
            ts_ms=at.commit_ms,
            snapshot=snapshot,
            db=self.database,
            sequence=f'[null,"{at.lsn}"]',
            ts_us=at.commit_ms * 1000,
            ts_ns=at.commit_ms * 1_000_000,
            schema=table.relation.schema,
            table=table.relation.table,
            txId=at.xid,
            lsn=at.lsn,
            xmin=None,
        )
        table.source = at, found
        return found

    def _event(
        self,
        table: Table,
        op: str,
        before: dict[str, Any] | None,
        after: dict[str, Any] | None,
        key: dict[str, Any] | None,
        at: Position,
        snapshot: str,
    ) -> list[Record]:
        now_ms = at.commit_ms
        value = {
            "before": before,
            "after": after,
            "source": self.source(table, at, snapshot),
            "op": op,
            "ts_ms": now_ms,
            "ts_us": now_ms * 1000,
            "ts_ns": now_ms * 1_000_000,
        }
        topic, key_schema = table.topic, table.key_schema
        found = [Record(topic, value, table.envelope, key, key_schema, timestamp_ms=now_ms)]
        if op == "d" and self.tombstones and key is not None:
            found.append(Record(topic, None, None, key, key_schema, timestamp_ms=now_ms))
        return found


def relation_of(schema: str, table: str, columns: Sequence[tuple[str, int, int, bool]]) -> Relation:
    """Return a relation as the catalogue describes it."""
    return Relation(0, schema, table, tuple(Column(*each) for each in columns))
