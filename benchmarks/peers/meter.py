"""What a stretch of work cost a server: CPU and memory."""

from __future__ import annotations

import os
import threading
import time
from dataclasses import dataclass
from typing import Any

import psutil  # type: ignore[import-untyped]

from benchmarks.peers.limits import limit
from benchmarks.peers.servers import Server

POLL_INTERVAL_S = 0.1


@dataclass(frozen=True)
class Measured:
    """Of the server, from start to stop."""

    elapsed_s: float
    server_cpu_s: float
    peak_rss_bytes: int
    machine_cpu_s: float
    """Of everything that ran on this machine."""

    def figures(self, wall_s: float, generator_cpu_s: float, generators: int) -> dict[str, Any]:
        """Return the figures of a result; the load may have taken less than what was measured."""
        others_cpu_s = self.machine_cpu_s - self.server_cpu_s - generator_cpu_s
        row = {
            "wall_s": round(wall_s, 4),
            "elapsed_s": round(self.elapsed_s, 4),
            "server_cpu_s": round(self.server_cpu_s, 3),
            "generator_cpu_s": round(generator_cpu_s, 3),
            "generators": generators,
            "peak_rss_bytes": self.peak_rss_bytes,
            "others_cores": round(others_cpu_s / self.elapsed_s, 2),
            "cores": os.cpu_count() or 1,
        }
        return {**row, "limit": limit(row)}


class ServerMeter:
    """Measures a server from `start` to `stop`."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._peak = 0
        self._ended = threading.Event()
        self._watch = threading.Thread(target=self._look, name="memory", daemon=True)

    def start(self) -> ServerMeter:
        """Begin."""
        self._cpu_s = self._server.cpu_seconds()
        self._machine_cpu_s = _machine_cpu_s()
        self._began = time.perf_counter()
        self._watch.start()
        return self

    def stop(self) -> Measured:
        """End, and return what it cost."""
        elapsed_s = time.perf_counter() - self._began
        cpu_s = self._server.cpu_seconds() - self._cpu_s
        machine_cpu_s = _machine_cpu_s() - self._machine_cpu_s
        self._ended.set()
        self._watch.join()
        return Measured(elapsed_s, cpu_s, self._peak, machine_cpu_s)

    def _look(self) -> None:
        while True:
            try:
                self._peak = max(self._peak, self._server.rss_bytes())
            except psutil.NoSuchProcess:
                return  # the server has ended, and so has what is measured
            if self._ended.wait(POLL_INTERVAL_S):
                return


def _machine_cpu_s() -> float:
    times = psutil.cpu_times()
    return float(times.user + times.nice + times.system + times.irq + times.softirq)
