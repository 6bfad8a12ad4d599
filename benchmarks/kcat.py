"""The CPU time of `ottla produce` and `ottla consume` beside kcat's, for the same lines and broker, in turns.

    python -m benchmarks.kcat [--lines 500000] [--rounds 3]

User and system time of the whole process, its start included; the median of the rounds. Needs kcat (Debian).
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from statistics import median

from benchmarks.peers.ottla import BYTECODE
from ottla.testing.broker_process import BrokerProcess

PARTITIONS = 3
KEYS = 10_000
VALUE_BYTES = 90

PRODUCE = {
    "values": ("values.txt", (), ()),
    "keys": ("keyed.txt", ("-K", ":"), ("-K:",)),
    "one key, a header": ("values.txt", ("-k", "a", "-H", "h=1"), ("-k", "a", "-H", "h=1")),
}
CONSUME = {
    "values": ("%v\\n", ()),
    "key:value": ("%k:%v\\n", ("-K:",)),
    "five fields": ("%p %o %T %k=%v\\n", ("-f", "%p %o %T %k=%s\\n")),
    "JSON": ("json", ("-J",)),
}
"""What is done: the input and the options of ottla and of kcat."""


def main() -> None:
    """Print a line for each comparison."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--lines", type=int, default=500_000)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="ottla-kcat-") as folder:
        write_lines(Path(folder), options.lines)
        broker = BrokerProcess(Path(folder) / "data", environment=BYTECODE).start()
        try:
            compare_all(Path(folder), broker.address, options.rounds)
        finally:
            broker.stop()


def write_lines(folder: Path, count: int) -> None:
    """Write the input: lines of 100 bytes, and such with a key before a colon."""
    with (folder / "values.txt").open("w") as values, (folder / "keyed.txt").open("w") as keyed:
        for number in range(count):
            values.write(f"{number:09} {'x' * VALUE_BYTES}\n")
            keyed.write(f"user{number * 7919 % KEYS}:{number:09} {'x' * VALUE_BYTES}\n")


def compare_all(folder: Path, address: str, rounds: int) -> None:
    """Run everything in turns and print the medians."""
    print(f"{'CPU seconds':28} ottla   kcat  ratio")
    for name, (file, ours, theirs) in PRODUCE.items():
        taken: list[tuple[float, float]] = []
        for number in range(rounds):
            topics = [
                new_topic(address, f"{name}-{number}-{who}".replace(", ", "-").replace(" ", "-"))
                for who in ("ottla", "kcat")
            ]
            commands = (
                (*OTTLA, "produce", topics[0], "-b", address, *ours),
                ("kcat", "-b", address, "-P", "-t", topics[1], *theirs),
            )
            taken.append(in_turns(commands, number, folder / file, folder))
        show(f"produce {name}", taken)
    for name, (template, theirs) in CONSUME.items():
        commands = (
            (*OTTLA, "consume", "keys-0-kcat", "-b", address, "-o", "start", "-e", "-f", template),
            ("kcat", "-b", address, "-C", "-q", "-e", "-o", "beginning", "-t", "keys-0-kcat", *theirs),
        )
        show(f"consume {name}", [in_turns(commands, at, None, folder) for at in range(rounds)])


OTTLA = (str(Path(sys.executable).parent / "ottla"),)


def new_topic(address: str, name: str) -> str:
    """Create a topic and return its name."""
    command = (*OTTLA, "topic", "create", name, "--partitions", str(PARTITIONS), "-b", address)
    subprocess.run(command, check=True, capture_output=True)
    return name


def in_turns(
    commands: Sequence[Sequence[str]], number: int, file: Path | None, folder: Path
) -> tuple[float, float]:
    """Return the CPU seconds of ours and of kcat; the other begins in every second round."""
    order = (0, 1) if number % 2 == 0 else (1, 0)
    found = {which: cpu_seconds(commands[which], file, folder / "output") for which in order}
    return found[0], found[1]


def cpu_seconds(command: Sequence[str], file: Path | None, output: Path) -> float:
    """Run a command and return its CPU seconds."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    with open(file or os.devnull, "rb") as source, output.open("wb") as target:
        subprocess.run(
            command, stdin=source, stdout=target, stderr=subprocess.DEVNULL, check=True, env=clean()
        )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def clean() -> dict[str, str]:
    """Return the environment with bytecode, as users have it."""
    return {**os.environ, **BYTECODE}


def show(name: str, taken: Sequence[tuple[float, float]]) -> None:
    """Print the medians."""
    ours, theirs = (median(each) for each in zip(*taken, strict=True))
    print(f"{name:28} {ours:5.2f}  {theirs:5.2f}  {ours / theirs:5.2f}", flush=True)


if __name__ == "__main__":
    main()
