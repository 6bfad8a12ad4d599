"""The driver as a process: started, killed in parts or as a whole, started again."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import psutil  # type: ignore[import-untyped]

from ottla.common.ids import new_uuid

MARK = "OTTLA_FIRE"
WARM, LAUNCHER = "ottla.spark.runtime.warm_python", "python_launcher.py"
STOPPED_WITHIN_S = 90.0
ROOT = Path(__file__).resolve().parents[3]


@dataclass
class Driver:
    """One job, run after run. Its processes are known by a mark in their environment."""

    arguments: list[str]
    log_path: Path
    runs: int = 0
    environment: Mapping[str, str] = field(default_factory=dict)
    mark: str = field(default_factory=lambda: new_uuid().hex)
    _process: subprocess.Popen[bytes] | None = None

    @property
    def is_running(self) -> bool:
        """Whether the current run has not ended."""
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Begin another run."""
        self.runs += 1
        with self.log_path.open("ab") as log:
            log.write(b"--- run %d\n" % self.runs)
            log.flush()
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.spark.fault_injection.job", *self.arguments],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=ROOT,
                env={**os.environ, **self.environment, MARK: self.mark},
                start_new_session=True,
            )

    def kill_jvm(self) -> bool:
        """End the JVM without warning, and the program around it; whether there was one."""
        found = [each for each in self.processes() if each.name() == "java"]
        for each in found:
            each.kill()
        self._end()
        return bool(found)

    def kill_worker(self, choice: float) -> bool:
        """End one of the Python processes that work for the JVM without warning; whether there was one."""
        found = sorted(
            (each for each in self.processes() if self._is_worker(each)), key=lambda each: each.pid
        )
        if not found:
            return False
        try:
            found[int(choice * len(found))].kill()
        except psutil.NoSuchProcess:
            return False
        return True

    def terminate(self) -> int:
        """Ask the program to stop, and return its exit code."""
        assert self._process is not None
        self._process.send_signal(signal.SIGTERM)
        try:
            return self._process.wait(STOPPED_WITHIN_S)
        finally:
            self._end()

    def end_everything(self) -> None:
        """Leave no process behind."""
        self._end()
        for each in self.processes():
            each.kill()

    def processes(self) -> list[psutil.Process]:
        """Return the processes of all runs that still live."""
        return [each for each in psutil.process_iter() if _environment(each).get(MARK) == self.mark]

    def log_tail(self, lines: int = 60) -> str:
        """Return the last lines that the program has printed."""
        return "\n".join(self.log_path.read_text(errors="replace").splitlines()[-lines:])

    def _is_worker(self, process: psutil.Process) -> bool:
        try:
            line, parents = process.cmdline(), process.parents()
            if WARM in line:  # forked by the warm Python, or that one itself, which works for nobody
                return bool(parents) and WARM in parents[0].cmdline()
            if any(each.endswith(LAUNCHER) for each in line):
                return False
            return any(each.name() == "java" for each in parents) and "python" in process.name()
        except psutil.NoSuchProcess:
            return False

    def _end(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()


def _environment(process: psutil.Process) -> dict[str, str]:
    try:
        found: dict[str, str] = process.environ()
    except (psutil.Error, OSError):
        return {}
    return found
