"""Operate a cluster for a month of virtual time, in a minute; check what health, metrics and logs say.

python -m ottla.testing.month               # one month, with a line for each day
python -m ottla.testing.month --seed 7
python -m ottla.testing.month --seeds 5 --log
"""

from __future__ import annotations

import argparse
import sys
import time

from ottla.testing.simulation.month import run_month


def main(arguments: list[str] | None = None) -> int:
    """Run the command line; return 1 if something was wrong."""
    parser = argparse.ArgumentParser(prog="python -m ottla.testing.month", description=__doc__.split("\n")[0])
    parser.add_argument("--seed", type=int, default=1, help="the first seed")
    parser.add_argument("--seeds", type=int, default=1, help="how many seeds to run")
    parser.add_argument("--log", action="store_true", help="show what the brokers logged")
    given = parser.parse_args(arguments)
    return max(run_and_show(seed, given.log) for seed in range(given.seed, given.seed + given.seeds))


def run_and_show(seed: int, with_log: bool = False) -> int:
    """Run one month, and print its days."""
    began = time.monotonic()
    outcome, month = run_month(seed)
    took_s = time.monotonic() - began
    print(f"month {seed}: {outcome.summary}; {outcome.end_s:.0f} s of virtual time in {took_s:.0f} s")
    for number, day in enumerate(month.days_run, 1):
        verdict = "ok" if not day.violations else f"{day.violations} wrong"
        print(f"  {number:2} {day.name:50} {day.seconds:6.1f} s  {verdict}")
    for line in outcome.log if with_log else ():
        print(f"  {line}")
    for violation in outcome.violations:
        print(f"  {violation}")
    print("  something is wrong" if outcome.violations else "  all is well")
    return int(bool(outcome.violations))


if __name__ == "__main__":
    sys.exit(main())
