"""Which transactions in a stretch of a log were aborted, found out by reading headers and markers.

A marker (see protocol/records/control.py) decides all transactional batches of its producer since that
producer's marker before. It may lie beyond the stretch that is asked about, so the scan goes on until nothing
is open. What is still open at the end of the log bounds how far the log can be cleaned.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from operator import itemgetter

from ottla.log.transaction_index import AbortedTransaction
from ottla.protocol.records.batch import BatchHeader, Buffer
from ottla.protocol.records.control import decode_marker

_first_offset = itemgetter(0)


class AbortedTransactions:
    """Feed it every transactional batch, in order; then it knows which were aborted."""

    def __init__(self) -> None:
        self._open: dict[int, int] = {}
        self._aborted: defaultdict[int, list[tuple[int, int]]] = defaultdict(list)

    def saw_records(self, header: BatchHeader) -> None:
        """Take note of a transactional batch."""
        self._open.setdefault(header.producer_id, header.base_offset)

    def saw_marker(self, header: BatchHeader, batch: memoryview) -> None:
        """Take note of a control batch."""
        first_offset = self._open.pop(header.producer_id, None)
        if first_offset is not None and is_abort(header, batch):
            self._aborted[header.producer_id].append((first_offset, header.last_offset))

    def includes(self, header: BatchHeader) -> bool:
        """Return whether a transactional batch belongs to an aborted transaction."""
        ranges = self._aborted.get(header.producer_id)
        if ranges is None:
            return False
        at = bisect_right(ranges, header.base_offset, key=_first_offset) - 1
        return at >= 0 and header.base_offset <= ranges[at][1]

    @property
    def first_open_offset(self) -> int | None:
        """Where the oldest transaction starts whose marker was not seen yet; None if there is none."""
        return min(self._open.values(), default=None)

    def has_open_below(self, offset: int) -> bool:
        """Return whether the fate of something below `offset` is still unknown."""
        return any(first < offset for first in self._open.values())


class KeptTransactions:
    """Feed it every batch that compaction keeps, from the log's start: it tells what to put into the index.

    What is left of an aborted transaction, if anything, are batches without records. As long as there is one,
    the transaction is in the index: it is what one would find by building the index anew.
    """

    def __init__(self) -> None:
        self._open: dict[int, int] = {}

    def saw(self, header: BatchHeader, batch: Buffer) -> AbortedTransaction | None:
        """Take note of a batch; return the transaction that it aborts, if any."""
        producer_id = header.producer_id
        if not header.is_control:
            if header.is_transactional:
                self._open.setdefault(producer_id, header.base_offset)
            return None
        marker = decode_marker(header, batch)
        first_offset = None if marker is None else self._open.pop(producer_id, None)
        if marker is None or first_offset is None or marker.is_commit:
            return None
        stable = next(iter(self._open.values()), header.next_offset)
        return AbortedTransaction(producer_id, first_offset, header.last_offset, stable)


def is_abort(header: BatchHeader, batch: memoryview) -> bool:
    """Return whether a control batch aborts its producer's transaction."""
    marker = decode_marker(header, batch)
    return marker is not None and not marker.is_commit
