"""Databases behind Python's DB-API: SQLite, and every other with a driver of that kind.

SQL here is what all of them have. The connectors of PostgreSQL know more of theirs: use those for it.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any

from ottla.connect.config.keys import HIGH, LIST, PASSWORD, ConfigKey
from ottla.connect.errors import ConnectError, RetriableError

SQLITE = "sqlite3"
DRIVERS = frozenset(
    {SQLITE, "psycopg", "psycopg2", "pymysql", "MySQLdb", "mysql.connector", "mariadb", "pymssql", "pyodbc"}
    | {"oracledb", "cx_Oracle", "ibm_db_dbi", "hdbcli.dbapi", "fdb", "firebird.driver", "teradatasql"}
    | {
        "duckdb",
        "snowflake.connector",
        "redshift_connector",
        "trino.dbapi",
        "vertica_python",
        "databricks.sql",
    }
)
"""Modules that a config may name: importing any other one would run code that its writer chooses."""
SQLITE_WAIT_S = 30
SAVEPOINT = "ottla_row"
CONNECTION_KEYS = (
    ConfigKey(
        "connection.url",
        default="",
        doc="jdbc:sqlite:/path/to.db; for other databases set connection.driver.",
        importance=HIGH,
    ),
    ConfigKey(
        "connection.driver",
        default=SQLITE,
        doc="The Python module of the driver (DB-API 2.0), such as psycopg, pymysql, oracledb; one that "
        "Ottla does not know must be imported by a module of the worker's plugin.path.",
        importance=HIGH,
    ),
    ConfigKey("connection.arguments", LIST, [], "KEY=VALUE arguments of the driver's connect().", HIGH),
    ConfigKey("connection.user", default="", doc="The user."),
    ConfigKey("connection.password", PASSWORD, "", "The password."),
    ConfigKey("quote.sql.identifiers", default='"', doc="The quote character of identifiers; MySQL: `."),
)
_MARKS = {"qmark": "?", "format": "%s", "pyformat": "%s"}


@dataclass(frozen=True)
class Database:
    """How to reach a database, and how its driver writes SQL."""

    driver: str
    arguments: Mapping[str, Any]
    quote: str = '"'

    @classmethod
    def of(cls, settings: Mapping[str, Any]) -> Database:
        """Read the keys of a connection; raise ConnectError."""
        pairs = [each.partition("=") for each in settings["connection.arguments"]]
        arguments: dict[str, Any] = {key: value for key, _, value in pairs}
        driver, url = settings["connection.driver"], settings["connection.url"].removeprefix("jdbc:")
        if driver == SQLITE:
            scheme, colon, path = url.partition(":")
            if scheme != "sqlite" or not colon or not path.lstrip("/"):
                raise ConnectError(f"connection.url: {url!r} is not jdbc:sqlite:/path/to.db")
            path = "/" + path.lstrip("/") if path.startswith("//") else path
            arguments = {"database": path, "timeout": SQLITE_WAIT_S}
        else:
            named = {"user": settings["connection.user"], "password": settings["connection.password"]}
            arguments |= {key: value for key, value in named.items() if value}
            if url:
                arguments["conninfo"] = url
        return cls(driver, arguments, settings["quote.sql.identifiers"])

    @property
    def module(self) -> Any:
        """The driver; raises ConnectError."""
        if self.driver not in DRIVERS and self.driver not in sys.modules:
            raise ConnectError(
                f"connection.driver: {self.driver} is not a driver that Ottla knows; import it in a module "
                "of the worker's plugin.path"
            )
        try:
            module = importlib.import_module(self.driver)
        except ImportError:
            raise ConnectError(f"connection.driver: there is no module {self.driver}") from None
        if not hasattr(module, "apilevel"):
            raise ConnectError(f"connection.driver: {self.driver} is not a DB-API driver")
        return module

    @contextmanager
    def connected(self) -> Iterator[Any]:
        """Connect, and close; what passes by itself is a RetriableError."""
        module = self.module
        passing = (module.OperationalError, module.InterfaceError)
        try:
            connection = module.connect(**self.arguments)
        except passing as error:
            raise RetriableError(f"cannot connect with {self.driver}: {error}") from None
        except (module.Error, TypeError) as error:
            raise ConnectError(f"{self.driver} cannot connect: {error}") from None
        try:
            yield connection
        except module.OperationalError as error:
            text = str(error)
            if self.driver == SQLITE and "locked" not in text and "busy" not in text:
                raise ConnectError(f"{self.driver}: {text}") from None
            raise RetriableError(f"{self.driver}: {text}") from None
        finally:
            connection.close()

    def marks(self, count: int, first: int = 1) -> list[str]:
        """Return the placeholders of some values; the first is number `first` of its statement."""
        mark = _MARKS.get(self.module.paramstyle)
        return [mark or f":{number}" for number in range(first, first + count)]

    def name(self, name: str) -> str:
        """Return a name in quotes, each part of it."""
        quote = self.quote
        return ".".join(f"{quote}{part.replace(quote, quote * 2)}{quote}" for part in name.split("."))

    def names(self, names: Sequence[str], between: str = ", ") -> str:
        """Return names in quotes."""
        return between.join(map(self.name, names))

    def value(self, value: Any) -> Any:
        """Return a value that the driver takes."""
        if self.driver != SQLITE:
            return value
        if isinstance(value, bool):
            return int(value)
        if isinstance(value, datetime):
            return value.isoformat(" ")
        if isinstance(value, date | time):
            return value.isoformat()
        return str(value) if isinstance(value, Decimal) else value

    def type_of(self, value: Any) -> str:
        """Return the type of a new column."""
        kinds = (
            (bool, "BOOLEAN"),
            (int, "BIGINT"),
            (float, "DOUBLE PRECISION"),
            (Decimal, "NUMERIC"),
            (bytes, "BYTEA" if self.driver.startswith("psycopg") else "BLOB"),
            (datetime, "TIMESTAMP"),
            (date, "DATE"),
            (time, "TIME"),
        )
        return next((name for kind, name in kinds if isinstance(value, kind)), "TEXT")

    def columns(self, connection: Any, table: str) -> list[str] | None:
        """Return the columns of a table; None if there is no such table. The transaction stays as it is."""
        cursor, found = connection.cursor(), None
        cursor.execute(f"SAVEPOINT {SAVEPOINT}")
        try:
            cursor.execute(f"SELECT * FROM {self.name(table)} WHERE 1 = 0")
            found = [each[0] for each in cursor.description]
            cursor.fetchall()
        except self.module.Error:
            cursor.execute(f"ROLLBACK TO SAVEPOINT {SAVEPOINT}")
        cursor.execute(f"RELEASE SAVEPOINT {SAVEPOINT}")
        return found


def check_connection(settings: Mapping[str, Any]) -> dict[str, str]:
    """Return what is wrong with the connection, by key."""
    try:
        with Database.of(settings).connected():
            return {}
    except ConnectError as error:
        key = "connection.driver" if "connection.driver" in str(error) else "connection.url"
        return {key: str(error)}
