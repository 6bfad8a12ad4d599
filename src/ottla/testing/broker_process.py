"""Run a broker as a process: start, stop, kill, restart.

    with BrokerProcess(tmp_path / "data", settings={"num.partitions": "3"}) as broker:
        producer = Producer({"bootstrap.servers": broker.address})
        ...
        broker.kill()      # SIGKILL: no flush
        broker.start()     # the same data, the same address

The broker's stderr goes to `stderr_path`, run after run; its last lines are part of errors.
"""

from __future__ import annotations

import atexit
import os
import random
import re
import signal
import socket
import subprocess
import sys
import threading
import weakref
from collections import deque
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import IO, TYPE_CHECKING, Self

if TYPE_CHECKING:
    import psutil  # type: ignore[import-untyped]

READY_WITHIN_S = 30.0
STOPPED_WITHIN_S = 30.0
STDERR_TAIL_LINES = 60
STDOUT_TAIL_LINES = 1_000

_ADDRESS = re.compile(r"(?:\w+://)?([\w.-]+|\[[0-9a-fA-F:]+\]):(\d+)")
_LOWEST_PORT = 10_240
_PORT_RANGE_FILE = Path("/proc/sys/net/ipv4/ip_local_port_range")

_started: weakref.WeakSet[BrokerProcess] = weakref.WeakSet()


class BrokerFailed(Exception):
    """The broker did not start, or did not stop, as expected."""


def free_port(host: str = "127.0.0.1") -> int:
    """Return a free port below the range of ephemeral ports.

    A restarted broker must find its port still free. An ephemeral port may be taken in the meantime by any
    client, even by one that tries to reconnect to the dead broker: a connection to a port of that range can
    end up connected to itself.
    """
    first_outgoing = int(_PORT_RANGE_FILE.read_text().split()[0])
    for _ in range(1_000):
        port = random.randrange(_LOWEST_PORT, max(first_outgoing, _LOWEST_PORT + 1_000))
        with socket.socket() as probe:
            try:
                probe.bind((host, port))
            except OSError:
                continue
        return port
    raise OSError(f"found no free port on {host} in [{_LOWEST_PORT}, {first_outgoing})")


def parse_ready_line(line: str) -> list[str]:
    """Return the `host:port` addresses of a broker's ready line."""
    return [f"{host}:{port}" for host, port in _ADDRESS.findall(line)]


