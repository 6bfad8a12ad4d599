"""Compacted topics in a simulated cluster: keys are written and deleted while brokers fail.

`python -m ottla.testing.simulate --workload compaction --seeds 1000` runs more seeds; `--seed N` shows one.
"""

import os

import pytest
from tests.simulation.planted_bugs import LAST_FOUND_BY_COMPACTION, find_planted

from ottla.testing.simulate import run_seed

SEEDS = int(os.environ.get("OTTLA_COMPACTION_SEEDS", "8"))


@pytest.mark.parametrize("seed", range(SEEDS))
def test_each_key_keeps_its_newest_value_everywhere(seed: int) -> None:
    outcome = run_seed(seed, workload="compaction")
    assert outcome.violations == [], f"python -m ottla.testing.simulate --workload compaction --seed {seed}"
    assert outcome.acked > 0


@pytest.mark.parametrize(("bug", "first"), LAST_FOUND_BY_COMPACTION.items())
def test_a_planted_bug_is_found(bug: str, first: int) -> None:
    assert find_planted(bug, "compaction", first) is not None, f"{bug} was not found"
