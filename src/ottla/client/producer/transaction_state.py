"""Where a transactional producer is, and which transaction it has prepared; see transactions.py.

    NEW ──init──► READY ──begin──► OPEN ──commit──► COMMITTING ──► READY
                                    │ ╲ prepare
                                    │  ╲──► PREPARED ──commit or abort──► ...
                                    ├──abort──► ABORTING ──► READY
                                    └─(a record or a request fails)─► FAILED ──abort──► ABORTING ──► READY
    FENCED: another producer has taken the transactional id, or it was taken from us; nothing goes any more.

A commit whose answer does not come in time may be repeated: the state stays COMMITTING until it is known.
A prepared transaction outlives its producer: the next one with the same id finds it (init, `keep_prepared`).
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple


class State(Enum):
    """Where a producer is."""

    NEW = "not initialised"
    READY = "between transactions"
    OPEN = "in a transaction"
    PREPARED = "prepared"
    COMMITTING = "committing"
    ABORTING = "aborting"
    FAILED = "failed"
    FENCED = "fenced"


class PreparedTransaction(NamedTuple):
    """Which transaction was prepared: to be remembered outside, and compared when it is found again."""

    producer_id: int
    producer_epoch: int

    def __str__(self) -> str:
        return f"{self.producer_id}:{self.producer_epoch}"

    @classmethod
    def parse(cls, text: str) -> PreparedTransaction:
        """Return what `str` wrote; raise ValueError if it is something else."""
        producer_id, _, epoch = text.partition(":")
        return cls(int(producer_id), int(epoch))


HINTS = {
    State.NEW: "call init_transactions first",
    State.READY: "call begin_transaction first",
    State.OPEN: "a transaction is open: commit or abort it first",
    State.PREPARED: "the transaction is prepared: only commit or abort it",
    State.COMMITTING: "the commit is not answered yet: repeat commit_transaction",
    State.ABORTING: "the abort is not answered yet: repeat abort_transaction",
}
"""What to do first, when a call does not fit the state."""
