"""Write batches to PostgreSQL idempotently.

How batch b of query q is written:

    driver     if ottla_batches says that q has completed b: return
    each task  one transaction: lock q's row in ottla_batches (shared), return if q has completed b meanwhile;
               COPY the rows into a temporary table; upsert from there by key, the last row of a key wins
    driver     ottla_batches: q has completed b

A task may be retried, and a driver may die between any two steps: the upserts are repeated with the same
result. The plan of the batch (batch_plans.py) is stored with it: another batch with its number is refused.
Partition numbers are not stable: after a restart with other settings a partition contains other rows,
so nothing is stored by partition. Rows for a table without a key are only appended: then one task writes all
rows of the batch and the entry in ottla_batches in one transaction.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

from ottla.spark.errors import StaleCheckpoint
from ottla.spark.pipelines.problems import PipelineProblem

GUARD = "ottla_batches"
ENVIRONMENT = {
    "PGHOST": "host",
    "PGPORT": "port",
    "PGUSER": "user",
    "PGPASSWORD": "password",
    "PGDATABASE": "dbname",
    "PGSSLMODE": "sslmode",
}
OPTIONS = ("table", "key", "dsn", "sequence_by", "deleted", "create")


@dataclass(frozen=True)
class Target:
    """A PostgreSQL table that a query writes to."""

    table: str
    dsn: str = ""
    key: tuple[str, ...] = ()
    sequence_by: str = ""
    """Of several rows of a key in one batch, the one with the highest value of this column wins."""
    deleted: str = ""
    """A boolean column: true deletes the row of that key. It is not stored."""

    @classmethod
    def of(cls, options: Mapping[str, str]) -> Target:
        """Read the options of a sink of format `postgres`."""
        if unknown := sorted(set(options) - set(OPTIONS)):
            raise PipelineProblem(
                f"unknown option {unknown[0]!r} of the format postgres",
                f"the options are: {', '.join(OPTIONS)}",
            )
        if not options.get("table"):
            raise PipelineProblem("a sink of format postgres needs the option table")
        key = tuple(part.strip() for part in options.get("key", "").split(",") if part.strip())
        if not key and (options.get("deleted") or options.get("sequence_by")):
            raise PipelineProblem("deleted and sequence_by need the option key")
        return cls(
            options["table"],
            options.get("dsn", ""),
            key,
            options.get("sequence_by", ""),
            options.get("deleted", ""),
        )


def write_batch(rows: Any, target: Target, query: str, batch: int, plan: str | None = None) -> int:
    """Write one batch of a query (in `foreachBatch`); return the rows written: 0 if it was completed
    before. Raise StaleCheckpoint if another batch with its number was, or a later one.
    """
    target = replace(target, dsn=full_dsn(target.dsn))
    with connect(target.dsn) as connection:
        prepare(connection)
        if _is_done(connection, query, batch, plan):
            return 0
    schema = rows.schema
    rows = rows.repartition(*target.key) if target.key else rows.coalesce(1)
    writer = _PartitionWriter(target, query, batch, plan, schema.fieldNames())

    def write(batches: Iterator[Any]) -> Iterator[Any]:
        return writer.write(batches)

    counts = rows.mapInArrow(write, "rows long")
    written: int = sum(row["rows"] for row in counts.collect())
    if target.key:
        with connect(target.dsn) as connection:
            mark_done(connection, query, batch, plan)
    return written


def connect(dsn: str) -> Any:
    """Connect to PostgreSQL; without a DSN, by the variables of libpq (PGHOST, PGDATABASE, ...)."""
    try:
        import psycopg
    except ImportError:
        raise PipelineProblem(
            "PostgreSQL needs the package psycopg", "pip install 'ottla[postgres]'"
        ) from None
    try:
        return psycopg.connect(dsn)
    except psycopg.OperationalError as error:
        raise PipelineProblem(
            f"cannot connect to PostgreSQL: {str(error).strip().splitlines()[0]}",
            "set its address: postgresql://USER@HOST:PORT/DATABASE, or PGHOST, PGPORT, PGUSER, PGDATABASE",
        ) from None


def full_dsn(dsn: str) -> str:
    """Return a complete DSN: workers do not have this process's environment."""
    from psycopg.conninfo import conninfo_to_dict, make_conninfo

    given = conninfo_to_dict(dsn)
    missing = {
        name: os.environ[variable]
        for variable, name in ENVIRONMENT.items()
        if name not in given and os.environ.get(variable)
    }
    return make_conninfo(dsn, **missing)


