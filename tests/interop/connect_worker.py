"""A Connect worker in a process of its own, as users run it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Self

from tests.integration.connect_stage import call
from tests.waiting import wait_until

from ottla.testing.broker_process import free_port


class WorkerProcess:
    """`ottla connect serve` as users run it."""

    def __init__(self, bootstrap: str, folder: Path) -> None:
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self._bootstrap, self._folder = bootstrap, folder
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        log = (self._folder / "worker.log").open("ab")
        self.process = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "ottla.cli",
                "connect",
                "serve",
                "--bootstrap",
                self._bootstrap,
                "--listen",
                f"127.0.0.1:{self.port}",
                "--storage",
                str(self._folder / "storage"),
                "--master",
                "local[2]",
                "--set",
                "session.timeout.ms=6000",
                "--set",
                "heartbeat.interval.ms=500",
            ],
            stdout=log,
            stderr=log,
        )
        log.close()
        wait_until(self._is_ready, "the worker to serve", 90)

    def _is_ready(self) -> bool:
        assert self.process is not None
        assert self.process.poll() is None, (self._folder / "worker.log").read_text()[-3000:]
        try:
            return call(self.url, "GET", "/health").status == 200
        except OSError:
            return False

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        assert self.process is not None
        if self.process.poll() is None:
            self.kill()

    def kill(self) -> None:
        assert self.process is not None
        self.process.kill()
        self.process.wait()

    def children(self, what: str) -> list[int]:
        """The processes below the worker whose command has a word."""
        import psutil

        assert self.process is not None
        found = []
        for each in psutil.Process(self.process.pid).children(recursive=True):
            try:
                if what in " ".join(each.cmdline()):
                    found.append(each.pid)
            except psutil.Error:
                continue
        return found

    def stop(self) -> None:
        assert self.process is not None
        self.process.terminate()
        assert self.process.wait(90) == 0
