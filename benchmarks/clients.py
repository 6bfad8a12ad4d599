"""Our clients against the others: the same jobs, the same broker, in one run.

    python -m benchmarks.clients [--quick] [--library ottla --library aiokafka] [--job produce]

Every measurement is a process of its own, so that no library pays for another's imports, threads or garbage.
It does the job once with a few records, so that nothing is imported or asked for the first time while the
clock runs. Of several rounds the best counts: the machine may be busy.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks.libraries import BATCH_BYTES, FLOOR, NAMES, Job, operation
from benchmarks.measure import machine
from ottla.client import Admin, Producer
from ottla.testing.broker_process import BrokerProcess

JOBS = ("produce", "consume", "arrow", "latency")
SIZES = {200: 400_000, 1024: 150_000}
"""Bytes of a record, and how many are sent and read."""
ROUND_TRIPS = 2_000
WARM_RECORDS = 200
ROUNDS = 3
TIMEOUT_S = 300
OURS = "ottla"


@dataclass(frozen=True)
class Result:
    """The best of several rounds: the time it took, and the CPU seconds of the client."""

    wall_s: float
    cpu_s: float
    median_ms: float = 0.0
    p99_ms: float = 0.0


class Meter:
    """Measures this process from `start` to `stop`."""

    def start(self) -> None:
        """Begin."""
        self._cpu_s = _cpu_s()
        self._began = time.perf_counter()

    def stop(self) -> None:
        """End."""
        self.wall_s = time.perf_counter() - self._began
        self.cpu_s = _cpu_s() - self._cpu_s


def _cpu_s() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def work(library: str, name: str, address: str, topic: str, size: int, records: int) -> None:
    """Do one job in this process and print what it cost."""
    operation(library, name)(Job(address, f"warm-{size}", size, min(records, WARM_RECORDS), Meter()))
    meter = Meter()
    outcome = operation(library, name)(Job(address, topic, size, records, meter))
    if name in ("consume", "arrow") and outcome < records:
        raise RuntimeError(f"{library} read too little: {outcome}")
    result = {"wall_s": meter.wall_s, "cpu_s": meter.cpu_s}
    if name == "latency":
        cuts = statistics.quantiles(outcome, n=100)
        result |= {"median_ms": cuts[49] * 1000, "p99_ms": cuts[98] * 1000}
    print(json.dumps(result))


def measure(library: str, name: str, address: str, topic: str, size: int, records: int) -> Result:
    """Do one job in a process of its own."""
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "benchmarks.clients",
            "--work",
            library,
            name,
            address,
            topic,
            str(size),
            str(records),
        ],
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"{library} cannot {name}:\n{done.stderr[-2000:]}")
    return Result(**json.loads(done.stdout.splitlines()[-1]))


def results(
    broker: BrokerProcess, job: str, libraries: Sequence[str], size: int, records: int, rounds: int
) -> Iterator[tuple[str, Result]]:
    """Yield each library with its best round; the rounds of all take turns."""
    found: dict[str, list[Result]] = {name: [] for name in libraries}
    for number in range(rounds):
        for library in libraries:
            topic = f"filled-{size}"
            if job in ("produce", "latency"):
                topic = f"{job}-{size}-{library.replace(' ', '-')}-{number}"
                with Admin(broker.address) as admin:
                    admin.create_topic(topic, partitions=1)
            found[library].append(measure(library, job, broker.address, topic, size, records))
    for library, rows in found.items():
        yield library, min(rows, key=lambda each: each.median_ms or each.wall_s)


def fill(broker: BrokerProcess, topic: str, size: int, records: int) -> None:
    """Write what is to be read."""
    with Admin(broker.address) as admin:
        admin.create_topic(topic, partitions=1)
    with Producer(broker.address, linger_ms=5, batch_size=BATCH_BYTES) as producer:
        for _ in range(records):
            producer.send(topic, b"x" * size)


def table(job: str, size: int, records: int, rows: list[tuple[str, Result]]) -> Table:
    """Return one job of one size; ratios are those of our synchronous client."""
    ours = dict(rows).get(OURS)
    if job == "latency":
        made = Table("library", title=f"round trip of one {size}-byte record, {records} in turn")
        for head in ("p50 ms", "p99 ms", "CPU us each", "p50 : ours"):
            made.add_column(head, justify="right")
        for library, each in rows:
            ratio = f"{each.median_ms / ours.median_ms:.2f}" if ours else ""
            cpu_us = each.cpu_s / records * 1e6
            made.add_row(library, f"{each.median_ms:.2f}", f"{each.p99_ms:.2f}", f"{cpu_us:.0f}", ratio)
        return made
    title = {"produce": "produce", "consume": "consume", "arrow": "consume to Arrow"}[job]
    made = Table("library", title=f"{title}, {records:,} records of {size} bytes, one partition")
    for head in ("records/s", "MB/s", "CPU s/M", "time : ours"):
        made.add_column(head, justify="right")
    for library, each in rows:
        ratio = f"{each.wall_s / ours.wall_s:.2f}" if ours else ""
        rate = records / each.wall_s
        made.add_row(
            library, f"{rate:,.0f}", f"{rate * size / 1e6:,.0f}", f"{each.cpu_s / records * 1e6:.2f}", ratio
        )
    return made


def main() -> None:
    """Run the jobs that were asked for."""
    if sys.argv[1:2] == ["--work"]:
        library, name, address, topic, size, records = sys.argv[2:]
        work(library, name, address, topic, int(size), int(records))
        return
    parser = argparse.ArgumentParser(prog="python -m benchmarks.clients", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one round, a fifth of the records")
    parser.add_argument("--library", action="append", choices=NAMES, help="only these")
    parser.add_argument("--job", action="append", choices=JOBS, help="only these")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    options = parser.parse_args()
    libraries, share = options.library or NAMES, 5 if options.quick else 1
    rounds = 1 if options.quick else options.rounds
    console = Console(width=100)
    console.print(f"machine: {machine()}; best of {rounds}")
    with (
        tempfile.TemporaryDirectory(prefix="ottla-bench-") as folder,
        BrokerProcess(Path(folder) / "d") as broker,
    ):
        for size, whole in SIZES.items():
            fill(broker, f"filled-{size}", size, whole // share)
            fill(broker, f"warm-{size}", size, WARM_RECORDS)
            for job in options.job or JOBS:
                records = (ROUND_TRIPS if job == "latency" else whole) // share
                names = (*NAMES, FLOOR) if job == "latency" and not options.library else libraries
                rows = list(results(broker, job, names, size, records, rounds))
                console.print(table(job, size, records, rows))


if __name__ == "__main__":
    main()
