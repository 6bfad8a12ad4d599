"""The metadata store of a single broker: one SQLite database, `DIR/metadata.db`.

    entry(version, controller_epoch, is_snapshot, records, crc)    one row per append
    counter(name, value, crc)                                      controller_epoch, broker_epoch

`records` are lines of JSON (records.py), so `sqlite3 metadata.db 'select records from entry'` shows the
history of a cluster. `crc` is the CRC32C of the other columns: SQLite detects torn pages but not flipped
bits.

The journal is SQLite's rollback journal with synchronous=FULL, not the write-ahead log: SQLite silently
truncates a damaged write-ahead log at the first bad frame, and topics would vanish. An append costs a few
fsyncs (well under a millisecond on a disk with a write cache), and changes are rare. SQLite blocks, so
everything runs on one worker thread.
"""

from __future__ import annotations

import asyncio
import os
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypeVar

from ottla.metadata.history import Terms
from ottla.metadata.records import MetadataError, MetadataRecord, decode_records, encode_records
from ottla.metadata.registration import BrokerRegistration, SessionInfo
from ottla.metadata.store import (
    NO_REGISTRATION,
    ControllerFenced,
    MetadataEntry,
    Session,
    SessionLost,
    StoreContact,
    StoreServer,
    VersionConflict,
)
from ottla.protocol.records.checksum import crc32c

APPLICATION_ID = 0x4F74746C  # "Ottl": what `file metadata.db` shows
SCHEMA_VERSION = 1
SCHEMA = {
    "entry": (
        "CREATE TABLE entry (version INTEGER PRIMARY KEY, controller_epoch INTEGER NOT NULL,"
        " is_snapshot INTEGER NOT NULL, records TEXT NOT NULL, crc INTEGER NOT NULL)"
    ),
    "counter": (
        "CREATE TABLE counter (name TEXT PRIMARY KEY, value INTEGER NOT NULL, crc INTEGER NOT NULL)"
        " WITHOUT ROWID"
    ),
}

COUNTERS = ("controller_epoch", "broker_epoch")


def _keep_from_others(path: Path) -> None:
    """Let only its owner read the file: it has the keys of SCRAM users and the passwords in configs.

    A file that exists is not opened: closing it would end the locks that this process has on it.
    """
    with suppress(OSError):  # SQLite says what is wrong
        if path.exists():
            path.chmod(0o600)
        else:
            os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))


