"""Reads a .txnindex file for a human. The layout is described in transaction_index.py."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ottla.log.dump_entries import Gap
from ottla.log.transaction_index import ENTRY


@dataclass(frozen=True, slots=True)
class AbortedEntry:
    """One entry of a .txnindex file."""

    position: int
    version: int
    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int
    problem: str | None


def dump_txn_index(path: Path) -> Iterator[AbortedEntry | Gap]:
    """Yield the aborted transactions of a .txnindex file."""
    data = path.read_bytes()
    before = -1
    for position in range(0, len(data) - ENTRY.size + 1, ENTRY.size):
        version, producer_id, first, last, stable = ENTRY.unpack_from(data, position)
        problem = None
        if version != 0:
            problem = f"version {version} instead of 0"
        elif last <= before:
            problem = "does not ascend"
        elif first > last:
            problem = "ends before it begins"
        before = last
        yield AbortedEntry(position, version, producer_id, first, last, stable, problem)
    torn = len(data) % ENTRY.size
    if torn:
        yield Gap(len(data) - torn, torn, f"an entry takes {ENTRY.size} bytes: a torn write?")
