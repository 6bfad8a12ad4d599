"""Apache Kafka itself, several nodes, with the face of our own clusters in tests: killed, paused, looked at.

    with KafkaCluster(tmp_path) as cluster:
        producer = Producer({"bootstrap.servers": cluster.bootstrap})
        cluster.kill(cluster.leader_of("orders", 0))

Every node is a broker and a voter of KRaft's quorum, so of three one may be dead. What our tests say of
Apache Kafka's behaviour when a broker dies was seen here. Sessions are as short as those of our clusters.
"""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Self

from tests.interop.apache_kafka import JAVA
from tests.interop.fetch_jars import KAFKA_JARS, fetch

from ottla.common.ids import new_uuid, uuid_text
from ottla.testing.broker_process import BrokerFailed, BrokerProcess, free_port
from ottla.testing.cluster_process import SESSION_TIMEOUT_MS, ClusterProcess, view_of, wait_until

READY_WITHIN_S = 90.0
STOPPED_WITHIN_S = 30.0


class KafkaNode(BrokerProcess):
    """One node: broker and controller in a Java machine of its own, on a folder that is formatted once."""

    def __init__(
        self, number: int, folder: Path, properties: Mapping[str, str], controller_port: int
    ) -> None:
        super().__init__(folder / f"kafka-{number}")
        self._number = number
        self._properties_path = folder / f"kafka-{number}.properties"
        controller = f"CONTROLLER://127.0.0.1:{controller_port}"
        self._properties = {
            "process.roles": "broker,controller",
            "node.id": str(number),
            "listeners": f"PLAINTEXT://{self.listen},{controller}",
            "advertised.listeners": f"PLAINTEXT://{self.listen}",
            "controller.listener.names": "CONTROLLER",
            "log.dirs": str(self.data),
            **properties,
        }

    def format(self, cluster_id: str) -> None:
        """Make its folder one of this cluster."""
        self._properties_path.parent.mkdir(parents=True, exist_ok=True)
        self._properties_path.write_text(
            "".join(f"{key}={value}\n" for key, value in self._properties.items())
        )
        arguments = ["format", "--ignore-formatted", "-t", cluster_id, "-c", str(self._properties_path)]
        subprocess.run(_java("kafka.tools.StorageTool", *arguments), check=True, capture_output=True)

    def command(self) -> list[str]:
        """Return the command line that `start` runs."""
        return _java("kafka.Kafka", str(self._properties_path))

    def start(self, ready_within_s: float = READY_WITHIN_S) -> Self:
        """Run the node and return when it is one of the brokers that it names."""
        if self.is_running:
            raise BrokerFailed(f"the broker already runs as process {self.pid}")
        with self.stderr_path.open("ab") as log:
            self._process = subprocess.Popen(
                self.command(), stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )
        self.addresses = [self.listen]
        try:
            wait_until(self._is_ready, ready_within_s, lambda: self._explain("the broker was not ready"))
        except BaseException:
            self.kill()
            raise
        return self

    def terminate(self) -> None:
        """Ask the node to shut down (SIGTERM)."""
        self._running_process().send_signal(signal.SIGTERM)

    def wait_for_end(self, within_s: float = STOPPED_WITHIN_S) -> None:
        """Wait until it has shut down; if that takes too long, end it."""
        try:
            if self._process is not None:
                self._process.wait(within_s)
        except subprocess.TimeoutExpired:
            pass
        self.kill()

    def stop(self, within_s: float = STOPPED_WITHIN_S) -> None:
        """Shut the node down: its leaderships move first."""
        self.terminate()
        self.wait_for_end(within_s)

    def _is_ready(self) -> bool:
        if not self.is_running:
            raise BrokerFailed(self._explain("the broker ended before it was ready"))
        try:
            return self._number in view_of(self.listen).brokers
        except OSError:
            return False


class KafkaCluster(ClusterProcess):
    """Nodes with the numbers 1, 2, ...; `settings` are properties of every one."""

    def __init__(self, data: Path, *, brokers: int = 3, settings: Mapping[str, str] | None = None) -> None:
        self.data = data
        ports = {number: free_port() for number in range(1, brokers + 1)}
        replicas = str(min(brokers, 3))
        properties = {
            "controller.quorum.voters": ",".join(
                f"{number}@127.0.0.1:{port}" for number, port in ports.items()
            ),
            "broker.session.timeout.ms": str(SESSION_TIMEOUT_MS),
            "broker.heartbeat.interval.ms": "500",
            "default.replication.factor": replicas,
            "offsets.topic.replication.factor": replicas,
            "offsets.topic.num.partitions": "5",
            "transaction.state.log.replication.factor": replicas,
            "transaction.state.log.min.isr": str(min(brokers, 2)),
            "group.initial.rebalance.delay.ms": "0",
            **(settings or {}),
        }
        self.nodes = {number: KafkaNode(number, data, properties, port) for number, port in ports.items()}
        self.brokers = dict(self.nodes)

    def start_all(self) -> Self:
        """Start every node that does not run."""
        fetch()
        cluster_id = uuid_text(new_uuid())
        for node in self.nodes.values():
            if not node.data.exists():
                node.format(cluster_id)
        self.start_together(number for number, node in self.nodes.items() if not node.is_running)
        return self

    def stop_all(self) -> None:
        """Stop all nodes together: the last ones of a quorum could not leave in order."""
        running = [node for node in self.nodes.values() if node.is_running]
        for node in running:
            node.terminate()
        for node in running:
            node.wait_for_end()

    def kill_all(self) -> None:
        """End everything at once."""
        for node in self.nodes.values():
            node.kill()


def _java(*arguments: str) -> list[str]:
    return [*JAVA, "-cp", f"{KAFKA_JARS}/*", *arguments]