class MetadataFile:
    """An open metadata file, locked until it is closed. Every method may block."""

    def __init__(self, path: Path) -> None:
        self._path = path
        # A file without bytes is new; it is also what a crash in the middle of creation leaves.
        self._had_bytes = path.exists() and path.stat().st_size > 0
        _keep_from_others(path)
        self._connection = sqlite3.connect(path, isolation_level=None, timeout=0, check_same_thread=False)
        try:
            with _reporting_damage(path):
                self._prepare()
        except BaseException:
            self._connection.close()
            raise

    def _prepare(self) -> None:
        run = self._connection.execute
        run("PRAGMA locking_mode=EXCLUSIVE")
        run("PRAGMA journal_mode=DELETE")
        run("PRAGMA synchronous=FULL")
        with _Transaction(self._connection):
            tables = dict(run("SELECT name, sql FROM sqlite_master WHERE type = 'table'"))
            if not tables and not self._had_bytes:
                self._create()
            else:
                self._check(tables)
        for name in COUNTERS:
            self._counter(name)
        problems = [row[0] for row in run("PRAGMA quick_check(3)")]
        if problems != ["ok"]:
            raise _damaged(self._path, "; ".join(problems))

    def _create(self) -> None:
        for statement in SCHEMA.values():
            self._connection.execute(statement)
        for name in COUNTERS:
            self._set_counter(name, 0)
        self._connection.execute(f"PRAGMA application_id={APPLICATION_ID}")
        self._connection.execute(f"PRAGMA user_version={SCHEMA_VERSION}")

    def _check(self, tables: dict[str, str]) -> None:
        schema_version = self._pragma("user_version")
        if tables and self._pragma("application_id") != APPLICATION_ID:
            raise MetadataError(f"{self._path} is a database, but not one of Ottla's")
        if tables and schema_version != SCHEMA_VERSION:
            raise MetadataError(
                f"{self._path} has layout {schema_version}, this Ottla reads {SCHEMA_VERSION}; "
                "start the version that wrote it"
            )
        # A flipped bit in the text of a table makes it another table, with other rows or none.
        if tables != SCHEMA:
            raise _damaged(self._path, "its tables are not as they should be")

    def close(self) -> None:
        """Close the file."""
        self._connection.close()

    def increment(self, name: str) -> int:
        """Increment a counter and return it."""
        with _Transaction(self._connection):
            value = self._counter(name) + 1
            self._set_counter(name, value)
        return value

    def append(self, entry: MetadataEntry) -> None:
        """Append, if the log is just before `entry` and no newer controller has been elected."""
        with _Transaction(self._connection):
            self._fence(entry.controller_epoch)
            if (version := self._version()) != entry.version - 1:
                raise VersionConflict(f"the metadata is at version {version}, not {entry.version - 1}")
            self._insert(entry.version, entry.controller_epoch, False, encode_records(entry.records))

    def compact(self, version: int, records: Iterable[MetadataRecord], controller_epoch: int) -> None:
        """Replace the entries up to `version` by one."""
        text = encode_records(records)
        with _Transaction(self._connection):
            self._fence(controller_epoch)
            if version > self._version():
                raise VersionConflict(f"a snapshot of version {version}, which is not written yet")
            self._connection.execute("DELETE FROM entry WHERE version <= ?", (version,))
            self._insert(version, controller_epoch, True, text)

    def read(self, after_version: int) -> list[MetadataEntry]:
        """Return the entries after `after_version`, each verified against its CRC."""
        rows = self._connection.execute(
            "SELECT version, controller_epoch, is_snapshot, records, crc FROM entry"
            " WHERE version > ? ORDER BY version",
            (after_version,),
        )
        with _reporting_damage(self._path):
            return [self._entry(*row) for row in rows]

    def _entry(self, version: int, epoch: int, is_snapshot: int, text: str, crc: int) -> MetadataEntry:
        if crc != _crc(version, epoch, is_snapshot, text):
            raise _damaged(self._path, f"the entry of version {version} fails its checksum")
        return MetadataEntry(version, epoch, tuple(decode_records(text)), bool(is_snapshot))

    def _insert(self, version: int, epoch: int, is_snapshot: bool, text: str) -> None:
        self._connection.execute(
            "INSERT INTO entry VALUES (?, ?, ?, ?, ?)",
            (version, epoch, int(is_snapshot), text, _crc(version, epoch, int(is_snapshot), text)),
        )

    def _fence(self, controller_epoch: int) -> None:
        newest = self._counter("controller_epoch")
        if controller_epoch != newest:
            raise ControllerFenced(f"controller epoch {controller_epoch} is over: epoch {newest} was elected")

    def _counter(self, name: str) -> int:
        row = self._connection.execute("SELECT value, crc FROM counter WHERE name = ?", (name,)).fetchone()
        if row is None or row[1] != _crc(name, row[0]):
            raise _damaged(self._path, f"the counter {name} is missing or fails its checksum")
        return int(row[0])

    def _set_counter(self, name: str, value: int) -> None:
        self._connection.execute("REPLACE INTO counter VALUES (?, ?, ?)", (name, value, _crc(name, value)))

    def _version(self) -> int:
        return int(self._connection.execute("SELECT coalesce(max(version), 0) FROM entry").fetchone()[0])

    def _pragma(self, name: str) -> int:
        return int(self._connection.execute(f"PRAGMA {name}").fetchone()[0])