def prepare(connection: Any) -> None:
    """Create the table that stores the last batch of each query, if it does not exist."""
    is_complete = connection.execute(
        "SELECT EXISTS (SELECT FROM pg_attribute WHERE attrelid = to_regclass(%s) AND attname = 'plan')",
        (GUARD,),
    ).fetchone()[0]
    if not is_complete:
        # CREATE TABLE IF NOT EXISTS can fail if two sessions run it at once: take a lock.
        connection.execute("SELECT pg_advisory_xact_lock(7079460)")
        connection.execute(
            f"CREATE TABLE IF NOT EXISTS {GUARD} (query text PRIMARY KEY, batch bigint NOT NULL)"
        )
        connection.execute(f"ALTER TABLE {GUARD} ADD COLUMN IF NOT EXISTS plan text")
        connection.commit()


def done_until(connection: Any, query: str, *, lock: bool = False) -> int:
    """Return the last batch that a query has completed, -1 if none."""
    sharing = " FOR SHARE" if lock else ""
    row = connection.execute(f"SELECT batch FROM {GUARD} WHERE query = %s{sharing}", (query,)).fetchone()
    return -1 if row is None else int(row[0])


def _is_done(connection: Any, query: str, batch: int, plan: str | None) -> bool:
    """Return whether a query has completed a batch; raise StaleCheckpoint if it has completed another one
    that comes later or has the same number.
    """
    row = connection.execute(f"SELECT batch, plan FROM {GUARD} WHERE query = %s", (query,)).fetchone()
    if row is None or row[0] < batch:
        return False
    is_same = row[0] == batch and (plan is None or row[1] in (None, plan))
    if not is_same:
        raise StaleCheckpoint(
            f"batch {batch} is to be written, but batch {row[0]} of this query was already written, with "
            "other records: the checkpoint is older than the table (restored from a backup), or files of it "
            "were lost. Use the newest checkpoint, or start with a new, empty one"
        )
    return True


def mark_done(connection: Any, query: str, batch: int, plan: str | None = None) -> None:
    """Store that a query has completed a batch."""
    connection.execute(
        f"INSERT INTO {GUARD} AS g (query, batch, plan) VALUES (%s, %s, %s) "
        "ON CONFLICT (query) DO UPDATE SET batch = excluded.batch, plan = excluded.plan "
        "WHERE g.batch <= excluded.batch",
        (query, batch, plan),
    )


