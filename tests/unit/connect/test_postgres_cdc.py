"""The reader of PostgreSQL's log, with a database that says what a test wants."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.connect.connectors import postgres_cdc
from ottla.connect.connectors.postgres_cdc import QUIET_ADVANCE_BYTES, CdcReader

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
