"""Runs seeds, on all cores, and says which of them broke a promise.

python -m ottla.testing.simulate --seeds 1000          # 0 to 999
python -m ottla.testing.simulate --seed 7              # one, with what happened in it
python -m ottla.testing.simulate --seed 7 --shrink     # and with as few faults as still break it
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
from ottla.testing.simulation.plan import Plan, make_plan, make_transaction_plan
from ottla.testing.simulation.scenario import Outcome, Scenario, simulate
from ottla.testing.simulation.transactions.scenario import TransactionScenario

CHUNK = 10
GARBAGE = 20_000
"""So many objects more before they are looked through."""


class Workload(NamedTuple):
    """What clients do."""

    make_plan: Callable[[int, int | None], Plan]
    course: type[Scenario]


WORKLOADS = {
    "records": Workload(make_plan, Scenario),
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
    """Yield each seed that broke something, and what, as they come."""
    with ProcessPoolExecutor(workers or os.cpu_count() or 1, None, _prepare, (bug,)) as pool:
        for seed, found in pool.map(_try_seed, ((seed, nodes, workload) for seed in seeds), chunksize=CHUNK):
            if found:
                yield seed, found


def _prepare(bug: str | None) -> None:
    """Make a worker ready: what was imported is not garbage, and a seed makes little of it."""
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
    """Return the plan with as few faults as still break something."""
    at = 0
    while at < len(plan.faults):
        smaller = plan.without(at)
        if simulate(smaller, course=course).violations:
            plan = smaller
        else:
            at += 1
    return plan


def main(arguments: list[str] | None = None) -> int:
    """Run the command line; return 1 if a promise was broken."""
    parser = argparse.ArgumentParser(
        prog="python -m ottla.testing.simulate", description=__doc__.split("\n")[0]
    )
    parser.add_argument("--seeds", type=int, default=1000, help="how many seeds to run")
    parser.add_argument("--first", type=int, default=0, help="the first of them")
    parser.add_argument("--seed", type=int, help="run this one seed only, and show what happened")
    parser.add_argument("--shrink", action="store_true", help="find the faults of --seed that matter")
    parser.add_argument("--log", default="ERROR", help="show what the brokers of --seed log: INFO, DEBUG")
    parser.add_argument("--nodes", type=int, help="how many brokers a cluster has")
    parser.add_argument("--plant", choices=ALL_BUGS, help="put a bug in, which should be found")
    parser.add_argument("--workload", choices=WORKLOADS, default="records", help="what clients do")
    parser.add_argument("--workers", type=int, help="how many processes to use")
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
    print(f"{given.seeds} seeds in {took:.0f} s ({given.seeds / took:.1f}/s), {bad} broke a promise")
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
    print("  a promise was broken" if outcome.violations else "  all is well")
    return int(bool(outcome.violations))


if __name__ == "__main__":
    sys.exit(main())
