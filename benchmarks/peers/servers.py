"""What is measured: a server of one or several processes, started, stopped, killed and started again."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

import psutil  # type: ignore[import-untyped]

from ottla.common.processes import die_with_parent

READY_WITHIN_S = 120.0
STOPPED_WITHIN_S = 60.0


class Absent(Exception):
    """This peer cannot run on this machine; the message says why."""


class Server(ABC):
    """A peer on loopback with its data in a folder of its own, which is gone when the server is closed."""

    name = ""
    """How tables call it."""
    version = ""
    speaks_kafka = True
    module = "librdkafka"
    """Of benchmarks.peers: where its generators are."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.folder.mkdir(parents=True)

    @property
    @abstractmethod
    def address(self) -> str:
        """What clients connect to: `host:port`, several with commas."""

    @abstractmethod
    def launch(self) -> None:
        """Start the processes; do not wait."""

    @abstractmethod
    def pids(self) -> list[int]:
        """Return the processes that are measured."""

    @abstractmethod
    def is_ready(self) -> bool:
        """Return whether clients are served."""

    @abstractmethod
    def stop(self) -> None:
        """Stop cleanly, as an operator does."""

    @abstractmethod
    def kill(self) -> None:
        """End at once (SIGKILL), if it runs."""

    def start(self) -> Self:
        """Launch and return when clients are served."""
        self.launch()
        wait_until(self.is_ready, f"{self.name} to be ready (see {self.folder})")
        return self

    def cpu_seconds(self) -> float:
        """Return the CPU time of all processes, user and system, all threads; of ended children too."""
        return float(sum(sum(psutil.Process(pid).cpu_times()[:4]) for pid in self.pids()))

    def rss_bytes(self) -> int:
        """Return the resident memory of all processes."""
        return sum(int(psutil.Process(pid).memory_info().rss) for pid in self.pids())

    def descriptors(self) -> int:
        """Return how many file descriptors are open."""
        return sum(int(psutil.Process(pid).num_fds()) for pid in self.pids())

    def close(self) -> None:
        """End it and remove its data."""
        self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self.close()
        else:
            self.kill()  # its files may tell what happened


class ChildServer(Server):
    """A server that is one child process of ours."""

    def __init__(self, folder: Path, port: int) -> None:
        super().__init__(folder)
        self.port = port
        self._child: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        """Where it listens."""
        return f"127.0.0.1:{self.port}"

    @abstractmethod
    def command(self) -> Sequence[str]:
        """Return what to run."""

    def launch(self) -> None:
        """Start the process."""
        with (self.folder / "log").open("ab") as log:
            self._child = subprocess.Popen(
                self.command(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.folder,
                env=self.environment(),
                start_new_session=True,
                preexec_fn=die_with_parent,
            )

    def environment(self) -> dict[str, str]:
        """Return the environment of the process."""
        return dict(os.environ)

    def pids(self) -> list[int]:
        """Return the process and its children."""
        if self._child is None:
            return []
        children = psutil.Process(self._child.pid).children(recursive=True)
        return [self._child.pid, *(each.pid for each in children)]

    def is_ready(self) -> bool:
        """Return whether its port is open."""
        if self._child is not None and self._child.poll() is not None:
            raise RuntimeError(f"{self.name} ended: {(self.folder / 'log').read_text()[-2000:]}")
        return is_listening(self.address)

    def stop(self) -> None:
        """Send SIGTERM and wait."""
        if self._child is not None:
            self._child.terminate()
            self._child.wait(STOPPED_WITHIN_S)
            self._child = None

    def kill(self) -> None:
        """Send SIGKILL to it and its children, and reap it."""
        if self._child is not None:
            for pid in self.pids() if self._child.poll() is None else ():
                with suppress(ProcessLookupError):  # a child may be gone by now
                    os.kill(pid, signal.SIGKILL)
            self._child.wait()
            self._child = None


def is_listening(address: str) -> bool:
    """Return whether a connection to an address is taken."""
    host, port = address.rsplit(":", 1)
    try:
        socket.create_connection((host, int(port)), timeout=1).close()
    except OSError:
        return False
    return True


def program(name: str) -> str:
    """Return where a program is; raise Absent if it is not installed."""
    found = shutil.which(name, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")
    if found is None:
        raise Absent(f"{name} is not installed (apt-get install {name})")
    return found


def wait_until(condition: Callable[[], bool], what: str, within_s: float = READY_WITHIN_S) -> None:
    """Return when a condition holds."""
    deadline = time.monotonic() + within_s
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"waited {within_s:g} s for {what}")
        time.sleep(0.02)
