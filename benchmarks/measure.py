"""What a run costs: wall time, and the CPU seconds of the broker and of the load generator."""

from __future__ import annotations

import os
import resource
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

IDLE_S = 0.5
IDLE_SHARE = 0.05
"""A broker is idle if it used less than this share of a core for `IDLE_S`."""


@dataclass(frozen=True)
class Cost:
    """One measured stretch of work."""

    wall_s: float
    broker_cpu_s: float
    client_cpu_s: float

    @property
    def generator_is_full(self) -> bool:
        """Whether the load generator had no CPU time left: then its limit is what was seen."""
        return self.client_cpu_s > 0.9 * self.wall_s


class Broker(Protocol):
    """What is measured."""

    def cpu_seconds(self) -> float:
        """Return the CPU time that it has used."""
        ...


class Served(Broker, Protocol):
    """A broker that clients can reach."""

    @property
    def address(self) -> str:
        """Where it listens."""
        ...


class Meter:
    """Measures from `start` to `stop`."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    def start(self) -> Meter:
        """Begin."""
        self._cpu = self._broker.cpu_seconds()
        self._own = _own_cpu_s()
        self._began = time.perf_counter()
        return self

    def stop(self) -> Cost:
        """End, and return what it cost."""
        wall = time.perf_counter() - self._began
        return Cost(wall, self._broker.cpu_seconds() - self._cpu, _own_cpu_s() - self._own)


def wait_until_idle(broker: Broker, within_s: float = 30.0) -> None:
    """Wait until a broker that has just started has imported its handlers: that is no cost of a request."""
    deadline = time.perf_counter() + within_s
    used = broker.cpu_seconds()
    while time.perf_counter() < deadline:
        time.sleep(IDLE_S)
        before, used = used, broker.cpu_seconds()
        if used - before <= IDLE_SHARE * IDLE_S:
            return


def touch_page_cache(folder: Path, size_bytes: int) -> None:
    """Write and delete a file of this size, so that the page cache reuses memory which was used before.

    On a virtual machine the first use of a page is a fault in the hypervisor: a plain `dd` then takes 2 CPU
    seconds per GB instead of 0.2, and a broker as much more.
    """
    zeros = bytes(1 << 20)
    path = folder / "page-cache"
    with path.open("wb") as file:
        for _ in range(size_bytes // len(zeros)):
            file.write(zeros)
    path.unlink()


def _own_cpu_s() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def machine() -> str:
    """Return one line about this machine."""
    with open("/proc/cpuinfo") as cpuinfo:
        model = next((line.split(":")[1].strip() for line in cpuinfo if line.startswith("model name")), "?")
    return f"{os.cpu_count()} cores, {model}, load {os.getloadavg()[0]:.1f}"
