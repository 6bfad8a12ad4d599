"""The rules of decisions: which batch of a query is decided, and what follows. Pure code.

For each sink of a query there is a register of two entries:

    owner      the run (one start of the query) that may decide; a new run takes it over from the previous one
    decision   the last decided batch, and its prepared transactions

A batch is decided when its decision is stored: from then on its transactions will be committed, by this run
or another. Before, they will be aborted.
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
    """A prepared transaction."""

    transactional_id: str
    producer_id: int
    producer_epoch: int


class SinkKey(NamedTuple):
    """A sink of a query."""

    query_id: str
    sink: str = MAIN

    @property
    def prefix(self) -> str:
        """The prefix of the transactional ids of its tasks."""
        middle = "" if self.sink == MAIN else f"{self.sink}/"
        return f"{PREFIX}{self.query_id}/{middle}"

    def transactional_id(self, partition: int) -> str:
        """Return the transactional id of a task."""
        return f"{self.prefix}{partition}"

    def owns(self, transactional_id: str) -> bool:
        """Return whether a transactional id belongs to one of its tasks."""
        return transactional_id.startswith(self.prefix) and transactional_id[len(self.prefix) :].isdigit()

    def __str__(self) -> str:
        return f"{self.query_id}/{self.sink}"


@dataclass(frozen=True)
class Decision:
    """A decided batch."""

    batch_id: int
    run_id: str
    writer_id: str
    transactions: tuple[Prepared, ...]
    plan: str | None = None
    """What the batch was planned to read (batch_plans.py), if that is known."""


@dataclass(frozen=True)
class Register:
    """The state of a sink."""

    owner: str | None = None
    decision: Decision | None = None

    def apply(self, entry: str, value: bytes | None) -> Register:
        """Return the register after an entry was written or deleted."""
        if entry == "owner":
            return replace(self, owner=None if value is None else json.loads(value)["run"])
        return replace(self, decision=None if value is None else decode_decision(value))


def encode_decision(decision: Decision) -> bytes:
    """Encode a decision."""
    value: dict[str, Any] = {
        "batch": decision.batch_id,
        "run": decision.run_id,
        "writer": decision.writer_id,
        "transactions": [list(each) for each in decision.transactions],
    }
    if decision.plan is not None:
        value["plan"] = decision.plan
    return json.dumps(value).encode()


def decode_decision(value: bytes) -> Decision:
    """Decode a decision."""
    found: dict[str, Any] = json.loads(value)
    return Decision(
        found["batch"],
        found["run"],
        found["writer"],
        tuple(Prepared(*each) for each in found["transactions"]),
        found.get("plan"),
    )


def is_decided(register: Register, batch_id: int, run_id: str, writer_id: str) -> bool:
    """Return whether a task has nothing to write, because its batch is decided.

    Raise StaleCheckpoint if a later batch is decided already, and SameSinkTwice if this run has decided the
    batch by another write: then two sinks have the same name.
    """
    decision = register.decision
    if decision is None or decision.batch_id < batch_id:
        return False
    if decision.batch_id > batch_id:
        raise StaleCheckpoint(
            f"batch {batch_id} is to be written, but batch {decision.batch_id} of this query was "
            "already written: "
            "the checkpoint is older than the output, perhaps restored from a backup. Use the newest "
            "checkpoint, or start with a new, empty one (and, if need be, startingOffsets)"
        )
    if decision.run_id == run_id and _are_of_one_call(decision.writer_id, writer_id):
        raise SameSinkTwice(
            f"batch {batch_id} was written twice under the same sink name. Give each write in "
            "foreachBatch its "
            'own name: .option("sinkName", "...")'
        )
    return True


def check_plan(decision: Decision, plan: str | None) -> None:
    """Raise StaleCheckpoint if a decided batch was planned to read something else than the one to write."""
    if plan is not None and decision.plan is not None and plan != decision.plan:
        raise StaleCheckpoint(
            f"batch {decision.batch_id} of this query was already written, with other records than are to be "
            "written now: the checkpoint is older than the output (restored from a backup), or files of it "
            "were lost. Use the newest checkpoint, or start with a new, empty one (and, if need be, "
            "startingOffsets)"
        )


def _are_of_one_call(one: str, other: str) -> bool:
    """Return whether two writers, `<execution>/<id>`, are different ones in one call of foreachBatch."""
    return one != other and one.rpartition("/")[0] == other.rpartition("/")[0]


def check_owner(register: Register, run_id: str) -> None:
    """Raise Superseded unless the run owns the register."""
    if register.owner != run_id:
        raise Superseded(
            "another run of this query has taken over: the same checkpoint is used twice at the same time. "
            "Stop one of the two"
        )


def split_prepared(
    register: Register, batch_id: int, prepared: Iterable[Prepared]
) -> tuple[list[Prepared], list[Prepared]]:
    """Return the transactions to commit and to abort when a batch is aborted."""
    decision = register.decision
    decided = () if decision is None or decision.batch_id != batch_id else decision.transactions
    return list(decided), [each for each in prepared if each not in decided]


def to_abort(
    key: SinkKey, found: Iterable[str], decision: Decision | None, kept: Iterable[Prepared] = ()
) -> list[str]:
    """Return those of the open transactions that will never be decided."""
    safe = {each.transactional_id for each in kept}
    if decision is not None:
        safe |= {each.transactional_id for each in decision.transactions}
    return sorted(each for each in found if key.owns(each) and each not in safe)
