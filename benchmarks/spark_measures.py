"""What each measure of `ottla.spark.session` is worth: small batches and start-up, one measure off at a time.

    python -m benchmarks.spark_measures                     # all of them, twice: 15 to 30 minutes
    python -m benchmarks.spark_measures sockets poll        # some, each beside the road as it is

Each run is a driver of its own. Runs with everything on stand between the others, and each is compared with
the ones of its round: other work on the machine strikes both. Where there is some, CPU time says more.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median
from typing import Any
from unittest.mock import patch

from rich.console import Console
from rich.table import Table

from benchmarks.measure import machine
from benchmarks.spark import SETTINGS, fill
from benchmarks.spark_job import Variant
from ottla.common.java import find_java
from ottla.spark.runtime.builder import DEFAULT_MEMORY, PYTHONS
from ottla.spark.runtime.spark_home import app_cds_archive, make_spark_home
from ottla.testing.broker_process import BrokerProcess

BATCHES, IDLE_S = 60, 3.0
START_UP_ONLY = 6
"""Batches, where a measure is about the start."""
RUN_WITHIN_S = 300
CHECKPOINTS = "org.apache.spark.sql.execution.streaming.checkpointing.FileContextBasedCheckpointFileManager"
ORDINARY_PYTHON = dict.fromkeys(PYTHONS, sys.executable)
WHOLE_BATCH = {"minOffsetsPerTrigger": "1000"}
"""Rows of several partitions become visible one after the other: wait for all."""

console = Console(width=130)


@dataclass(frozen=True)
class Off:
    """A road with a measure switched off."""

    what: str
    conf: dict[str, str] = field(default_factory=dict)
    source: dict[str, str] = field(default_factory=dict)
    environment: dict[str, str] = field(default_factory=dict)
    is_spread: bool = False
    batches: int = BATCHES
    in_every_python: str = ""
    """What every Python process runs when it starts."""
    change_home: Callable[[Path], None] | None = None
    """What is done to the SPARK_HOME of links before it is used."""
    beside: str = "all"
    """The run to compare it with."""


def with_another_jvm(home: Path) -> None:
    """Find out how to start Java as Spark's own script does: with Java."""
    script = home / "bin" / "spark-submit"
    java = f"{find_java()} -Xmx128m -cp '{home}/jars/*' org.apache.spark.launcher.Main"
    scala = "export SPARK_SCALA_VERSION=2.13\n"  # as Spark's script does; without it this JVM only fails
    asked = f'{scala}{java} org.apache.spark.deploy.SparkSubmit "$@" >/dev/null || exit 1\n'
    script.write_text(script.read_text().replace("exec ", f"{asked}exec ", 1))


def with_zip(home: Path) -> None:
    """Have pyspark as pip has it for workers: in an archive."""
    import pyspark

    folder = home / "python" / "lib" / "pyspark.zip"
    (folder / "pyspark").unlink()
    folder.rmdir()
    folder.symlink_to(Path(pyspark.__file__).parent / "python" / "lib" / "pyspark.zip")


MEASURES = {
    "all": Off("everything on"),
    "freeze": Off("no gc.freeze", in_every_python="import gc; gc.freeze = lambda: None"),
    "daemon": Off("pyspark's daemon", conf={"spark.python.daemon.module": "pyspark.daemon"}),
    "sockets": Off("TCP sockets", conf={"spark.python.unix.domain.socket.enabled": "false"}),
    "checkpoints": Off(
        "Spark's checkpoint manager", conf={"spark.sql.streaming.checkpointFileManagerClass": CHECKPOINTS}
    ),
    "vfork": Off(
        "no VFORK",
        conf={"spark.driver.extraJavaOptions": "-Djdk.lang.Process.launchMechanism=POSIX_SPAWN"},
    ),
    "poll": Off("no long poll", source={"kafka.fetch.max.wait.ms": "0"}),
    "archive": Off(
        "no archive of classes", environment={"OTTLA_SPARK_ARCHIVE": "off"}, batches=START_UP_ONLY
    ),
    "launcher": Off("another JVM first", change_home=with_another_jvm, batches=START_UP_ONLY),
    "warm": Off("no warm Python", environment=ORDINARY_PYTHON),
    "zip": Off(
        "no warm Python, zip",
        environment=ORDINARY_PYTHON,
        change_home=with_zip,
        batches=START_UP_ONLY,
        beside="warm",
    ),
    "cold": Off(
        "no warm Python, pyspark's daemon",
        conf={"spark.python.daemon.module": "pyspark.daemon"},
        environment=ORDINARY_PYTHON,
        beside="warm",
    ),
    "spread": Off("rows of 4 partitions, 1 task", source=WHOLE_BATCH, is_spread=True),
    "tasks": Off(
        "rows of 4 partitions, 4 tasks",
        source={**WHOLE_BATCH, "maxRecordsPerPartition": "250"},
        is_spread=True,
        beside="spread",
    ),
}
EVERY = 3
"""How many runs come between two with everything on."""
Run = dict[str, Any]


