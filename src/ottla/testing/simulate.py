"""Run seeds on all cores, and report those that violate a guarantee.

python -m ottla.testing.simulate --seeds 1000          # 0 to 999
python -m ottla.testing.simulate --seed 7              # one, with details
python -m ottla.testing.simulate --seed 7 --shrink     # with as few faults as possible
python -m ottla.testing.simulate --workload transactions
"""

from __future__ import annotations

import argparse
import gc
import logging
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from typing import NamedTuple

from ottla.testing.simulation.bugs import ALL_BUGS, plant
from ottla.testing.simulation.compaction import CompactionScenario
from ottla.testing.simulation.plan import (
    Plan,
    make_compaction_plan,
    make_disks_plan,
    make_plan,
    make_transaction_plan,
)
from ottla.testing.simulation.scenario import Outcome, Scenario, simulate
from ottla.testing.simulation.transactions.scenario import TransactionScenario

CHUNK = 10
GARBAGE = 20_000
"""The threshold of the garbage collector."""


class Workload(NamedTuple):
    """What clients do."""

    make_plan: Callable[[int, int | None], Plan]
    course: type[Scenario]


WORKLOADS = {
    "records": Workload(make_plan, Scenario),
    "disks": Workload(make_disks_plan, Scenario),
    "compaction": Workload(make_compaction_plan, CompactionScenario),
    "transactions": Workload(make_transaction_plan, TransactionScenario),
}


def run_seed(seed: int, nodes: int | None = None, workload: str = "records") -> Outcome:
    """Run one seed."""
    chosen = WORKLOADS[workload]
    return simulate(chosen.make_plan(seed, nodes), course=chosen.course)


def failures(
    seeds: Iterable[int],
    nodes: int | None = None,
    workers: int | None = None,
    bug: str | None = None,
    workload: str = "records",
) -> Iterator[tuple[int, list[str]]]:
    """Yield each failing seed with its violations, as they are found."""
    with ProcessPoolExecutor(workers or os.cpu_count() or 1, None, _prepare, (bug,)) as pool:
        for seed, found in pool.map(_try_seed, ((seed, nodes, workload) for seed in seeds), chunksize=CHUNK):
            if found:
                yield seed, found


def _prepare(bug: str | None) -> None:
    """Prepare a worker: exclude imported modules from garbage collection."""
    gc.freeze()
    gc.set_threshold(GARBAGE)
    if bug is not None:
        plant(bug)


def _try_seed(what: tuple[int, int | None, str]) -> tuple[int, list[str]]:
    seed = what[0]
    try:
        return seed, [str(each) for each in run_seed(*what).violations]
    except Exception as error:
        return seed, [f"crashed: {error!r}"]


def shrink(plan: Plan, course: type[Scenario] = Scenario) -> Plan:
    """Return the plan with as few faults as still violate a guarantee."""
    at = 0
    while at < len(plan.faults):
        smaller = plan.without(at)
        if simulate(smaller, course=course).violations:
            plan = smaller
        else:
            at += 1
    return plan


def main(arguments: list[str] | None = None) -> int:
    """Run the command line; return 1 if a guarantee was violated."""
    parser = argparse.ArgumentParser(
        prog="python -m ottla.testing.simulate", description=__doc__.split("\n")[0]
    )
    parser.add_argument("--seeds", type=int, default=1000, help="how many seeds to run")
    parser.add_argument("--first", type=int, default=0, help="the first of them")
    parser.add_argument("--seed", type=int, help="run this seed only, and show details")
    parser.add_argument("--shrink", action="store_true", help="find the relevant faults of --seed")
    parser.add_argument("--log", default="ERROR", help="the log level of the brokers of --seed: INFO, DEBUG")
    parser.add_argument("--nodes", type=int, help="brokers per cluster")
    parser.add_argument("--plant", choices=ALL_BUGS, help="plant a bug, which should be found")
    parser.add_argument("--workload", choices=WORKLOADS, default="records", help="what clients do")
    parser.add_argument("--workers", type=int, help="number of processes")
    given = parser.parse_args(arguments)
    if given.seed is not None:
        if given.plant is not None:
            plant(given.plant)
        chosen = WORKLOADS[given.workload]
        return _show(chosen.make_plan(given.seed, given.nodes), chosen.course, given.shrink, given.log)
    began = time.monotonic()
    bad = 0
    for seed, found in failures(
        range(given.first, given.first + given.seeds),
        given.nodes,
        given.workers,
        given.plant,
        given.workload,
    ):
        bad += 1
        print(f"seed {seed}: {found[0]}" + (f" (and {len(found) - 1} more)" if found[1:] else ""), flush=True)
    took = time.monotonic() - began
    print(f"{given.seeds} seeds in {took:.0f} s ({given.seeds / took:.1f}/s), {bad} violated a guarantee")
    return int(bad > 0)


def _show(plan: Plan, course: type[Scenario], shrinks: bool, log_level: str) -> int:
    if shrinks:
        plan = shrink(plan, course)
    outcome = simulate(plan, logging.getLevelNamesMapping()[log_level.upper()], course)
    print(plan)
    for line in outcome.log:
        print(f"  {line}")
    print(
        f"  {outcome.summary}, {outcome.end_s:.3f} s, {outcome.callbacks} callbacks, "
        f"trace {outcome.trace:08x}"
    )
    for violation in outcome.violations:
        print(f"  {violation}")
    print("  a guarantee was violated" if outcome.violations else "  all is well")
    return int(bool(outcome.violations))


if __name__ == "__main__":
    sys.exit(main())
