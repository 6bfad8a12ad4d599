"""Planted bugs in transactions; see ../bugs.py.

Each is one that whole clusters show within a few seeds. Bugs that need many more seeds here (a batch that
arrives after the end of its transaction, markers that are sent before their decision is committed, or by a
former coordinator) are planted in the smaller model of tests/simulation/test_transactions.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ottla.coordinator.markers import MarkerWriter
from ottla.coordinator.transaction import ending, machine, starting
from ottla.coordinator.transaction.transaction import NO_PRODUCER, Producer, State, Transaction
from ottla.log.log import Log
from ottla.log.producers.producer_state import OpenTransactions
from ottla.log.segment import Segment
from ottla.log.transaction_index import AbortedTransaction

Patch = tuple[Any, str, Any]


def ended_is_stable() -> list[Patch]:
    """A transaction whose marker is not committed yet holds readers back no more."""
    return [
        (OpenTransactions, "first_unstable_offset", lambda transactions, _: transactions.first_open_offset)
    ]


def no_new_epoch_on_abort() -> list[Patch]:
    """A coordinator that aborts by itself leaves the epoch to the producer that it should fence."""

    def aborted(found: Transaction, now_ms: int, last: Producer = NO_PRODUCER) -> Transaction:
        return ending._decided(found, now_ms, State.PREPARE_ABORT, found.holder, last, 0)

    return [(machine, "aborted_by_coordinator", aborted), (starting, "aborted_by_coordinator", aborted)]


def no_index_on_followers() -> list[Patch]:
    """Followers do not note what was aborted."""
    copy, note = Log.append_as_follower, Segment.append_aborted
    copying: list[bool] = []

    def copy_without(log: Log, *args: Any) -> None:
        copying.append(True)
        try:
            copy(log, *args)
        finally:
            copying.pop()

    def note_unless_copying(segment: Segment, aborted: AbortedTransaction) -> None:
        if not copying:
            note(segment, aborted)

    return [(Log, "append_as_follower", copy_without), (Segment, "append_aborted", note_unless_copying)]


def prepared_times_out() -> list[Patch]:
    """A prepared transaction times out like any other."""

    def has_timed_out(found: Transaction, now_ms: int) -> bool:
        return found.state == State.ONGOING and found.start_ms + found.timeout_ms <= now_ms

    return [(Transaction, "has_timed_out", has_timed_out)]


def forgotten_markers() -> list[Patch]:
    """A new coordinator leaves the markers of decided transactions to the one before."""
    loaded = machine.TransactionMachine.loaded

    def loaded_without(self: Any, now_ms: int) -> Any:
        step = loaded(self, now_ms)
        return type(step)(timers=step.timers)

    return [(machine.TransactionMachine, "loaded", loaded_without)]


def endless_markers() -> list[Patch]:
    """A coordinator that has lost the end of its log sends markers to partitions ahead of it forever."""

    async def never(*_: Any) -> dict[Any, Any]:
        return {}

    return [(MarkerWriter, "_fence", never)]


TRANSACTION_BUGS: dict[str, Callable[[], list[Patch]]] = {
    each.__name__.replace("_", "-"): each
    for each in (
        ended_is_stable,
        no_new_epoch_on_abort,
        no_index_on_followers,
        prepared_times_out,
        forgotten_markers,
        endless_markers,
    )
}
"""By the names that `--plant` takes, with `--workload transactions`."""
