"""Check what read_committed readers saw against the known outcomes of transactions.

    lost-transaction     a record of a committed transaction is missing
    aborted-read         a record, or an offset, of a transaction that was not committed
    torn-transaction     a transaction is visible in part
    torn-offset          a group's offset is not that of the last committed transaction
    phantom              a record that was never sent to the partition
    duplicate            a record exists twice
    reordered            a record comes before an earlier one of the same transactional id
    inconsistent-read    a reader saw something else than later readers
    unseen               a reader did not get an existing record

The outcome of a transaction that its client does not know is taken from the logs: then it must be the same
everywhere.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ottla.common.ids import TopicPartition
from ottla.log.disk import Disk
from ottla.log.file_names import TXN_INDEX
from ottla.log.transaction_index import ENTRY
from ottla.protocol.records.control import decode_marker
from ottla.protocol.records.records import decode_records
from ottla.testing.checker import MAX_PER_KIND, Violation
from ottla.testing.history import Read
from ottla.testing.replica_check import Replica
from ottla.testing.simulation.transactions.attempts import Attempt, TransactionHistory, TransactionOutcome

# Transactions on the disks of stopped brokers: what is committed in a log, and what its indexes say.


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


Logs = Mapping[TopicPartition, Sequence[Read]]


def check_transactions(ledger: TransactionHistory, logs: Logs, offsets: Mapping[str, int]) -> list[Violation]:
    """Return what is wrong: `logs` is what is readable in the end, `offsets` what groups have then."""
    there = {place: {value for _, value in records} for place, records in logs.items()}
    found = [violation for each in ledger.attempts for violation in _check_attempt(each, there)]
    found += _check_values(ledger, logs)
    found += _check_offsets(ledger, there, offsets)
    return found[:MAX_PER_KIND]


def check_reader(
    name: str, seen: Logs, positions: Mapping[TopicPartition, int], logs: Logs
) -> Iterator[Violation]:
    """Yield where a reader saw something else than what is readable in the end."""
    for place, records in logs.items():
        position = positions[place]
        expected = [each for each in records if each[0] < position]
        if list(seen[place]) != expected:
            wrong = sorted(set(seen[place]) ^ set(expected))[:3]
            yield Violation("inconsistent-read", f"{name} of {place} up to {position}: {wrong}")
        if len(expected) < len(records):
            yield Violation("unseen", f"{name} has read {place} up to {position}, {records[-1]} is there")


def _check_attempt(attempt: Attempt, there: Mapping[TopicPartition, set[bytes]]) -> Iterator[Violation]:
    sent = [(place, value) for place, values in attempt.values.items() for value in values]
    missing = [value for place, value in sent if value not in there[place]]
    what = f"transaction {attempt.number} of {attempt.transactional_id} ({attempt.outcome.value})"
    if attempt.outcome is TransactionOutcome.COMMITTED and missing:
        yield Violation("lost-transaction", f"{what}: {missing[:3]} of {len(sent)}")
    if attempt.outcome is TransactionOutcome.ABORTED and len(missing) < len(sent):
        visible = [value for _, value in sent if value not in missing]
        yield Violation("aborted-read", f"{what}: {visible[:3]} of {len(sent)}")
    if attempt.outcome is TransactionOutcome.UNKNOWN and 0 < len(missing) < len(sent):
        yield Violation("torn-transaction", f"{what}: {missing[:3]} of {len(sent)} are missing")


def _check_values(ledger: TransactionHistory, logs: Logs) -> Iterator[Violation]:
    for place, records in logs.items():
        seen: set[bytes] = set()
        last: dict[str, tuple[int, int]] = {}
        for offset, value in records:
            attempt = ledger.attempt_of(value)
            where = f"{value!r} at {place} offset {offset}"
            if attempt is None or value not in attempt.values.get(place, ()):
                yield Violation("phantom", where)
                continue
            if value in seen:
                yield Violation("duplicate", where)
            seen.add(value)
            at = attempt.number, int(value.split(b".")[2])
            if at < last.get(attempt.transactional_id, at):
                yield Violation("reordered", f"{where} of {attempt.transactional_id} follows a later record")
            last[attempt.transactional_id] = at


def _check_offsets(
    ledger: TransactionHistory, there: Mapping[TopicPartition, set[bytes]], offsets: Mapping[str, int]
) -> Iterator[Violation]:
    """A group's offset is that of the last transaction that has one and is there."""
    expected: dict[str, int] = {}
    possible: dict[str, set[int]] = {}
    for each in ledger.attempts:
        sent = [(place, value) for place, values in each.values.items() for value in values]
        if each.has_offset and each.outcome is not TransactionOutcome.ABORTED:
            possible.setdefault(each.transactional_id, set()).add(each.number)
            if sent and all(value in there[place] for place, value in sent):
                expected[each.transactional_id] = each.number
    for group, offset in offsets.items():
        if offset != expected.get(group, -1):
            detail = f"{group} is at {offset}, its last transaction is {expected.get(group, -1)}"
            yield Violation("torn-offset", detail)
    for group, seen in ledger.offsets_seen.items():
        for offset in sorted(seen - possible.get(group, set()) - {-1}):
            yield Violation("aborted-read", f"{group} had offset {offset}, of a transaction that failed")