def main() -> None:
    """Run what was asked for, and print a table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.spark_measures", description=__doc__)
    parser.add_argument("measures", nargs="*", metavar="measure", help=", ".join(MEASURES))
    parser.add_argument("--rounds", type=int, default=2)
    options = parser.parse_args()
    if unknown := set(options.measures) - set(MEASURES):
        parser.error(f"no such measure: {', '.join(sorted(unknown))}; there are {', '.join(MEASURES)}")
    console.print(f"machine: {machine()}")
    seen: dict[str, list[Run]] = defaultdict(list)
    for _ in range(options.rounds):
        for name in in_order(options.measures or list(MEASURES)):
            seen[name].append(run(MEASURES[name]))
            console.print(f"{name}: {json.dumps(seen[name][-1])}", soft_wrap=True)
    show(seen)


def in_order(names: list[str]) -> list[str]:
    """Return the runs of a round: what is compared with what, and everything on now and then."""
    wanted = [each for each in MEASURES if each in {*names, *(MEASURES[name].beside for name in names)}]
    others = [each for each in wanted if each != "all"]
    parts = [others[start : start + EVERY] for start in range(0, len(others), EVERY)]
    return [name for part in parts for name in ("all", *part)]


def run(off: Off) -> Run:
    """Measure one road, with a broker, a cache and a driver of its own."""
    with tempfile.TemporaryDirectory(prefix="ottla-bench-") as folder:
        root = Path(folder)
        environment = {**os.environ, **cache_of(off, root / "cache"), **off.environment}
        if off.in_every_python:
            (root / "sitecustomize.py").write_text(off.in_every_python)
            environment["PYTHONPATH"] = folder
        with BrokerProcess(root / "data", settings=SETTINGS) as broker:
            fill(broker.address, records=1_000)
            variant = Variant(off.conf, off.source, off.batches, is_spread=off.is_spread, idle_s=IDLE_S)
            command = [sys.executable, "-m", "benchmarks.spark_job", "--connector", "ottla", "--only-latency"]
            command += ["--bootstrap", broker.address, "--checkpoints", str(root / "checkpoints")]
            command += ["--variant", json.dumps(asdict(variant)), "--began", str(time.time())]
            done = subprocess.run(
                command, capture_output=True, text=True, timeout=RUN_WITHIN_S, env=environment, check=False
            )
    if done.returncode:
        raise SystemExit(f"{off.what} failed:\n{done.stdout[-2000:]}\n{done.stderr[-6000:]}")
    seen: Run = json.loads(done.stdout.splitlines()[-1])
    return seen


def cache_of(off: Off, cache: Path) -> Mapping[str, str]:
    """Make a cache of its own, with the archive of classes, and in it the changed home if there is one."""
    archive = app_cds_archive()
    if archive is None or not archive.make():
        raise SystemExit("there is no archive of Spark's classes yet: try again in a minute")
    (cache / "ottla").mkdir(parents=True)
    (cache / "ottla" / archive.path.name).symlink_to(archive.path)
    environment = {"XDG_CACHE_HOME": str(cache)}
    if off.change_home is not None:
        with patch.dict(os.environ, environment):
            home = make_spark_home(find_java(), memory=DEFAULT_MEMORY)
        assert home is not None
        off.change_home(home)
    return environment


COLUMNS: tuple[tuple[str, Callable[[Run], float], str], ...] = (
    ("batch, ms", lambda run: run["micro_batch_ms"], "{:.0f}"),
    ("sent to reported, ms", lambda run: run["micro_round_ms"], "{:.0f}"),
    ("JVM, CPU ms", lambda run: run["micro_jvm_cpu_ms"], "{:.0f}"),
    ("Python, CPU ms", lambda run: run["micro_python_cpu_ms"], "{:.0f}"),
    ("idle, CPU ms/s", lambda run: run["micro_idle_cpu_ms_per_s"], "{:.0f}"),
    ("session, s", lambda run: run["session_s"], "{:.1f}"),
    ("first batch, s", lambda run: run["first_batch_s"], "{:.1f}"),
    ("first batch, CPU s", lambda run: run["first_batch_cpu_s"], "{:.1f}"),
)


def show(seen: Mapping[str, list[Run]]) -> None:
    """Print the median of the runs of each, and from where to where they went."""
    table = Table("", "beside", title=f"1,000 rows source to sink, the last {BATCHES - BATCHES // 3} batches")
    for head, _, _ in COLUMNS:
        table.add_column(head, justify="right")
    for name, runs in seen.items():
        cells = []
        for _, value, form in COLUMNS:
            found = sorted(map(value, runs))
            least, most = form.format(found[0]), form.format(found[-1])
            cells.append(f"{form.format(median(found))} ({least}-{most})")
        table.add_row(MEASURES[name].what, MEASURES[MEASURES[name].beside].what, *cells)
    console.print(table)


if __name__ == "__main__":
    main()
