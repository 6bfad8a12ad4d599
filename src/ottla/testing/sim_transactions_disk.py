"""Transactions on the disks of stopped brokers: what is committed in a log, and what its indexes say."""

from __future__ import annotations

from collections.abc import Iterator

from ottla.log.disk import Disk
from ottla.log.names import TXN_INDEX
from ottla.log.transaction_index import ENTRY
from ottla.protocol.records.control import decode_marker
from ottla.protocol.records.records import decode_records
from ottla.testing.checker import Violation
from ottla.testing.history import Read
from ottla.testing.replica_check import Replica


def committed_records(replica: Replica) -> list[Read]:
    """Return what readers of committed records should see."""
    found: list[Read] = []
    undecided: dict[int, list[Read]] = {}
    for header, batch in replica.batches:
        if header.is_control:
            marker = decode_marker(header, batch)
            decided = undecided.pop(header.producer_id, [])
            if marker is not None and marker.is_commit:
                found += decided
            continue
        records = [(each.offset, each.value or b"") for each in decode_records(batch)]
        if header.is_transactional:
            undecided.setdefault(header.producer_id, []).extend(records)
        else:
            found += records
    return sorted(found)


def check_aborted_index(disk: Disk, directory: str, replica: Replica) -> Iterator[Violation]:
    """Yield where the `.txnindex` files say something else than the markers in the log."""
    expected: list[tuple[int, int, int]] = []
    begun: dict[int, int] = {}
    for header, batch in replica.batches:
        if not header.is_control:
            if header.is_transactional:
                begun.setdefault(header.producer_id, header.base_offset)
            continue
        marker = decode_marker(header, batch)
        first = begun.pop(header.producer_id, None)
        if marker is not None and not marker.is_commit and first is not None:
            expected.append((header.producer_id, first, header.last_offset))
    found: list[tuple[int, int, int]] = []
    for name in sorted(entry.name for entry in disk.list_dir(directory)):
        if name.endswith(TXN_INDEX):
            entries = ENTRY.iter_unpack(disk.read_file(f"{directory}/{name}"))
            found += [(each[1], each[2], each[3]) for each in entries]
    if found != expected:
        wrong = sorted(set(found) ^ set(expected))[:3]
        yield Violation("wrong-aborted-index", f"{directory}: {wrong} of {len(expected)}")
