"""The connectors for databases with a DB-API driver, on SQLite."""

from __future__ import annotations

import sqlite3
import sys
from pathlib import Path
from typing import Any

import pytest

from ottla.connect.connectors.dbapi import Database
from ottla.connect.connectors.iceberg_sink import catalog_of
from ottla.connect.connectors.jdbc_sink import JdbcSink
from ottla.connect.connectors.jdbc_source import JdbcSource
from ottla.connect.data.record import Record
from ottla.connect.errors import ConnectError, RetriableError
from ottla.connect.testing import check_config, read_source, write_sink


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "shop.db"


def do(file: Path, *statements: str) -> list[Any]:
    """Run statements; return the rows of the last one."""
    rows: list[Any] = []
    with sqlite3.connect(file) as database:
        for each in statements:
            rows = database.execute(each).fetchall()
    return rows


def test_rows_are_read_by_number(file: Path) -> None:
    do(file, "CREATE TABLE items (id INTEGER PRIMARY KEY, name TEXT, price REAL)")
    do(file, *(f"INSERT INTO items VALUES ({n}, 'n{n}', {n}.5)" for n in range(1, 8)))
    config = {"connection.url": f"jdbc:sqlite:{file}", "table.whitelist": "items", "topic.prefix": "shop-"}
    assert check_config(JdbcSource, config).error_count == 0
    found = read_source(JdbcSource, {**config, "batch.max.rows": "3"})
    assert [each.value["id"] for each in found] == [1, 2, 3, 4, 5, 6, 7]
    assert found[0].topic == "shop-items"
    assert found[0].value == {"id": 1, "name": "n1", "price": 1.5}
    place = {'{"table":"items"}': {"id": 5}}
    assert [each.value["id"] for each in read_source(JdbcSource, config, offsets=place)] == [6, 7]
    wrong = check_config(JdbcSource, {**config, "connection.url": "nothing"})
    assert "jdbc:sqlite" in wrong.results["connection.url"].errors[0]


def test_changes_are_read_by_time_and_number(file: Path) -> None:
    do(file, "CREATE TABLE items (id INTEGER PRIMARY KEY, at TIMESTAMP)")
    do(file, *(f"INSERT INTO items VALUES ({n}, '2020-01-0{n // 3 + 1} 00:00:00')" for n in range(9)))
    config = {
        "connection.url": f"sqlite:{file}",
        "table.whitelist": "items",
        "topic.prefix": "",
        "mode": "timestamp+incrementing",
        "timestamp.column.name": "at",
        "batch.max.rows": "2",
    }
    assert [each.value["id"] for each in read_source(JdbcSource, config)] == list(range(9))
    do(file, "UPDATE items SET at = '2020-01-09 00:00:00' WHERE id = 2")
    place = {'{"table":"items"}': {"at": "2020-01-03 00:00:00", "id": 7}}
    assert [each.value["id"] for each in read_source(JdbcSource, config, offsets=place)] == [8, 2]
    assert check_config(JdbcSource, {**config, "timestamp.column.name": ""}).error_count == 1


def row(offset: int, key: Any, value: Any) -> Record:
    return Record("items", value, None, key, None, 0, 0, [], offset, "items")


def test_a_batch_is_written_once(file: Path) -> None:
    config = {"connection.url": f"jdbc:sqlite:{file}", "auto.create": "true", "auto.evolve": "true"}
    first = [row(n, {"id": n}, {"name": f"n{n}"}) for n in range(3)]
    for _ in range(2):
        assert write_sink(JdbcSink, config, first) == []
    assert do(file, "SELECT id, name FROM items ORDER BY id") == [(0, "n0"), (1, "n1"), (2, "n2")]
    second = [
        row(3, {"id": 1}, {"name": "changed", "more": 1.5}),
        row(4, {"id": 0}, None),
        row(5, None, {"name": "without a key"}),
        row(6, {"id": 7}, {"name": "huge", "more": 1 << 70}),
    ]
    for _ in range(2):  # the same records are refused each time
        refused = write_sink(JdbcSink, config, second, number=1)
        assert [each.record.offset for each in refused] == [5, 6]
    assert do(file, "SELECT id, name, more FROM items ORDER BY id") == [
        (1, "changed", 1.5),
        (2, "n2", None),
    ]
    inserting = {**config, "insert.mode": "insert"}
    doubled = write_sink(JdbcSink, inserting, [row(7, {"id": 2}, {"name": "again"})], number=2)
    assert "UNIQUE" in doubled[0].reason
    with pytest.raises(ConnectError, match="there is no table"):
        write_sink(
            JdbcSink,
            {"connection.url": f"jdbc:sqlite:{file}", "table.name.format": "other"},
            [row(0, {"id": 1}, {"name": "x"})],
            number=3,
        )


def test_a_locked_database_is_tried_again(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ottla.connect.connectors.dbapi.SQLITE_WAIT_S", 0)
    config = {"connection.url": f"jdbc:sqlite:{file}", "auto.create": "true"}
    write_sink(JdbcSink, config, [row(0, {"id": 1}, {"name": "a"})])
    holder = sqlite3.connect(file)
    holder.execute("BEGIN IMMEDIATE")
    with pytest.raises(RetriableError, match="locked"):
        write_sink(JdbcSink, config, [row(1, {"id": 2}, {"name": "b"})], number=1)
    holder.close()


def test_the_marks_of_drivers() -> None:
    database = Database("sqlite3", {})
    assert database.marks(2) == ["?", "?"]
    assert database.name('a.b"c') == '"a"."b""c"'


def test_a_config_cannot_have_any_module_imported() -> None:
    """The class of CVE-2025-27818: who may create a connector would choose the code that the worker runs."""
    with pytest.raises(ConnectError, match="not a driver that Ottla knows; import it in a module"):
        _ = Database("this", {}).module
    assert "this" not in sys.modules
    with pytest.raises(ConnectError, match="os is not a DB-API driver"):
        _ = Database("os", {}).module
    with pytest.raises(ConnectError, match="there is no module teradatasql"):
        _ = Database("teradatasql", {}).module
    for key in ("py-catalog-impl", "py-io-impl", "write.py-location-provider.impl", "auth.impl"):
        with pytest.raises(ConnectError, match=f"iceberg.catalog: {key} names code"):
            catalog_of({"iceberg.catalog": ["type=rest", f"{key}=os.path"], "iceberg.catalog.name": "x"})
