"""What the connectors for PostgreSQL share: keys, connections, names, and types."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from ottla.connect.config.keys import HIGH, INT, LOW, PASSWORD, ConfigKey
from ottla.connect.data import schema as s
from ottla.connect.data.schema import Schema
from ottla.connect.errors import ConnectError, RetriableError

CONNECTION_KEYS = (
    ConfigKey(
        "connection.url", doc="postgresql://HOST:PORT/DATABASE; the prefix jdbc: is allowed.", importance=HIGH
    ),
    ConfigKey("connection.user", default="", doc="The user, if it is not in the URL.", importance=HIGH),
    ConfigKey("connection.password", PASSWORD, "", "The password.", HIGH),
    ConfigKey("connection.timeout.s", INT, 10, "Timeout for a connection.", LOW),
)


def dsn_of(config: Mapping[str, Any]) -> str:
    """Return the address that psycopg takes."""
    from psycopg.conninfo import make_conninfo

    url = str(config["connection.url"]).removeprefix("jdbc:")
    more = {
        "user": config.get("connection.user"),
        "password": config.get("connection.password"),
        "connect_timeout": str(config.get("connection.timeout.s") or 10),
        "application_name": "ottla-connect",
    }
    return make_conninfo(url, **{key: value for key, value in more.items() if value})


FORMS = {
    "client_encoding": "UTF8",
    "TimeZone": "UTC",
    "DateStyle": "ISO",
    "IntervalStyle": "postgres",
    "extra_float_digits": "1",
    "bytea_output": "hex",
}
"""What the texts of values depend on: servers, databases and users may have other defaults."""
SET_FORMS = "SELECT " + ", ".join(f"set_config('{name}', '{each}', false)" for name, each in FORMS.items())


def connect(dsn: str, *, autocommit: bool = False) -> Any:
    """Connect; raise RetriableError if PostgreSQL cannot be reached now."""
    import psycopg

    try:
        connection = psycopg.connect(dsn, autocommit=autocommit)
        connection.execute(SET_FORMS)
        if not autocommit:
            connection.commit()
    except psycopg.OperationalError as error:
        text = str(error).strip().splitlines()[0]
        if "password" in text or "does not exist" in text:
            raise ConnectError(f"PostgreSQL refuses the connection: {text}") from None
        raise RetriableError(f"cannot connect to PostgreSQL: {text}") from None
    return connection


_kept: dict[tuple[int, str], Any] = {}
"""Idle connections of this process."""


@contextmanager
def kept_connection(dsn: str) -> Iterator[Any]:
    """Lend this process's connection: a new one costs PostgreSQL more than a small batch of rows.

    It is kept if the work succeeds, and nothing of it is left to commit. One that PostgreSQL has ended in the
    meantime is replaced by a new one before the work begins.
    """
    key = (os.getpid(), dsn)
    connection = _kept.pop(key, None)
    if connection is None or not _answers(connection):
        connection = connect(dsn)
    try:
        yield connection
        connection.commit()
    except BaseException:
        connection.close()
        raise
    if (other := _kept.pop(key, None)) is not None:
        other.close()
    _kept[key] = connection


def _answers(connection: Any) -> bool:
    import psycopg

    try:
        connection.execute("SELECT 1")
        connection.rollback()  # psycopg forgets what it has prepared: tables may have changed since
    except psycopg.Error:
        connection.close()
        return False
    return True


def check_connection(config: Mapping[str, Any]) -> dict[str, str]:
    """Return what is wrong with the connection, by key: for validation."""
    try:
        with connect(dsn_of(config)):
            return {}
    except (ConnectError, ValueError) as error:
        return {"connection.url": str(error)}
    except Exception as error:
        return {"connection.url": f"not an address of PostgreSQL: {error}"}


def quoted(name: str) -> str:
    """Return a name in quotes."""
    return '"' + name.replace('"', '""') + '"'


def table_name(name: str) -> str:
    """Return schema.table in quotes."""
    return ".".join(quoted(part) for part in name.split("."))


def full_name(name: str) -> str:
    """Return a table's name with its schema."""
    return name if "." in name else f"public.{name}"