class _Transaction:
    """Commits the block, or rolls it back if it raises."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def __enter__(self) -> None:
        self._connection.execute("BEGIN IMMEDIATE")

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            try:
                self._connection.execute("COMMIT")
            except sqlite3.Error:
                self._roll_back()
                raise
        else:
            self._roll_back()

    def _roll_back(self) -> None:
        # Some failures (a full disk) have rolled it back already.
        if self._connection.in_transaction:
            self._connection.execute("ROLLBACK")


def _crc(*columns: object) -> int:
    return crc32c("\n".join(map(str, columns)).encode())


@contextmanager
def _reporting_damage(path: Path) -> Iterator[None]:
    """Report values of the wrong type or encoding as damage that SQLite did not detect."""
    try:
        yield
    except (ValueError, TypeError) as error:
        raise _damaged(path, str(error)) from error


def _damaged(path: Path, reason: str) -> MetadataError:
    return MetadataError(
        f"{path} is damaged: {reason}. It lists the topics of this cluster, so Ottla does not start without "
        "it. Restore it from a backup (the logs beside it are untouched), or start on another --data."
    )


def translate_error(path: Path, error: Exception) -> MetadataError:
    """Return what an error of SQLite or the disk means for the user."""
    code = getattr(error, "sqlite_errorcode", None)
    if code is not None and code & 0xFF == sqlite3.SQLITE_BUSY:
        return MetadataError(f"{path} is in use by another process; one broker per --data directory")
    # Without a code, Python itself could not make sense of what is stored.
    is_sqlite = isinstance(error, sqlite3.Error)
    if is_sqlite and (code is None or code & 0xFF in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)):
        return _damaged(path, str(error))
    return MetadataError(f"{path}: {error}")


T = TypeVar("T")


class EmbeddedStore:
    """Keeps the metadata log in one SQLite file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._worker: ThreadPoolExecutor | None = None
        self._database: MetadataFile | None = None
        self._session: Session | None = None
        self._registration = NO_REGISTRATION
        self._watchers: list[Callable[[int], None]] = []
        self._session_watchers: list[Callable[[], None]] = []

    async def open(self) -> None:
        """Open or create the file; raise MetadataError if it is damaged, foreign or in use."""
        self._worker = ThreadPoolExecutor(max_workers=1, thread_name_prefix="metadata")
        try:
            self._database = await self._run(lambda: MetadataFile(self._path))
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        """Finish running operations and close the file."""
        self._end_session()
        worker, self._worker = self._worker, None
        database, self._database = self._database, None
        if worker is None:
            return
        if database is not None:
            await asyncio.get_running_loop().run_in_executor(worker, database.close)
        worker.shutdown(wait=False)

    async def open_session(self, node_id: int, registration: BrokerRegistration = NO_REGISTRATION) -> Session:
        """Open a session; no other process can have one."""
        broker_epoch = await self._run(lambda: self._db.increment("broker_epoch"))
        self._end_session()
        lost: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._session = Session(node_id, broker_epoch, lost)
        self._register(registration)
        return self._session

    async def update_registration(self, session: Session, registration: BrokerRegistration) -> None:
        """Change the broker's registration."""
        if session is not self._session:
            raise SessionLost(f"the session of broker {session.node_id} is over")
        self._register(registration)

    async def sessions(self) -> list[SessionInfo]:
        """Return the one session, while it is open."""
        session = self._session
        if session is None:
            return []
        return [SessionInfo(session.node_id, session.broker_epoch, self._registration)]

    def watch_sessions(self, watcher: Callable[[], None]) -> Callable[[], None]:
        """Call `watcher()` when the session begins or its registration changes; return a function that stops
        it.
        """
        self._session_watchers.append(watcher)
        return lambda: self._session_watchers.remove(watcher)

    def _register(self, registration: BrokerRegistration) -> None:
        self._registration = registration
        for watcher in tuple(self._session_watchers):
            watcher()

    def _end_session(self) -> None:
        session, self._session = self._session, None
        if session is not None and not session.lost.done():
            session.lost.set_result(None)

    async def stand_for_election(self, session: Session) -> int:
        """Win immediately: there is no other candidate."""
        return await self._run(lambda: self._db.increment("controller_epoch"))

    async def resign(self, session: Session) -> None:
        """Do nothing: there is no other candidate, and the next election raises the epoch."""

    async def append(
        self, records: Sequence[MetadataRecord], *, expected_version: int, controller_epoch: int
    ) -> int:
        """Append one entry and return its version, once it is on disk."""
        entry = MetadataEntry(expected_version + 1, controller_epoch, tuple(records))
        await self._run(lambda: self._db.append(entry))
        for watcher in tuple(self._watchers):
            watcher(entry.version)
        return entry.version

    async def read(self, after_version: int) -> list[MetadataEntry]:
        """Return the entries after `after_version`, oldest first; the first may be a snapshot."""
        return await self._run(lambda: self._db.read(after_version))

    async def terms(self) -> Terms:
        """Return nothing: the log is on the same disk as what it describes."""
        return ()

    async def compact(
        self, version: int, records: Iterable[MetadataRecord], *, controller_epoch: int
    ) -> None:
        """Replace the entries up to `version` by a snapshot."""
        await self._run(lambda: self._db.compact(version, records, controller_epoch))

    def watch(self, watcher: Callable[[int], None]) -> Callable[[], None]:
        """Call `watcher(version)` after each append; return a function that stops it."""
        self._watchers.append(watcher)
        return lambda: self._watchers.remove(watcher)

    def contact(self) -> StoreContact:
        """Return that the file is there."""
        return StoreContact("embedded")

    async def ensemble(self) -> list[StoreServer]:
        """Return nothing: there are no servers."""
        return []

    @property
    def _db(self) -> MetadataFile:
        if self._database is None:
            raise MetadataError(f"{self._path} is not open")
        return self._database

    async def _run(self, work: Callable[[], T]) -> T:
        if self._worker is None:
            raise MetadataError(f"{self._path} is not open")
        return await asyncio.get_running_loop().run_in_executor(self._worker, self._translating(work))

    def _translating(self, work: Callable[[], T]) -> Callable[[], T]:
        def run() -> T:
            try:
                return work()
            except (sqlite3.Error, OSError) as error:
                raise translate_error(self._path, error) from error

        return run
