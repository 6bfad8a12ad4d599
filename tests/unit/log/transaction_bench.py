"""What the tests of transactions in a log share: producers, and a consumer that filters as clients do."""

from __future__ import annotations

from collections.abc import Sequence

from tests.unit.log.bench import stored_bytes

from ottla.log.log import Log
from ottla.log.log_types import AppendResult
from ottla.log.transaction_index import AbortedTransaction
from ottla.protocol.records.batch import BatchHeader, check_batch, iter_batches
from ottla.protocol.records.control import Marker, decode_marker
from ottla.protocol.records.records import Record, decode_records, encode_batch


class TransactionalProducer:
    """A producer that has a verified transaction whenever it writes."""

    def __init__(self, producer_id: int, epoch: int = 0) -> None:
        self.producer_id = producer_id
        self.epoch = epoch
        self.sequence = 0

    def write(self, log: Log, *values: str) -> AppendResult:
        """Append a batch to a transaction."""
        return self.write_pairs(log, *((b"key", value.encode()) for value in values))

    def write_pairs(self, log: Log, *pairs: tuple[bytes, bytes | None]) -> AppendResult:
        """Append a batch of keys and values to a transaction."""
        now_ms = log.clock.wall_ms()
        batch = memoryview(
            encode_batch(
                [Record(at, now_ms, key, value) for at, (key, value) in enumerate(pairs)],
                producer_id=self.producer_id,
                producer_epoch=self.epoch,
                base_sequence=self.sequence,
                transactional=True,
            )
        )
        if not log.producers.has_open_transaction(self.producer_id, self.epoch):
            log.verifications.begin(self.producer_id, self.epoch, self.sequence).confirm()
        appended = log.append(batch, check_batch(batch), 0, log.clock.wall_ms())
        self.sequence += len(pairs)
        return appended

    def end(self, log: Log, *, commit: bool, coordinator_epoch: int = 0, version: int = 0) -> AppendResult:
        """End the transaction; with version 2, as a coordinator does that bumps the epoch."""
        if version >= 2:
            self.epoch += 1
            self.sequence = 0
        marker = Marker(self.producer_id, self.epoch, commit, coordinator_epoch, version)
        return log.append_marker(marker, 0, log.clock.wall_ms())


def stable_offset(log: Log, high_watermark: int | None = None) -> int:
    """Return the last stable offset, as a partition works it out."""
    high_watermark = log.log_end_offset if high_watermark is None else high_watermark
    first = log.producers.transactions.first_unstable_offset(high_watermark)
    return high_watermark if first is None else max(log.log_start_offset, min(first, high_watermark))


def fetch_committed(log: Log, offset: int, max_bytes: int = 1 << 20) -> tuple[dict[int, str], int]:
    """Return the committed records of one fetch, and where to go on."""
    read = log.read(offset, max_bytes, stable_offset(log))
    aborted = log.aborted_transactions(offset, read.next_offset)
    assert [each.first_offset for each in aborted] == sorted(each.first_offset for each in aborted)
    batches = [(header, bytes(batch)) for header, batch in iter_batches(stored_bytes(read.records))]
    found = committed_values(batches, aborted)
    return {at: value for at, value in found.items() if at >= offset}, read.next_offset


def committed_values(
    batches: Sequence[tuple[BatchHeader, bytes]], aborted: Sequence[AbortedTransaction]
) -> dict[int, str]:
    """Filter batches as a client does that knows nothing but the list of aborted transactions."""
    waiting = list(aborted)
    dropped: set[int] = set()
    found: dict[int, str] = {}
    for header, batch in batches:
        while waiting and waiting[0].first_offset <= header.last_offset:
            dropped.add(waiting.pop(0).producer_id)
        if header.is_control:
            marker = decode_marker(header, batch)
            if marker is not None and not marker.is_commit:
                dropped.discard(header.producer_id)
        elif not (header.is_transactional and header.producer_id in dropped):
            found |= {each.offset: (each.value or b"").decode() for each in decode_records(batch)}
    return found


def read_committed(log: Log, offset: int | None = None, max_bytes: int = 1 << 20) -> dict[int, str]:
    """Return what a consumer of committed records sees from `offset` on, in fetches of `max_bytes`."""
    at = log.log_start_offset if offset is None else offset
    found: dict[int, str] = {}
    while at < stable_offset(log):
        some, after = fetch_committed(log, at, max_bytes)
        if after == at:
            break
        found |= some
        at = after
    return found


def truth(batches: Sequence[tuple[BatchHeader, bytes]]) -> tuple[dict[int, str], int | None]:
    """Return the committed records of a log, and where the first undecided one is, by its batches alone."""
    found: dict[int, str] = {}
    verdicts: dict[int, bool] = {}
    first_open = None
    for header, batch in reversed(batches):
        if header.is_control:
            marker = decode_marker(header, batch)
            if marker is not None:
                verdicts[header.producer_id] = marker.is_commit
            continue
        verdict = verdicts.get(header.producer_id) if header.is_transactional else True
        if verdict is None:
            first_open = header.base_offset
        elif verdict:
            found |= {each.offset: (each.value or b"").decode() for each in decode_records(batch)}
    return dict(sorted(found.items())), first_open


def index_entries(log: Log) -> list[AbortedTransaction]:
    """Return everything in the indexes of aborted transactions."""
    return [
        each
        for segment in log.segments
        if segment.txn_index is not None
        for each in segment.txn_index.entries()
    ]
