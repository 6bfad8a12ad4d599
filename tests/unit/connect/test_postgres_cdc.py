"""The reader of PostgreSQL's log, with a database that says what a test wants."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ottla.connect.connectors import postgres_cdc
from ottla.connect.connectors.postgres_cdc import QUIET_ADVANCE_BYTES, CdcReader
from ottla.connect.connectors.postgresql.debezium import Events, Position, relation_of
from ottla.connect.connectors.postgresql.pgoutput import Change
from ottla.connect.converters.plain import JsonConverter
from ottla.connect.data.record import Record
from ottla.connect.errors import DataError

SETTINGS = {
    "slot.name": "s",
    "topic.prefix": "p",
    "max.batch.size": 10,
    "publication.name": "s",
    "table.include.list": [],
}
FLUSHED = 3 * QUIET_ADVANCE_BYTES


class Database:
    """Its log has been written further than it has been flushed; nothing of it is of the publication."""

    def __init__(self) -> None:
        self.advanced: list[int] = []

    def execute(self, query: str, values: Any = (), **_: Any) -> Database:
        self.found: list[tuple[int]] = []
        if "wal_flush_lsn" in query:
            self.found = [(FLUSHED,)]
        elif "wal_lsn" in query:
            self.found = [(FLUSHED + 1000,)]  # a commit that is being flushed
        elif "slot_advance" in query:
            self.advanced.append(values[0])
        return self

    def fetchone(self) -> tuple[int]:
        return self.found[0]

    def fetchall(self) -> list[tuple[int]]:
        return self.found


def test_a_quiet_slot_is_not_advanced_behind_what_the_database_has_not_flushed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    database = Database()

    monkeypatch.setattr(postgres_cdc, "connect", lambda _dsn, **_: database)
    reader = CdcReader("", dict(SETTINGS))
    start = {reader.partition: {"lsn": 0}}
    assert reader.latest(start) == start
    assert database.advanced == [FLUSHED]


def numbers(mode: str, modifier: int, text: str, failures: str = "warn") -> list[Record]:
    """Return the records of an insert of a numeric."""
    relation = relation_of("public", "sums", [("id", 23, -1, True), ("sum", 1700, modifier, False)])
    events = Events("p", "db", decimals=mode, tombstones=True, failures=failures)
    change = Change("c", relation, None, {"id": "1", "sum": text})
    return events.records(change, Position(7, 8, 9))


@pytest.mark.parametrize("text", ["NaN", "Infinity", "-Infinity"])
@pytest.mark.parametrize(
    ("mode", "modifier"), [("precise", -1), ("precise", 786_439), ("string", -1), ("double", -1)]
)
def test_a_numeric_that_is_no_number_does_not_stop_a_capture(mode: str, modifier: int, text: str) -> None:
    (record,) = numbers(mode, modifier, text)
    converter = JsonConverter({"schemas.enable": "true"}, is_key=False)
    data = converter.to_bytes(record.topic, record.value_schema, record.value)
    assert data is not None
    wanted = None if mode == "precise" else text
    assert json.loads(data)["payload"]["after"] == {"id": 1, "sum": wanted}
    _, value = converter.to_value(record.topic, data)
    found = value["after"]["sum"]
    assert str(found).lower() == {"double": str(float(text)), "string": text}.get(mode, "None").lower()


def test_a_value_that_cannot_be_converted_is_said_once_or_refused(caplog: pytest.LogCaptureFixture) -> None:
    relation = relation_of("public", "sums", [("id", 23, -1, True), ("sum", 1700, -1, False)])
    change = Change("c", relation, None, {"id": "1", "sum": "NaN"})
    for failures, lines in (("warn", 1), ("skip", 0)):
        caplog.clear()
        events = Events("p", "db", decimals="precise", tombstones=True, failures=failures)
        for _ in range(3):
            events.records(change, Position(7, 8, 9))
        assert [each.message.startswith("public.sums.sum: ") for each in caplog.records] == [True] * lines
    with pytest.raises(DataError, match=r"public\.sums\.sum: NaN"):
        numbers("precise", -1, "NaN", "fail")