class BrokerProcess:
    """One broker: its data, its address, and its process while it runs.

    `settings` become `--set key=value` (metrics are off unless they are set); `arguments` are passed to
    `ottla serve`; `wrapper` is a program that runs the broker (`nsenter ...`). The address is chosen once, so
    that clients which outlive the process find it again.
    """

    def __init__(
        self,
        data: Path,
        *,
        listen: str | None = None,
        settings: Mapping[str, str] | None = None,
        arguments: Sequence[str] = (),
        environment: Mapping[str, str] | None = None,
        stderr_path: Path | None = None,
        wrapper: Sequence[str] = (),
    ) -> None:
        self.data = data
        self.listen = listen or f"127.0.0.1:{free_port()}"
        self.settings = {"ottla.metrics.listen": "off", **(settings or {})}
        self.arguments = tuple(arguments)
        self.environment = dict(environment or {})
        self.wrapper = tuple(wrapper)
        self.stderr_path = stderr_path or data.with_name(data.name + ".stderr")
        self.addresses: list[str] = []
        self._process: subprocess.Popen[str] | None = None
        self._stdout: _StdoutReader | None = None

    @property
    def address(self) -> str:
        """The `host:port` for clients' bootstrap servers."""
        if not self.addresses:
            raise BrokerFailed("the broker has not been started yet, so it has no address")
        return self.addresses[0]

    @property
    def pid(self) -> int:
        """The process id of the running broker."""
        if not self.is_running or self._process is None:
            raise BrokerFailed("the broker is not running, so it has no process id")
        return self._process.pid

    @property
    def is_running(self) -> bool:
        """Whether the process has been started and has not ended."""
        return self._process is not None and self._process.poll() is None

    def command(self) -> list[str]:
        """Return the command line that `start` runs."""
        command = [*self.wrapper, sys.executable, "-m", "ottla.cli.main", "serve"]
        command += ["--data", str(self.data), "--listen", self.listen, "--log-format", "text"]
        for key, value in self.settings.items():
            command += ["--set", f"{key}={value}"]
        return [*command, *self.arguments]

    def start(self, ready_within_s: float = READY_WITHIN_S) -> Self:
        """Start the broker, and return when it is ready."""
        if self.is_running:
            raise BrokerFailed(f"the broker already runs as process {self.pid}")
        self.stderr_path.parent.mkdir(parents=True, exist_ok=True)
        with self.stderr_path.open("ab") as stderr:
            self._process = subprocess.Popen(
                self.command(),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=stderr,
                text=True,
                env={**os.environ, **self.environment},
                start_new_session=True,  # Ctrl-C in the test run must not stop the broker
            )
        _started.add(self)
        assert self._process.stdout is not None
        self._stdout = _StdoutReader(self._process.stdout)
        line = self._stdout.ready_line(ready_within_s)
        if line is None:
            raise self._failed_to_start(ready_within_s)
        self.addresses = parse_ready_line(line)
        if not self.addresses:
            self.kill()
            raise BrokerFailed(f"the ready line names no address: {line!r}")
        if self.listen.endswith(":0"):
            self.listen = self.addresses[0]
        return self

    def stop(self, within_s: float = STOPPED_WITHIN_S) -> None:
        """Stop the broker, and check that it stops cleanly: in time, with exit code 0."""
        process = self._running_process()
        process.send_signal(signal.SIGTERM)
        try:
            code = process.wait(within_s)
        except subprocess.TimeoutExpired:
            self.kill()
            raise BrokerFailed(self._explain(f"the broker did not stop within {within_s:g} s")) from None
        self._forget()
        if code != 0:
            raise BrokerFailed(self._explain(f"the broker ended with exit code {code} instead of 0"))

    def kill(self) -> None:
        """Kill the process (SIGKILL), if it runs, and reap it."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._forget()

    def restart(self, ready_within_s: float = READY_WITHIN_S) -> Self:
        """Stop the broker cleanly and start it again on the same data and address."""
        self.stop()
        return self.start(ready_within_s)

    def cpu_seconds(self) -> float:
        """Return the processor time used by this run of the broker, in user and in system mode."""
        times = self._observed().cpu_times()
        return float(times.user + times.system)

    def rss_bytes(self) -> int:
        """Return the resident memory of the broker."""
        return int(self._observed().memory_info().rss)

    def descriptors(self) -> int:
        """Return how many file descriptors the broker has open."""
        return int(self._observed().num_fds())

    def stdout_text(self) -> str:
        """Return the output of the current, or last, run (its last lines, if it is long)."""
        return "" if self._stdout is None else self._stdout.text()

    def stderr_tail(self, lines: int = STDERR_TAIL_LINES) -> str:
        """Return the last lines that the broker wrote to stderr."""
        if not self.stderr_path.exists():
            return ""
        return "\n".join(self.stderr_path.read_text(errors="replace").splitlines()[-lines:])

    def __enter__(self) -> Self:
        return self if self.is_running else self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            error.add_note(self._explain(f"the broker at {self.listen} was part of this"))
            self.kill()
        elif self._process is not None:
            self.stop()

    def _running_process(self) -> subprocess.Popen[str]:
        if self._process is None:
            raise BrokerFailed("the broker is not running")
        if (code := self._process.poll()) is not None:
            self._forget()
            raise BrokerFailed(self._explain(f"the broker had already ended, with exit code {code}"))
        return self._process

    def _failed_to_start(self, ready_within_s: float) -> BrokerFailed:
        assert self._process is not None
        try:
            code = self._process.wait(1)  # its output may end a moment before it does
            what = f"the broker ended with exit code {code} before it was ready"
        except subprocess.TimeoutExpired:
            what = f"the broker was not ready within {ready_within_s:g} s"
        self.kill()
        return BrokerFailed(self._explain(what))

    def _forget(self) -> None:
        self._process = None
        if self._stdout is not None:
            self._stdout.join()

    def _observed(self) -> psutil.Process:
        import psutil

        return psutil.Process(self.pid)

    def _explain(self, what: str) -> str:
        parts = [what, f"command: {' '.join(self.command())}"]
        parts += [f"stdout:\n{self.stdout_text()}", f"stderr ({self.stderr_path}):\n{self.stderr_tail()}"]
        return "\n".join(parts)


class _StdoutReader:
    """Drains a broker's stdout, so that it never blocks, and finds the ready line."""

    def __init__(self, stream: IO[str]) -> None:
        self._stream = stream
        self._lines: deque[str] = deque(maxlen=STDOUT_TAIL_LINES)
        self._ready: str | None = None
        self._known = threading.Event()
        self._thread = threading.Thread(target=self._drain, name="broker stdout", daemon=True)
        self._thread.start()

    def ready_line(self, within_s: float) -> str | None:
        """Wait for the ready line; None if the deadline or the end of the output comes first."""
        self._known.wait(within_s)
        return self._ready

    def text(self) -> str:
        return "".join(self._lines)

    def join(self) -> None:
        self._thread.join()

    def _drain(self) -> None:
        with self._stream:
            for line in self._stream:
                self._lines.append(line)
                if self._ready is None and line.startswith("ready"):
                    self._ready = line
                    self._known.set()
        self._known.set()


@atexit.register
def _kill_what_was_left() -> None:
    for broker in list(_started):
        broker.kill()
