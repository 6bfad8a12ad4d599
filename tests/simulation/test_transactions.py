"""Transactions on a network that drops, delays, doubles and reorders, with brokers that fail.

OTTLA_SEEDS=20000 runs more of them; a failure names its seed. That the checks can find something is shown by
bugs that are planted, each left to be found.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import pytest
from tests.simulation.transaction_partition import DataPartition, SimPartition
from tests.simulation.transaction_shard import SimShard
from tests.simulation.transaction_world import World

from ottla.coordinator.transaction.transaction import Transaction
from ottla.log.producers.producer_state import OpenTransactions, ProducerState
from ottla.log.producers.verification import Verifications

SEEDS = int(os.environ.get("OTTLA_SEEDS", "90"))
CHUNKS = 5
ENOUGH = 400
"""In so many seeds, every planted bug is found."""


def problem_of(seed: int, *, is_v2: bool, is_orderly: bool) -> str | None:
    """Return what goes wrong with a seed; None if nothing does."""
    try:
        World(seed, is_v2=is_v2, is_orderly=is_orderly).run()
    except AssertionError as error:
        return f"seed {seed}, is_v2={is_v2}, is_orderly={is_orderly}: {error}"
    return None


def first_problem(*, is_v2: bool, is_orderly: bool) -> str:
    """Return the first problem of many seeds."""
    found = (problem_of(seed, is_v2=is_v2, is_orderly=is_orderly) for seed in range(ENOUGH))
    return next(each for each in found if each is not None)


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_version_2_keeps_its_promises_whatever_the_network_does(chunk: int) -> None:
    for seed in range(chunk, SEEDS, CHUNKS):
        assert problem_of(seed, is_v2=True, is_orderly=False) is None


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_the_classic_protocol_keeps_its_promises_if_nothing_arrives_late(chunk: int) -> None:
    for seed in range(chunk, SEEDS, CHUNKS):
        assert problem_of(seed, is_v2=False, is_orderly=True) is None


def test_the_classic_protocol_breaks_them_if_requests_arrive_late() -> None:
    """That is inherent: see docs/transactions.md."""
    assert "was read" in first_problem(is_v2=False, is_orderly=False)


def test_a_seed_is_the_same_run_every_time() -> None:
    first, second = (World(7, is_v2=True, is_orderly=False) for _ in range(2))
    first.run()
    second.run()
    assert first.history == second.history


# Planted bugs


def plant_no_verification(patch: pytest.MonkeyPatch) -> None:
    """Append whatever comes, without asking the coordinator."""

    def produce(
        self: DataPartition, _: str, producer: Any, sequence: int, values: Any, adds: bool, answer: Any
    ) -> None:
        self._append(producer, sequence, values, answer)

    patch.setattr(DataPartition, "produce", produce)
    patch.setattr(Verifications, "check", lambda *_: None)


def plant_markers_before_the_decision_is_committed(patch: pytest.MonkeyPatch) -> None:
    """Write markers at once; a failover may forget why."""
    patch.setattr(SimShard, "sends_early", True)


def plant_markers_count_before_they_are_committed(patch: pytest.MonkeyPatch) -> None:
    """Let readers continue when a marker is in the log of the leader only."""
    patch.setattr(OpenTransactions, "first_unstable_offset", lambda self, _: self.first_open_offset)


def plant_no_timeouts(patch: pytest.MonkeyPatch) -> None:
    """Never abort what its producer has left."""
    patch.setattr(Transaction, "has_timed_out", lambda *_: False)


def plant_prepared_transactions_time_out(patch: pytest.MonkeyPatch) -> None:
    """Abort what is prepared."""

    def has_timed_out(self: Transaction, now_ms: int) -> bool:
        return self.state == 1 and self.start_ms + self.timeout_ms <= now_ms

    patch.setattr(Transaction, "has_timed_out", has_timed_out)


def plant_no_fencing_at_the_partition(patch: pytest.MonkeyPatch) -> None:
    """Take markers of any epoch."""
    patch.setattr(ProducerState, "check_marker", lambda *_: None)


def plant_open_transactions_are_forgotten_by_a_crash(patch: pytest.MonkeyPatch) -> None:
    """Lose the open transactions when the log is opened again."""
    crash = SimPartition.crash

    def forgetful(self: SimPartition) -> None:
        crash(self)
        self.log.producers.transactions = OpenTransactions()

    patch.setattr(SimPartition, "crash", forgetful)


BUGS = [
    (plant_no_verification, True),
    (plant_markers_count_before_they_are_committed, True),
    (plant_no_timeouts, True),
    (plant_prepared_transactions_time_out, True),
    (plant_no_fencing_at_the_partition, True),
    (plant_open_transactions_are_forgotten_by_a_crash, True),
    (plant_markers_before_the_decision_is_committed, False),
]


@pytest.mark.parametrize(
    ("plant", "is_v2"), BUGS, ids=[f"{bug.__name__}-{'v2' if v2 else 'classic'}" for bug, v2 in BUGS]
)
def test_a_planted_bug_is_found(
    plant: Callable[[pytest.MonkeyPatch], None], is_v2: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    print(first_problem(is_v2=is_v2, is_orderly=not is_v2))