_BY_OID = {
    16: Schema(s.BOOLEAN, optional=True),
    17: Schema(s.BYTES, optional=True),
    20: Schema(s.INT64, optional=True),
    21: Schema(s.INT16, optional=True),
    23: Schema(s.INT32, optional=True),
    26: Schema(s.INT64, optional=True),
    700: Schema(s.FLOAT32, optional=True),
    701: Schema(s.FLOAT64, optional=True),
    1082: s.date_schema(optional=True),
    1083: s.time_schema(optional=True),
    1114: s.timestamp_schema(optional=True),
    1184: s.timestamp_schema(optional=True),
}
NUMERIC = 1700


def schema_of_column(oid: int, scale: int | None) -> Schema:
    """Return the schema of a column; types without a counterpart are texts."""
    if oid == NUMERIC:
        return s.decimal(scale, optional=True) if scale is not None else Schema(s.STRING, optional=True)
    return _BY_OID.get(oid, Schema(s.STRING, optional=True))


def schema_of_rows(description: Sequence[Any], name: str) -> Schema:
    """Return the schema of a query's rows."""
    fields = {each.name: schema_of_column(each.type_code, each.scale) for each in description}
    return s.struct(fields, name)


def value_of(schema: Schema, value: Any) -> Any:
    """Return a value of psycopg as its schema has it."""
    if value is None:
        return None
    if schema.type == s.STRING and not isinstance(value, str):
        import json

        return json.dumps(value, default=str) if isinstance(value, dict | list) else str(value)
    if schema.type == s.BYTES and isinstance(value, memoryview):
        return bytes(value)
    return value


def primary_key(connection: Any, table: str) -> list[str]:
    """Return the columns of a table's primary key, in their order."""
    rows = connection.execute(
        "SELECT a.attname FROM pg_index i JOIN pg_attribute a ON a.attrelid = i.indrelid "
        "AND a.attnum = ANY(i.indkey) WHERE i.indrelid = to_regclass(%s) AND i.indisprimary "
        "ORDER BY array_position(i.indkey::int2[], a.attnum)",
        (table_name(table),),
    ).fetchall()
    return [row[0] for row in rows]


def tables_like(connection: Any, patterns: Sequence[str]) -> list[str]:
    """Return the tables (schema.name) that some patterns match; no patterns: all tables.

    Partitions are left out if a table is there that they belong to.
    """
    import re

    rows = connection.execute(
        "SELECT n.nspname || '.' || c.relname, c.relname, ARRAY("
        "SELECT s.nspname || '.' || p.relname FROM pg_partition_ancestors(c.oid) a "
        "JOIN pg_class p ON p.oid = a.relid JOIN pg_namespace s ON s.oid = p.relnamespace "
        "WHERE p.oid <> c.oid) "
        "FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace "
        "WHERE c.relkind IN ('r', 'p') AND c.relpersistence <> 't' "
        "AND n.nspname NOT IN ('pg_catalog', 'information_schema') ORDER BY n.nspname, c.relname"
    ).fetchall()
    wanted = [re.compile(full_name(each) if "\\" not in each else each) for each in patterns]
    found = {
        name: ancestors
        for name, table, ancestors in rows
        if table not in OWN_TABLES and (not wanted or any(one.fullmatch(name) for one in wanted))
    }
    return [name for name, ancestors in found.items() if not found.keys() & set(ancestors)]


def partitioned(connection: Any, tables: Sequence[str]) -> list[str]:
    """Return which tables have partitions."""
    rows = connection.execute(
        "SELECT name FROM unnest(%s::text[], %s::text[]) AS t (name, quoted) "
        "JOIN pg_class c ON c.oid = quoted::regclass WHERE c.relkind = 'p' ORDER BY 1",
        (list(tables), [table_name(each) for each in tables]),
    ).fetchall()
    return [row[0] for row in rows]


OWN_TABLES = ("ottla_batches", "ottla_connect_offsets")
