"""Read a logical replication slot as a replica does: PostgreSQL sends what is committed.

`pg_logical_slot_peek_binary_changes` decodes the log anew from the slot's last restart point with each call,
which PostgreSQL moves every 15 seconds only. A stream decodes each change once. psycopg has no interface for
replication, but the functions of libpq that it needs.
"""

from __future__ import annotations

import select
import struct
from collections import deque
from typing import Any

from ottla.common.clock import SystemClock
from ottla.connect.connectors.postgresql.database import SET_FORMS, quoted
from ottla.connect.connectors.postgresql.pgoutput import COMMIT, RELATION, commit_end

Row = tuple[int, int, bytes]
"""Position, transaction and message."""
STATUS_INTERVAL_MS = 10_000
"""PostgreSQL ends a connection that says nothing for `wal_sender_timeout`, a minute."""
OBJECT_IN_USE = b"55006"
_DATA, _KEEPALIVE, _STATUS = struct.Struct(">cqqq"), struct.Struct(">cqq?"), struct.Struct(">cqqqq?")


class CannotStream(Exception):
    """PostgreSQL, or what is between, refuses a connection for replication."""

    def __init__(self, reason: str, *, is_in_use: bool = False) -> None:
        super().__init__(reason)
        self.is_in_use = is_in_use
        """Whether another process of PostgreSQL uses the slot."""


class ChangeStream:
    """A connection that receives the messages of a slot from a place on."""

    def __init__(self, dsn: str, slot: str, publication: str, after: int) -> None:
        from psycopg import pq
        from psycopg.conninfo import make_conninfo

        self._connection = pq.PGconn.connect(make_conninfo(dsn, replication="database").encode())
        self._clock = SystemClock()
        self._messages: list[bytes] = []
        """Of the transaction whose commit has not come yet."""
        self._rows: deque[list[Row]] = deque()
        """Whole transactions."""
        self._relations: dict[bytes, bytes] = {}
        """PostgreSQL describes a table once, and again if it has changed: batches are decoded one by one."""
        self._seen = self._confirmed = after
        self._said_ms = self._clock.mono_ms()
        if self._connection.status != pq.ConnStatus.OK:
            raise CannotStream(self._reason())
        self._connection.exec_(SET_FORMS.encode())
        start = f"START_REPLICATION SLOT {quoted(slot)} LOGICAL {after >> 32:X}/{after & 0xFFFFFFFF:X}"
        names = quoted(publication).replace("'", "''")
        result = self._connection.exec_(f"{start} (proto_version '1', publication_names '{names}')".encode())
        if result.status != pq.ExecStatus.COPY_BOTH:
            reason = result.error_message.decode(errors="replace").strip()
            is_in_use = result.error_field(pq.DiagnosticField.SQLSTATE) == OBJECT_IN_USE
            self._connection.finish()
            raise CannotStream(reason, is_in_use=is_in_use)
        self._connection.nonblocking = 1

    def _reason(self) -> str:
        return self._connection.error_message.decode(errors="replace").strip()

    def next(self, most: int, wait_s: float) -> list[Row]:
        """Return whole transactions with about so many messages; wait for the first one for so long."""
        self._receive(most)
        deadline_ms = self._clock.mono_ms() + int(wait_s * 1000)
        while not self._rows and (left_ms := deadline_ms - self._clock.mono_ms()) > 0:
            if not select.select([self._connection.socket], [], [], left_ms / 1000)[0]:
                break
            self._receive(most)  # perhaps a part of a transaction only
        if not self._rows:
            return []
        found = [(self._rows[0][0][0], 0, each) for each in self._relations.values()]
        most += len(found)
        while self._rows and len(found) < most:
            rows = self._rows.popleft()
            self._relations |= {each[1:5]: each for _, _, each in rows if each[:1] == RELATION}
            found += rows
        return found

    def _receive(self, most: int) -> None:
        count = sum(map(len, self._rows))
        self._connection.consume_input()
        while count < most:
            size, data = self._connection.get_copy_data(1)
            if size == 0:
                if not select.select([self._connection.socket], [], [], 0)[0]:
                    break
                self._connection.consume_input()  # it takes some 16 KB at once
                continue
            if size < 0:
                raise _lost(self._reason() or "PostgreSQL has ended the replication")
            count += self._take(bytes(data))
        if self._clock.mono_ms() - self._said_ms > STATUS_INTERVAL_MS:
            self._say()

    def _take(self, data: bytes) -> int:
        """Take a message in; return how many rows of a whole transaction are there now."""
        if data[:1] == b"k":
            _, end, _, wants_reply = _KEEPALIVE.unpack(data)
            if not self._messages:
                self._seen = max(self._seen, end)
            if wants_reply:
                self._say()
            return 0
        message = data[_DATA.size :]
        self._messages.append(message)
        if message[:1] != COMMIT:
            return 0
        end = commit_end(message)
        rows = [(end, 0, each) for each in self._messages]
        self._messages = []
        self._rows.append(rows)
        self._seen = max(self._seen, end)
        return len(rows)

    @property
    def quiet_until(self) -> int:
        """Up to where nothing is in the log that `next` has not returned."""
        return self._seen if not self._rows and not self._messages else self._confirmed

    def confirm(self, lsn: int) -> None:
        """Let PostgreSQL remove the log before a place."""
        if lsn > self._confirmed:
            self._confirmed = lsn
            self._say()

    def _say(self) -> None:
        self._said_ms = self._clock.mono_ms()
        self._connection.put_copy_data(
            _STATUS.pack(b"r", self._confirmed, self._confirmed, self._confirmed, 0, False)
        )
        self._connection.flush()

    def close(self) -> None:
        """End the connection; PostgreSQL then lets others use the slot."""
        self._connection.finish()


def _lost(reason: str) -> Any:
    import psycopg

    return psycopg.OperationalError(reason)


def behind(rows: list[Row], after: int, upto: int | None) -> list[Row]:
    """Return the transactions that end behind a place; each row's position becomes its transaction's end."""
    found: list[Row] = []
    relations: list[Row] = []
    current: list[Row] = []
    for row in rows:
        kind = row[2][:1]
        current.append(row)
        if kind == RELATION:
            relations.append(row)
        if kind != COMMIT:
            continue
        end = commit_end(row[2])
        if end > after and (upto is None or end <= upto):
            known = [] if found else [(end, each[1], each[2]) for each in relations if each not in current]
            found += known + [(end, each[1], each[2]) for each in current]
        current = []
    return found


def is_visible(snapshot: str, xid: int) -> bool:
    """Return whether a snapshot (xmin:xmax:running) shows what a transaction did; numbers wrap at 32 bits."""
    low, high, running = snapshot.split(":")
    full = int(low) & ~0xFFFFFFFF | xid
    if full < int(low) - (1 << 31):
        full += 1 << 32
    elif full > int(low) + (1 << 31):
        full -= 1 << 32
    if full < int(low):
        return True
    return full < int(high) and full not in [int(each) for each in running.split(",") if each]
