"""A Python that has loaded what Spark's Python processes need, and forks one whenever Spark wants one.

Spark starts up to seven Python processes before the first batch of a query: to look the format up, to make
the source, to plan, to read, to write, to commit. Each would import pyspark, pyarrow and us by itself, one
after the other. So `session` starts this process while the JVM starts; the program that Spark knows as
Python is python_launcher.py, which hands its files, arguments and environment over to here. docs/decisions
0057 says what that is worth.

It ends with the driver: their pipe breaks. Without it, the launcher becomes an ordinary Python.
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

from ottla.spark.session.python_launcher import GREETING, LENGTH, STANDARD

PLANNERS = (
    "pyspark.sql.worker.lookup_data_sources",
    "pyspark.sql.worker.create_data_source",
    "pyspark.sql.worker.plan_data_source_read",
    "pyspark.sql.worker.write_into_data_source",
    "pyspark.sql.worker.commit_data_source_write",
    "pyspark.sql.worker.python_streaming_sink_runner",
    "pyspark.sql.streaming.python_streaming_source_runner",
)
WORKERS = (
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
"""None of these starts a thread that a fork would lose, but for jemalloc's, which sees to that itself."""
REQUEST_WITHIN_S = 5.0
KILLED = 128


class Wanted(NamedTuple):
    """A process that Spark wants to start."""

    folder: str
    arguments: list[str]
    environment: dict[str, str]


def load(names: tuple[str, ...]) -> None:
    """Import modules, and keep the garbage collector off them: pyspark calls it after every task."""
    # kio imports hypothesis, a tool for tests, wherever it finds it: 0.2 s that no worker needs.
    sys.modules.setdefault("hypothesis", cast(ModuleType, None))
    for name in names:
        try:
            import_module(name)
        except ImportError:  # another version of pyspark; whoever needs it will say so
            continue
    os.register_at_fork(after_in_child=_draw_anew)
    gc.collect()
    gc.freeze()


def _draw_anew() -> None:
    """Give a forked process random numbers of its own; Python's own `random` sees to that itself."""
    if (numpy := sys.modules.get("numpy")) is not None:
        numpy.random.seed()


class WarmPython:
    """Forks on demand, and tells each launcher how its process has ended."""

    def __init__(self, listener: socket.socket) -> None:
        self._listener = listener
        self._launchers: dict[int, socket.socket] = {}
        self._paths = [each for each in sys.path if each not in _paths_of(os.environ.get("PYTHONPATH"))]
        self._woken, self._waker = socket.socketpair()
        self._waker.setblocking(False)

    def serve(self, driver: int) -> None:
        """Fork until the driver, whose pipe this is, is gone."""
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the driver, which ends a batch first
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(self._waker.fileno(), warn_on_full_buffer=False)
        while True:
            ready, _, _ = select.select([self._listener.fileno(), self._woken.fileno(), driver], [], [])
            if driver in ready:
                return
            if self._woken.fileno() in ready:
                self._woken.recv(4_096)
                self._bury()
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
            self._become(wanted, files, launcher)
        for each in files:
            os.close(each)
        self._launchers[pid] = launcher
        try:
            launcher.sendall(LENGTH.pack(pid))
        except OSError:
            os.kill(pid, signal.SIGTERM)

    def _bury(self) -> None:
        """Take note of who has ended."""
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

    def _become(self, wanted: Wanted, files: list[int], launcher: socket.socket) -> NoReturn:
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
                warnings.simplefilter("ignore")  # that a module to be run is loaded: it is meant to be
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

    def _settle(self, wanted: Wanted) -> None:
        """Make this process what it would be had it been started where, and as, Spark wanted to."""
        os.chdir(wanted.folder)
        os.environ.clear()
        os.environ.update(wanted.environment)
        sys.argv = ["-m", *wanted.arguments[1:]]
        sys.path[:] = [wanted.folder, *_paths_of(wanted.environment.get("PYTHONPATH")), *self._paths]
        for stream in (sys.stdout, sys.stderr):
            getattr(stream, "reconfigure")(line_buffering=True)  # noqa: B009


def receive(launcher: socket.socket) -> tuple[Wanted, list[int]]:
    """Return what a launcher wants, and the files that it hands over."""
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
    return Wanted(folder, rest[:end], environment), files


def _paths_of(joined: str | None) -> list[str]:
    return [each for each in (joined or "").split(os.pathsep) if each]


def main(address: str) -> None:
    """Listen at once, so that nobody is turned away; answer when all is loaded."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(address)
        listener.listen(64)
        load((*WORKERS, *PLANNERS))
        try:
            WarmPython(listener).serve(sys.stdin.fileno())
        finally:
            Path(address).unlink(missing_ok=True)
            Path(address).parent.rmdir()


if __name__ == "__main__":
    main(sys.argv[1])
