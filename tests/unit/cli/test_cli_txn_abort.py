"""When it is too late to abort a transaction."""

from __future__ import annotations

import pytest

from ottla.cli.support.problems import Problem
from ottla.cli.txn.abort import _check_undecided
from ottla.client.admin.transactions import OpenTransaction, TransactionDescription
from ottla.common.ids import TopicPartition


def described(state: str) -> TransactionDescription:
    return TransactionDescription(
        "billing-3", state, 7, 1, 60_000, 1_000, (TopicPartition("orders", 2),), coordinator=1
    )


@pytest.mark.parametrize(("state", "what"), [("PrepareCommit", "committed"), ("PrepareAbort", "aborted")])
def test_what_is_decided_cannot_be_aborted_and_it_is_said_what_it_waits_for(state: str, what: str) -> None:
    with pytest.raises(Problem, match=f"billing-3 is already being {what}") as refused:
        _check_undecided(described(state))
    assert any("orders-2" in hint for hint in refused.value.hints)


@pytest.mark.parametrize("state", ["Empty", "Ongoing", "CompleteCommit", "CompleteAbort"])
def test_everything_else_can_be_looked_at(state: str) -> None:
    _check_undecided(described(state))


@pytest.mark.parametrize(
    ("epoch", "partition", "is_known"), [(0, 2, True), (1, 2, True), (2, 2, False), (1, 3, False)]
)
def test_a_transaction_that_is_ahead_of_its_coordinator_hangs(
    epoch: int, partition: int, is_known: bool
) -> None:
    opened = OpenTransaction(TopicPartition("orders", partition), 7, epoch, 1042, 1_000, 0)
    assert described("Ongoing").knows(opened) is is_known
