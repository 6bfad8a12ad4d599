"""Apache Kafka from its jars, in KRaft mode: one node, or three; as its own start script would run it."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from tests.interop.fetch_jars import JARS_ROOT, MEASURED_KAFKA_VERSION, OLDER_KAFKA_VERSION

from benchmarks.peers.servers import STOPPED_WITHIN_S, Absent, Server
from ottla.common.ids import new_uuid, uuid_text
from ottla.common.processes import die_with_parent
from ottla.testing.broker_process import free_port

# The defaults of kafka-server-start.sh and kafka-run-class.sh.
HEAP = ("-Xmx1G", "-Xms1G")
JVM = (
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
    "-Djava.awt.headless=true",
)
QUIET = "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"
PROPERTIES = """
process.roles=broker,controller
node.id={node}
controller.quorum.voters={voters}
listeners=PLAINTEXT://{address},CONTROLLER://127.0.0.1:{controller_port}
advertised.listeners=PLAINTEXT://{address}
controller.listener.names=CONTROLLER
log.dirs={data}
offsets.topic.replication.factor={replicas}
transaction.state.log.replication.factor={replicas}
transaction.state.log.min.isr={min_isr}
default.replication.factor={replicas}
"""


def jars(version: str) -> Path:
    """Return the folder of a release's jars; raise Absent if they have not been fetched."""
    folder = JARS_ROOT / f"kafka-{version}"
    if not folder.is_dir():
        raise Absent(f"{folder} is not there (python -m benchmarks.peers --fetch)")
    return folder


class KafkaNodes(Server):
    """One or more combined nodes (broker and controller) with Kafka's defaults."""

    def __init__(
        self,
        folder: Path,
        settings: dict[str, str] | None = None,
        *,
        nodes: int = 1,
        version: str = MEASURED_KAFKA_VERSION,
    ) -> None:
        self.version = version
        self.name = f"kafka {version.rsplit('.', 1)[0]}" + (f" x{nodes}" if nodes > 1 else "")
        self._jars = jars(version)
        super().__init__(folder)
        self._ports = [(free_port(), free_port()) for _ in range(nodes)]
        self._settings = settings or {}
        self._children: list[subprocess.Popen[bytes]] = []
        self._is_formatted = False

    @property
    def address(self) -> str:
        """Where the nodes listen."""
        return ",".join(f"127.0.0.1:{port}" for port, _ in self._ports)

    def launch(self) -> None:
        """Format the data folders, the first time, and start the nodes."""
        if not self._is_formatted:
            self._format()
        for node in range(1, len(self._ports) + 1):
            with (self.folder / f"log-{node}").open("ab") as log:
                self._children.append(
                    subprocess.Popen(
                        self._java(*HEAP, *JVM, "kafka.Kafka", str(self._file(node))),
                        stdin=subprocess.DEVNULL,
                        stdout=log,
                        stderr=log,
                        start_new_session=True,
                        preexec_fn=die_with_parent,
                    )
                )

    def pids(self) -> list[int]:
        """Return the nodes."""
        return [child.pid for child in self._children]

    def is_ready(self) -> bool:
        """Return whether the nodes are in the metadata of one of them."""
        if any(child.poll() is not None for child in self._children):
            raise RuntimeError(f"{self.name} ended: {(self.folder / 'log-1').read_text()[-2000:]}")
        try:
            admin = AdminClient({"bootstrap.servers": self.address, "log_level": 0})
            return len(admin.list_topics(timeout=1).brokers) == len(self._ports)
        except KafkaException:
            return False

    def stop(self) -> None:
        """Stop cleanly; the nodes of a cluster together, for their controllers need each other."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """End all at once."""
        self._end(signal.SIGKILL)

    def _end(self, how: signal.Signals) -> None:
        for child in self._children:
            if child.poll() is None:
                os.kill(child.pid, how)
        for child in self._children:
            try:
                child.wait(STOPPED_WITHIN_S)
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()
        self._children = []

    def _file(self, node: int) -> Path:
        return self.folder / f"server-{node}.properties"

    def _format(self) -> None:
        voters = ",".join(f"{n}@127.0.0.1:{port}" for n, (_, port) in enumerate(self._ports, 1))
        cluster_id, replicas = uuid_text(new_uuid()), len(self._ports)
        for node, (port, controller_port) in enumerate(self._ports, 1):
            text = PROPERTIES.format(
                node=node,
                voters=voters,
                address=f"127.0.0.1:{port}",
                controller_port=controller_port,
                data=self.folder / f"data-{node}",
                replicas=replicas,
                min_isr=min(2, replicas),
            )
            self._file(node).write_text(text + "".join(f"{k}={v}\n" for k, v in self._settings.items()))
            command = self._java(
                "kafka.tools.StorageTool", "format", "-t", cluster_id, "-c", str(self._file(node))
            )
            subprocess.run(command, check=True, capture_output=True)
        self._is_formatted = True

    def _java(self, *arguments: str) -> list[str]:
        return ["java", QUIET, "-cp", f"{self._jars}/*", *arguments]


class ThreeKafkas(KafkaNodes):
    """Three combined nodes."""

    def __init__(self, folder: Path, settings: dict[str, str] | None = None) -> None:
        super().__init__(folder, settings, nodes=3)


class OlderKafka(KafkaNodes):
    """One node of the last 3.x."""

    def __init__(self, folder: Path, settings: dict[str, str] | None = None) -> None:
        super().__init__(folder, settings, version=OLDER_KAFKA_VERSION)
