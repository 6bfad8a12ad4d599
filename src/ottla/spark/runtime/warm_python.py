"""A Python process with preloaded modules, which forks Spark's Python processes.

Problem: Spark starts up to seven Python processes before the first batch of a query: to look up the data
source, to create it, to plan, to read, to write, to commit. Each would import pyspark, pyarrow and Ottla by
itself, one after the other.

Solution: `session` starts this process while the JVM starts. The program that Spark starts as Python is
python_launcher.py, which passes its files, arguments and environment to this process; it forks (decision 57).

It ends with the driver, whose end closes its standard input. Without it, the launcher executes the ordinary
Python.
"""

from __future__ import annotations

import gc
import os
import runpy
import select
import signal
import socket
import sys
import traceback
import warnings
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import NamedTuple, NoReturn, cast

from ottla.spark.runtime.python_launcher import GREETING, LENGTH, STANDARD

PLANNER_MODULES = (
    "pyspark.sql.worker.lookup_data_sources",
    "pyspark.sql.worker.create_data_source",
    "pyspark.sql.worker.plan_data_source_read",
    "pyspark.sql.worker.write_into_data_source",
    "pyspark.sql.worker.commit_data_source_write",
    "pyspark.sql.worker.python_streaming_sink_runner",
    "pyspark.sql.streaming.python_streaming_source_runner",
)
WORKER_MODULES = (
    "pyspark.worker",
    "numpy",
    "pyarrow",
    "pyarrow.compute",
    "pandas",
    "pyspark.sql.pandas.serializers",
    "ottla.spark.source.reading",
    "ottla.spark.data_source",
    "ottla.spark.source.stream_reader",
    "ottla.spark.source.batch_reader",
    "ottla.spark.sink.writing",
    "ottla.spark.sink.writers",
    "ottla.spark.sink.committing",
)
"""None of these starts a thread that a fork would lose, except jemalloc's, which handles forks."""
REQUEST_WITHIN_S = 5.0
KILLED = 128


class ProcessRequest(NamedTuple):
    """A process that Spark wants to start."""

    folder: str
    arguments: list[str]
    environment: dict[str, str]


def load(names: tuple[str, ...]) -> None:
    """Import modules, and exclude them from garbage collection: pyspark collects after every task."""
    # kio imports hypothesis, a test tool, if it is installed: 0.2 s that no worker needs.
    sys.modules.setdefault("hypothesis", cast(ModuleType, None))
    for name in names:
        try:
            import_module(name)
        except ImportError:  # another version of pyspark; its users report it
            continue
    os.register_at_fork(after_in_child=_reseed)
    gc.collect()
    gc.freeze()


def _reseed() -> None:
    """Seed numpy again in a forked process; Python's own `random` does that itself."""
    if (numpy := sys.modules.get("numpy")) is not None:
        numpy.random.seed()


class WarmPython:
    """Forks on demand, and reports to each launcher how its process has ended."""

    def __init__(self, listener: socket.socket) -> None:
        self._listener = listener
        self._launchers: dict[int, socket.socket] = {}
        self._paths = [each for each in sys.path if each not in _paths_of(os.environ.get("PYTHONPATH"))]
        self._woken, self._waker = socket.socketpair()
        self._waker.setblocking(False)

    def serve(self, driver: int) -> None:
        """Fork until the driver has closed its end of the pipe."""
        signal.signal(
            signal.SIGINT, signal.SIG_IGN
        )  # Ctrl-C is for the driver, which finishes its batch first
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(self._waker.fileno(), warn_on_full_buffer=False)
        while True:
            ready, _, _ = select.select([self._listener.fileno(), self._woken.fileno(), driver], [], [])
            if driver in ready:
                return
            if self._woken.fileno() in ready:
                self._woken.recv(4_096)
                self._reap()
            if self._listener.fileno() in ready:
                self._fork(self._listener.accept()[0])

    def _fork(self, launcher: socket.socket) -> None:
        try:
            launcher.settimeout(REQUEST_WITHIN_S)
            launcher.sendall(GREETING)
            wanted, files = receive(launcher)
        except (OSError, ValueError):
            launcher.close()
            return
        pid = os.fork()
        if pid == 0:
            self._run_child(wanted, files, launcher)
        for each in files:
            os.close(each)
        self._launchers[pid] = launcher
        try:
            launcher.sendall(LENGTH.pack(pid))
        except OSError:
            os.kill(pid, signal.SIGTERM)

    def _reap(self) -> None:
        """Reap ended processes."""
        while self._launchers:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                return
            launcher = self._launchers.pop(pid)
            code = os.waitstatus_to_exitcode(status)
            try:
                launcher.sendall(LENGTH.pack(code if code >= 0 else KILLED - code))
            except OSError:
                pass  # the launcher was killed
            launcher.close()

    def _run_child(self, wanted: ProcessRequest, files: list[int], launcher: socket.socket) -> NoReturn:
        code = 1
        try:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            for other in (self._listener, self._woken, self._waker, launcher, *self._launchers.values()):
                other.close()
            for number, each in zip(STANDARD, files, strict=True):
                os.dup2(each, number)
                os.close(each)
            self._settle(wanted)
            with warnings.catch_warnings():
                warnings.simplefilter(
                    "ignore"
                )  # a warning that the module to run is already imported: that is intended
                runpy.run_module(wanted.arguments[0], run_name="__main__", alter_sys=True)
            code = 0
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else int(end.code is not None)
        except BaseException:
            traceback.print_exc()
        finally:
            for stream in (sys.stdout, sys.stderr):
                try:
                    stream.flush()
                except OSError:
                    pass
            os._exit(code & 0xFF)

    def _settle(self, wanted: ProcessRequest) -> None:
        """Set up this process as if Spark had started it."""
        os.chdir(wanted.folder)
        os.environ.clear()
        os.environ.update(wanted.environment)
        sys.argv = ["-m", *wanted.arguments[1:]]
        sys.path[:] = [wanted.folder, *_paths_of(wanted.environment.get("PYTHONPATH")), *self._paths]
        for stream in (sys.stdout, sys.stderr):
            getattr(stream, "reconfigure")(line_buffering=True)  # noqa: B009


def receive(launcher: socket.socket) -> tuple[ProcessRequest, list[int]]:
    """Return what a launcher wants to start, and the files that it passes."""
    head, files, _, _ = socket.recv_fds(launcher, LENGTH.size, len(STANDARD))
    if len(head) != LENGTH.size or len(files) != len(STANDARD):
        raise ValueError("not a launcher")
    size = LENGTH.unpack(head)[0]
    body = b""
    while len(body) < size:
        part = launcher.recv(size - len(body))
        if not part:
            raise ValueError("the launcher is gone")
        body += part
    folder, _, *rest = body.decode(errors="surrogateescape").split("\0")
    end = rest.index("")
    environment = dict(each.partition("=")[::2] for each in rest[end + 1 :])
    return ProcessRequest(folder, rest[:end], environment), files


def _paths_of(joined: str | None) -> list[str]:
    return [each for each in (joined or "").split(os.pathsep) if each]


def main(address: str) -> None:
    """Listen at once, so that no launcher is rejected; answer when everything is imported."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(address)
        listener.listen(64)
        load((*WORKER_MODULES, *PLANNER_MODULES))
        try:
            WarmPython(listener).serve(sys.stdin.fileno())
        finally:
            Path(address).unlink(missing_ok=True)
            Path(address).parent.rmdir()


if __name__ == "__main__":
    main(sys.argv[1])