class _PartitionWriter:
    """Writes the rows of one partition in one transaction; runs in Spark's Python workers."""

    def __init__(
        self, target: Target, query: str, batch: int, plan: str | None, columns: Sequence[str]
    ) -> None:
        self._target = target
        self._query = query
        self._batch = batch
        self._plan = plan
        self._columns = list(columns)

    def write(self, batches: Iterator[Any]) -> Iterator[Any]:
        """Write the rows; yield their number."""
        import pyarrow as pa

        with connect(self._target.dsn) as connection:
            count = self._write(connection, batches)
        yield pa.RecordBatch.from_pydict({"rows": pa.array([count], pa.int64())})

    def _write(self, connection: Any, batches: Iterator[Any]) -> int:
        if done_until(connection, self._query, lock=True) >= self._batch:
            return 0
        stored = stored_columns(connection, self._target, self._columns)
        count = self._copy(connection, batches, stored)
        connection.execute(upsert_statement(self._target, stored))
        if self._target.deleted:
            connection.execute(delete_statement(self._target))
        if not self._target.key:
            mark_done(connection, self._query, self._batch, self._plan)
        return count

    def _copy(self, connection: Any, batches: Iterator[Any], stored: Sequence[str]) -> int:
        """COPY the rows into a temporary table with the column types of the target."""
        connection.execute(
            f"CREATE TEMPORARY TABLE ottla_incoming ON COMMIT DROP AS "
            f"SELECT {_names(stored)} FROM {_table(self._target.table)} LIMIT 0"
        )
        connection.execute("ALTER TABLE ottla_incoming ADD COLUMN ottla_order bigserial")
        extra = [name for name in self._columns if name not in stored]
        count = 0
        copy_statement = f"COPY ottla_incoming ({_names(self._columns)}) FROM STDIN"
        first = next(batches, None)
        for name in extra:
            kind = _column_type(first.schema.field(name).type) if first is not None else "text"
            connection.execute(f"ALTER TABLE ottla_incoming ADD COLUMN {_names([name])} {kind}")
        with connection.cursor() as cursor, cursor.copy(copy_statement) as copy:
            for batch in chain([first] if first is not None else [], batches):
                columns = [column.to_pylist() for column in batch.columns]
                for row in zip(*columns, strict=True):
                    copy.write_row(row)
                count += batch.num_rows
        return count


def stored_columns(connection: Any, target: Target, columns: Sequence[str]) -> list[str]:
    """Return the columns that the table has; only `deleted` and `sequence_by` may be missing there."""
    description = connection.execute(f"SELECT * FROM {_table(target.table)} LIMIT 0").description
    there = {column.name for column in description}
    for name in columns:
        if name not in there and name not in (target.deleted, target.sequence_by):
            raise PipelineProblem(
                f"the table {target.table} has no column {name!r}",
                f"its columns are: {', '.join(column.name for column in description)}",
            )
    return [name for name in columns if name in there and name != target.deleted]


def _column_type(arrow_type: Any) -> str:
    """Return a PostgreSQL type for a column that is only used for ordering, or as a flag."""
    import pyarrow as pa

    if pa.types.is_boolean(arrow_type):
        return "boolean"
    if pa.types.is_integer(arrow_type):
        return "bigint"
    if pa.types.is_floating(arrow_type):
        return "double precision"
    return "timestamptz" if pa.types.is_timestamp(arrow_type) else "text"


def upsert_statement(target: Target, stored: Sequence[str]) -> str:
    """Return the statement that inserts or upserts the rows."""
    into = f"INSERT INTO {_table(target.table)} ({_names(stored)})"
    if not target.key:
        return f"{into} SELECT {_names(stored)} FROM ottla_incoming ORDER BY ottla_order"
    others = [name for name in stored if name not in target.key]
    changes = ", ".join(f"{_names([name])} = excluded.{_names([name])}" for name in others)
    action = f"DO UPDATE SET {changes}" if others else "DO NOTHING"
    living = f" WHERE NOT coalesce({_names([target.deleted])}, false)" if target.deleted else ""
    return (
        f"{into} SELECT {_names(stored)} FROM ({_last_of_each(target)}) AS last{living} "
        f"ON CONFLICT ({_names(target.key)}) {action}"
    )


def delete_statement(target: Target) -> str:
    """Return the statement that deletes the rows whose last change is a deletion."""
    same = " AND ".join(f"t.{_names([name])} = last.{_names([name])}" for name in target.key)
    return (
        f"DELETE FROM {_table(target.table)} AS t USING ({_last_of_each(target)}) AS last "
        f"WHERE {same} AND coalesce(last.{_names([target.deleted])}, false)"
    )


def _last_of_each(target: Target) -> str:
    order = f"{_names([target.sequence_by])} DESC NULLS LAST, " if target.sequence_by else ""
    key = _names(target.key)
    return f"SELECT DISTINCT ON ({key}) * FROM ottla_incoming ORDER BY {key}, {order}ottla_order DESC"


def _names(names: Sequence[str]) -> str:
    return ", ".join('"' + name.replace('"', '""') + '"' for name in names)


def _table(name: str) -> str:
    return ".".join(_names([part]) for part in name.split("."))
