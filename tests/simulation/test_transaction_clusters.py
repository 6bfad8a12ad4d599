"""Transactions in a simulated cluster of real brokers: clients die, are fenced, come late or twice,
coordinators and leaders are lost, and what readers of committed records see is all or nothing.

`python -m ottla.testing.simulate --workload transactions --seeds 1000` runs more seeds; `--seed N` shows one.
"""

import os

import pytest
from tests.simulation.planted_bugs import LAST_FOUND_BY_TRANSACTIONS, find_planted

from ottla.testing.simulate import WORKLOADS, run_seed
from ottla.testing.simulation.scenario import simulate

SEEDS = int(os.environ.get("OTTLA_TRANSACTION_SEEDS", "10"))


@pytest.mark.parametrize("seed", range(SEEDS))
def test_transactions_are_all_or_nothing_whatever_happens(seed: int) -> None:
    outcome = run_seed(seed, workload="transactions")
    assert outcome.violations == [], f"python -m ottla.testing.simulate --workload transactions --seed {seed}"
    assert outcome.acked > 0


def test_one_broker_alone_keeps_transactions_through_power_failures() -> None:
    for seed in range(3):
        outcome = run_seed(seed, nodes=1, workload="transactions")
        assert outcome.violations == [], f"--workload transactions --nodes 1 --seed {seed}"


def test_the_same_seed_gives_the_same_course() -> None:
    one, other = (run_seed(11, workload="transactions") for _ in range(2))
    assert (one.trace, one.callbacks, one.summary) == (other.trace, other.callbacks, other.summary)


def test_without_faults_nothing_is_left_open_and_every_client_gets_through() -> None:
    workload = WORKLOADS["transactions"]
    plan = workload.make_plan(1, 3)
    while plan.faults:
        plan = plan.without(0)
    outcome = simulate(plan, course=workload.course)
    assert outcome.violations == []
    assert outcome.acked > 20


@pytest.mark.parametrize(("bug", "first"), LAST_FOUND_BY_TRANSACTIONS.items())
def test_a_planted_bug_is_found(bug: str, first: int) -> None:
    assert find_planted(bug, "transactions", first) is not None, f"{bug} was not found"
