"""Brokers with two log directories, one of which dies, is missing at a start, or is replaced, by seed."""

from __future__ import annotations

import os

import pytest
from tests.simulation.planted_bugs import LAST_FOUND_BY_DISKS, find_planted

from ottla.testing.simulate import run_seed

SEEDS = int(os.environ.get("OTTLA_SEEDS", "60")) // 3
CHUNKS = 2


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_no_promise_is_broken_when_one_of_two_disks_fails(chunk: int) -> None:
    for seed in range(chunk, SEEDS, CHUNKS):
        violations = run_seed(seed, workload="disks").violations
        assert not violations, f"--workload disks --seed {seed}: {violations[0]}"


@pytest.mark.parametrize(("bug", "first"), LAST_FOUND_BY_DISKS.items())
def test_planted_bugs_are_found(bug: str, first: int) -> None:
    assert find_planted(bug, "disks", first) is not None, f"{bug} was not found"
