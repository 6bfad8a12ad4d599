"""A real ZooKeeper server as a process of this machine, from the jars that pyspark brings along.

    server = ZooKeeperServer(Path("data/zookeeper"), port=2181)
    server.start()            # returns when it answers
    server.address            # "127.0.0.1:2181", for zookeeper.connect
    server.stop()

One server alone is enough to develop and to test with. For an ensemble, every server gets the list of all
its members and its own number in it.
"""

from __future__ import annotations

import importlib.util
import os
import signal
import socket
import subprocess
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ottla.common.java import JavaNotFound, find_java
from ottla.common.processes import die_with_parent

READY_WITHIN_S = 30.0
STOPPED_WITHIN_S = 10.0
LOG_TAIL_LINES = 20
DEFAULT_PORT = 2181
# Short ticks: sessions end within one of them after their timeout, and may be as short as two of them.
TICK_MS = 200
MAIN_CLASS = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
NEEDED_JARS = (
    "zookeeper",
    "slf4j-api",
    "log4j-slf4j2-impl",
    "log4j-core",
    "log4j-api",
    "netty",
    "snappy",
    "metrics-core",
)
JVM_OPTIONS = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData")


class ZooKeeperFailed(Exception):
    """ZooKeeper cannot be started, or did not come up; the message says why."""


@dataclass(frozen=True, slots=True)
class Member:
    """One server of an ensemble: its number, and the ports that only the members use."""

    number: int
    host: str
    quorum_port: int
    election_port: int

    @classmethod
    def parse(cls, text: str) -> Member:
        """Return the member that `NUMBER=HOST:PORT:PORT` names; ValueError if it names none."""
        number, _, rest = text.partition("=")
        host, quorum_port, election_port = rest.rsplit(":", 2)
        return cls(int(number), host, int(quorum_port), int(election_port))


