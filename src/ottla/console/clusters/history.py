"""Samples of the last hours, in SQLite: in memory, or in a file that outlives the process."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping
from pathlib import Path

KEPT_MS = 24 * 3600 * 1000
MAX_POINTS = 720
"""A plot gets no more points than this: older samples are averaged."""

_TABLES = """
CREATE TABLE IF NOT EXISTS series (id INTEGER PRIMARY KEY, cluster TEXT, name TEXT, UNIQUE (cluster, name));
CREATE TABLE IF NOT EXISTS samples (series INTEGER, at INTEGER, value REAL, PRIMARY KEY (series, at))
    WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS by_time ON samples (at);
"""


class History:
    """Time series by cluster and name."""

    def __init__(self, file: Path | None = None) -> None:
        self._database = sqlite3.connect(":memory:" if file is None else str(file))
        self._database.execute("PRAGMA journal_mode=WAL")
        self._database.execute("PRAGMA synchronous=NORMAL")
        self._database.executescript(_TABLES)
        found = self._database.execute("SELECT cluster, name, id FROM series")
        self._ids: dict[tuple[str, str], int] = {(cluster, name): key for cluster, name, key in found}

    def close(self) -> None:
        """Close the file."""
        self._database.close()

    def add(self, cluster: str, at_ms: int, values: Mapping[str, float]) -> None:
        """Keep one sample of each series."""
        with self._database:
            rows = [(self._id(cluster, name), at_ms, value) for name, value in values.items()]
            self._database.executemany("INSERT OR REPLACE INTO samples VALUES (?, ?, ?)", rows)

    def forget_before(self, at_ms: int) -> None:
        """Delete older samples."""
        with self._database:
            self._database.execute("DELETE FROM samples WHERE at < ?", (at_ms,))

    def read(
        self, cluster: str, names: Iterable[str], from_ms: int, until_ms: int
    ) -> dict[str, list[tuple[int, float]]]:
        """Return (milliseconds, value) pairs by series, in order, averaged if they are many."""
        step = max(1, -(-(until_ms - from_ms) // MAX_POINTS))
        found: dict[str, list[tuple[int, float]]] = {}
        for name in names:
            key = self._ids.get((cluster, name))
            rows = [] if key is None else self._rows(key, from_ms, until_ms, step)
            found[name] = [(int(at), float(value)) for at, value in rows]
        return found

    def latest(self, cluster: str, name: str) -> float | None:
        """Return the newest sample of a series."""
        key = self._ids.get((cluster, name))
        row = self._database.execute(
            "SELECT value FROM samples WHERE series = ? ORDER BY at DESC LIMIT 1", (key,)
        ).fetchone()
        return None if row is None else float(row[0])

    def _rows(self, key: int, from_ms: int, until_ms: int, step: int) -> list[tuple[float, float]]:
        return self._database.execute(
            "SELECT avg(at), avg(value) FROM samples WHERE series = ? AND at BETWEEN ? AND ? "
            "GROUP BY at / ? ORDER BY 1",
            (key, from_ms, until_ms, step),
        ).fetchall()

    def _id(self, cluster: str, name: str) -> int:
        key = self._ids.get((cluster, name))
        if key is None:
            row = self._database.execute(
                "INSERT INTO series (cluster, name) VALUES (?, ?) RETURNING id", (cluster, name)
            ).fetchone()
            key = self._ids[cluster, name] = int(row[0])
        return key
