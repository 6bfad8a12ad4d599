"""Generators: each in a process of its own, set up before the clock runs, all let go at once.

A kind of load is a function `(options, go) -> figures`: it prepares, calls `go()` (which waits for the
others), works, and returns what only it knows. How long that took and what CPU it cost is measured around it,
all threads and children included. Figures with the name `wall_s` win: a JVM's start is not part of its load.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from benchmarks.peers.meter import ServerMeter
from benchmarks.peers.servers import Server

ROOT = Path(__file__).resolve().parents[2]
Options = dict[str, Any]
Figures = dict[str, Any]
Go = Callable[[], None]
ENDED_WITHIN_S = 180.0
"""A generator that takes longer is ended, and its case has failed."""


def load(kind: str, **options: Any) -> Options:
    """Describe a load: `kind` is `module.function` of benchmarks.peers."""
    return {"kind": kind, **options}


def measure(server: Server, loads: Sequence[Options]) -> Figures:
    """Run loads together against a server and return what they cost and found."""
    workers = [_Worker(each) for each in loads]
    try:
        for worker in workers:
            worker.wait_until_ready()
        meter = ServerMeter(server).start()
        for worker in workers:
            worker.go()
        found = [worker.result() for worker in workers]
        measured = meter.stop()
    finally:
        for worker in workers:
            worker.end()
    generator_cpu_s = sum(each.pop("cpu_s") for each in found)
    walls = [each.pop("wall_s") for each in found]
    figures: Figures = {}
    for each in found:
        figures |= each
    return {**figures, **measured.figures(max(walls), generator_cpu_s, len(workers))}


class _Worker:
    """One generator's process."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.peers.load", json.dumps(options)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
        )
        self._limit = threading.Timer(ENDED_WITHIN_S, self._process.kill)
        self._limit.daemon = True
        self._limit.start()

    def wait_until_ready(self) -> None:
        self._line("ready")

    def go(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write("go\n")
        self._process.stdin.flush()

    def result(self) -> Figures:
        return dict(json.loads(self._line("{")))

    def end(self) -> None:
        self._limit.cancel()
        self._process.kill()
        self._process.communicate()

    def _line(self, beginning: str) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line.startswith(beginning):
            raise RuntimeError(f"the generator {self._options} ended: {line}")
        return line


def _cpu_s() -> float:
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


def main() -> None:
    """Work as one generator."""
    options: Options = json.loads(sys.argv[1])
    module, function = options["kind"].split(".")
    began: list[float] = []

    def go() -> None:
        print("ready", flush=True)
        if not sys.stdin.readline():
            sys.exit("the run was ended before it began")
        began.extend((time.perf_counter(), _cpu_s()))

    figures: Figures = getattr(import_module(f"benchmarks.peers.{module}"), function)(options, go)
    spent = {"wall_s": time.perf_counter() - began[0], "cpu_s": _cpu_s() - began[1]}
    print(json.dumps({**spent, **figures}), flush=True)


if __name__ == "__main__":
    main()