class ZooKeeperServer:
    """One ZooKeeper server: its data, its address, and the process that runs it while it is started.

    `wrapper` is a program that runs the server in its place (`nsenter ...`).
    """

    def __init__(
        self,
        data: Path,
        *,
        host: str = "127.0.0.1",
        port: int = DEFAULT_PORT,
        members: Sequence[Member] = (),
        number: int = 0,
        settings: Mapping[str, str] | None = None,
        environment: Mapping[str, str] | None = None,
        wrapper: Sequence[str] = (),
    ) -> None:
        self.data = data
        self.host = host
        self.port = port
        self.members = tuple(members)
        self.number = number
        self.settings = dict(settings or {})
        self.environment = dict(environment or {})
        self.wrapper = tuple(wrapper)
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        """Where clients reach it."""
        host = self.host if self.host not in ("", "0.0.0.0", "::") else "127.0.0.1"
        return f"{host}:{self.port}"

    @property
    def log_path(self) -> Path:
        """What the server prints."""
        return self.data / "zookeeper.log"

    @property
    def is_running(self) -> bool:
        """Whether the process has been started and has not ended."""
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        """The process id of the running server."""
        return self._running().pid

    def launch(self, *, dies_with_us: bool = False) -> None:
        """Start the process, without waiting for it; raise ZooKeeperFailed if that is impossible.

        `dies_with_us`: it ends with the thread that calls this.
        """
        if self.is_running:
            raise ZooKeeperFailed(f"ZooKeeper already runs as process {self.pid}")
        try:
            java = find_java({**os.environ, **self.environment})
        except JavaNotFound as error:
            raise ZooKeeperFailed(f"ZooKeeper is a Java program, but {error}") from error
        if not self.wrapper:
            self._check_port()
        config = self._write_config()
        jars = os.pathsep.join(str(jar) for jar in zookeeper_jars())
        logging = "-Dorg.apache.logging.log4j.level=WARN"
        with self.log_path.open("ab") as output:
            self._process = subprocess.Popen(
                [*self.wrapper, str(java), *JVM_OPTIONS, logging, "-cp", jars, MAIN_CLASS, str(config)],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env={**os.environ, **self.environment},
                start_new_session=True,  # Ctrl-C goes to the parent process, which stops it last
                preexec_fn=die_with_parent if dies_with_us else None,
            )

    def start(self, ready_within_s: float = READY_WITHIN_S) -> None:
        """Start the process and return when it serves; raise ZooKeeperFailed if it does not."""
        self.launch()
        self.wait_until_ready(ready_within_s)

    def wait_until_ready(self, within_s: float = READY_WITHIN_S) -> None:
        """Return when the server serves clients; raise ZooKeeperFailed if it does not in time."""
        pause = threading.Event()
        for _ in range(max(1, int(within_s / 0.1))):
            if not self.is_running:
                raise ZooKeeperFailed(f"ZooKeeper ended at once: {self.log_tail()}")
            if self.is_serving():
                return
            pause.wait(0.1)
        self.kill()
        raise ZooKeeperFailed(f"ZooKeeper was not ready within {within_s:g} s: {self.log_tail()}")

    def is_serving(self) -> bool:
        """Return whether the server answers that it has a role."""
        host, _, port = self.address.rpartition(":")
        try:
            with socket.create_connection((host, int(port)), timeout=1) as connection:
                connection.sendall(b"srvr")
                answer = b""
                while chunk := connection.recv(4096):
                    answer += chunk
        except OSError:
            return False
        return b"Mode:" in answer

    def stop(self, within_s: float = STOPPED_WITHIN_S) -> None:
        """End the server in an orderly way, if it runs."""
        if self._process is None:
            return
        self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(within_s)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process = None

    def kill(self) -> None:
        """End the server without warning, if it runs."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def log_tail(self) -> str:
        """Return the last lines that the server printed."""
        if not self.log_path.exists():
            return "(it printed nothing)"
        return "\n".join(self.log_path.read_text(errors="replace").splitlines()[-LOG_TAIL_LINES:])

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is None or self._process.poll() is not None:
            raise ZooKeeperFailed("ZooKeeper is not running")
        return self._process

    def _check_port(self) -> None:
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((self.host, self.port))
            except OSError as error:
                raise ZooKeeperFailed(
                    f"cannot listen on {self.host}:{self.port}: {error.strerror}. "
                    "Is another ZooKeeper running?"
                ) from error

    def _write_config(self) -> Path:
        try:
            self.data.mkdir(mode=0o700, parents=True, exist_ok=True)  # it has credentials of users
        except OSError as error:
            raise ZooKeeperFailed(
                f"the data directory {self.data} cannot be made: {error.strerror}"
            ) from error
        values = {
            "dataDir": str(self.data.absolute()),
            "clientPort": str(self.port),
            "clientPortAddress": self.host,
            "tickTime": str(TICK_MS),
            "maxSessionTimeout": "10000",
            "initLimit": "50",
            "syncLimit": "25",
            "maxClientCnxns": "0",
            "admin.enableServer": "false",
            "4lw.commands.whitelist": "srvr,ruok",
            # The logs of a day and a few snapshots; without this the directory grows without bound.
            "autopurge.purgeInterval": "24",
            "autopurge.snapRetainCount": "3",
        }
        for each in self.members:
            values[f"server.{each.number}"] = f"{each.host}:{each.quorum_port}:{each.election_port}"
        if self.members:
            (self.data / "myid").write_text(f"{self.number}\n")
        path = (self.data / "zookeeper.properties").absolute()
        path.write_text("".join(f"{key}={value}\n" for key, value in {**values, **self.settings}.items()))
        return path


def zookeeper_jars() -> list[Path]:
    """Return the jars that ZooKeeper needs, out of pyspark's; raise ZooKeeperFailed if there are none."""
    spec = importlib.util.find_spec("pyspark")
    folder = None if spec is None or spec.origin is None else Path(spec.origin).parent / "jars"
    jars = [] if folder is None else sorted(folder.glob("*.jar"))
    found = [jar for jar in jars if jar.name.startswith(NEEDED_JARS)]
    if not any(jar.name.startswith("zookeeper-3") for jar in found):
        raise ZooKeeperFailed(
            "no ZooKeeper on this machine: it comes with the package pyspark. "
            "Install it (pip install 'ottla[spark]'), or use an ensemble of your own: --zookeeper HOST:2181"
        )
    return found
