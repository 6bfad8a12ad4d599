"""Run a pipeline under injected faults and print the result; exit with 1 if it is not exactly once."""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
from dataclasses import asdict
from math import inf
from pathlib import Path

from tests.spark.fault_injection.plan import ON_CLUSTER, SHARES, Kind, draw, draw_forever
from tests.spark.fault_injection.run import FaultInjectionRun, Report


def main() -> None:
    """Run what was asked for."""
    parser = argparse.ArgumentParser(prog="python -m tests.spark.fault_injection", description=__doc__)
    parser.add_argument("--records", type=int, default=2_000_000)
    parser.add_argument("--kills", type=int, default=30)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--format", choices=("ottla", "kafka"), default="ottla", help="kafka is Spark's own connector"
    )
    parser.add_argument("--brokers", type=int, choices=(1, 3), default=1)
    parser.add_argument("--per-trigger", type=int, default=20_000)
    parser.add_argument("--seconds", type=float, default=inf, help="strike no more after so long")
    parser.add_argument("--minutes", type=float, help="strike in the steady state, for so long")
    parser.add_argument("--rate", type=int, default=2_000, help="records a second, with --minutes")
    parser.add_argument("--executors", type=int, default=0, help="run on a standalone cluster of so many")
    parser.add_argument("--folder", type=Path, help="keep data, checkpoints and logs here")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("stopped before the end"))  # and leave nothing running
    with tempfile.TemporaryDirectory(prefix="ottla-faults-") as scratch:
        folder = options.folder or Path(scratch)
        folder.mkdir(parents=True, exist_ok=True)
        shares = shares_for(options.format, is_cluster=options.executors > 0)
        is_steady = options.minutes is not None
        run = FaultInjectionRun(
            folder,
            options.records,
            () if is_steady else draw(options.seed, options.kills, shares),
            connector=options.format,
            brokers=options.brokers,
            per_trigger=options.per_trigger,
            seconds=options.minutes * 60 if is_steady else options.seconds,
            steady=draw_forever(options.seed, shares) if is_steady else None,
            rate=options.rate,
            executors=options.executors,
            say=say,
        )
        report = run.run()
    show(report)
    assert report.verdict is not None
    sys.exit(not report.verdict.is_exact)


def shares_for(connector: str, *, is_cluster: bool = False) -> dict[Kind, int]:
    """Return how often each kind strikes; Spark's own connector has no Python workers to kill."""
    shares = ON_CLUSTER if is_cluster else SHARES
    return {kind: share for kind, share in shares.items() if connector == "ottla" or kind is not Kind.WORKER}


def show(report: Report) -> None:
    """Print what was done and found."""
    assert report.verdict is not None
    for kind, times in report.kills.most_common():
        say(f"{kind:30} {times:>10}")
    say(f"{'the driver ended by itself':30} {report.failures:>10}")
    say(f"{'batches':30} {report.batches:>10,}")
    say(f"{'seconds':30} {report.seconds:>10.0f}")
    for name, value in asdict(report.verdict).items():
        say(f"{name.replace('_', ' '):30} {value:>10,}")
    say("exactly once" if report.verdict.is_exact else "NOT exactly once")


def say(line: str) -> None:
    """Print at once."""
    print(line, flush=True)


if __name__ == "__main__":
    main()
