"""Which batch of a query is decided, and what follows from that: pure.

For each sink of a query there is a register of two entries:

    owner      the run (one start of the query) that may decide; a new run takes it over from the one before
    decision   the last batch that is decided, and the prepared transactions that it consists of

A batch is decided when its decision is stored: from then on its transactions will be committed, whoever does
it. Before, they will be aborted.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from ottla.spark.errors import SameSinkTwice, StaleCheckpoint, Superseded

PREFIX = "spark/"
MAIN = "main"


class Prepared(NamedTuple):
    """A transaction that waits to be ended."""

    transactional_id: str
    producer_id: int
    producer_epoch: int


class SinkKey(NamedTuple):
    """A sink of a query."""

    query_id: str
    sink: str = MAIN

    @property
    def prefix(self) -> str:
        """How the transactional ids of its tasks begin."""
        middle = "" if self.sink == MAIN else f"{self.sink}/"
        return f"{PREFIX}{self.query_id}/{middle}"

    def transactional_id(self, partition: int) -> str:
        """Return the transactional id of a task."""
        return f"{self.prefix}{partition}"

    def owns(self, transactional_id: str) -> bool:
        """Return whether a transactional id is one of its tasks'."""
        return transactional_id.startswith(self.prefix) and transactional_id[len(self.prefix) :].isdigit()

    def __str__(self) -> str:
        return f"{self.query_id}/{self.sink}"


@dataclass(frozen=True)
class Decision:
    """A batch that is decided."""

    batch_id: int
    run_id: str
    writer_id: str
    transactions: tuple[Prepared, ...]


@dataclass(frozen=True)
class Register:
    """What is known of a sink."""

    owner: str | None = None
    decision: Decision | None = None

    def apply(self, entry: str, value: bytes | None) -> Register:
        """Return the register after an entry was written; one that was deleted is empty."""
        if entry == "owner":
            return replace(self, owner=None if value is None else json.loads(value)["run"])
        return replace(self, decision=None if value is None else decode_decision(value))


def encode_decision(decision: Decision) -> bytes:
    """Return a decision as it is stored."""
    return json.dumps(
        {
            "batch": decision.batch_id,
            "run": decision.run_id,
            "writer": decision.writer_id,
            "transactions": [list(each) for each in decision.transactions],
        }
    ).encode()


def decode_decision(value: bytes) -> Decision:
    """Return the decision that `encode_decision` wrote."""
    found: dict[str, Any] = json.loads(value)
    return Decision(
        found["batch"],
        found["run"],
        found["writer"],
        tuple(Prepared(*each) for each in found["transactions"]),
    )


def is_decided(register: Register, batch_id: int, run_id: str, writer_id: str) -> bool:
    """Return whether a task has nothing to write, because its batch is decided.

    Raise StaleCheckpoint if a later batch is decided already, and SameSinkTwice if this run has decided
    the batch by another write: then two sinks have the same name.
    """
    decision = register.decision
    if decision is None or decision.batch_id < batch_id:
        return False
    if decision.batch_id > batch_id:
        raise StaleCheckpoint(
            f"batch {batch_id} is to be written, but batch {decision.batch_id} of this query is written "
            "already: the checkpoint is older than the output, perhaps restored from a backup. Go back to "
            "the newest checkpoint, or start with a new, empty one (and, if need be, startingOffsets)"
        )
    if decision.run_id == run_id and decision.writer_id != writer_id:
        raise SameSinkTwice(
            f"batch {batch_id} was written twice under the same sink name. Give each write in foreachBatch a "
            'name of its own: .option("sinkName", "...")'
        )
    return True


def check_owner(register: Register, run_id: str) -> None:
    """Raise Superseded unless the run owns the register."""
    if register.owner != run_id:
        raise Superseded(
            "another run of this query has taken over: the same checkpoint is used twice at the same time. "
            "Stop one of the two"
        )


def sort_out(
    register: Register, batch_id: int, prepared: Iterable[Prepared]
) -> tuple[list[Prepared], list[Prepared]]:
    """Return what is to be committed and what is to be aborted when a batch is given up."""
    decision = register.decision
    decided = () if decision is None or decision.batch_id != batch_id else decision.transactions
    return list(decided), [each for each in prepared if each not in decided]


def to_abort(
    key: SinkKey, found: Iterable[str], decision: Decision | None, kept: Iterable[Prepared] = ()
) -> list[str]:
    """Return, of the open transactions that were found, those which nobody will ever decide for."""
    safe = {each.transactional_id for each in kept}
    if decision is not None:
        safe |= {each.transactional_id for each in decision.transactions}
    return sorted(each for each in found if key.owns(each) and each not in safe)
