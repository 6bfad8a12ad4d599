"""Apache Kafka itself, one node, to hold our tests against: what they expect of us, Kafka must do too.

    python tests/interop/apache_kafka.py [pytest arguments]

starts it in a temporary folder, runs the tests that only talk to a broker (tests/integration and
tests/interop unless told otherwise) against it, and stops it.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from tests.integration.clients import wait_until  # noqa: E402
from tests.interop.fetch_jars import KAFKA_JARS, fetch  # noqa: E402

from ottla.common.ids import new_uuid, uuid_text  # noqa: E402
from ottla.testing.broker_process import free_port  # noqa: E402

READY_WITHIN_S = 180
STOPPED_WITHIN_S = 60
JAVA = ("java", "-Xmx600m", "-XX:+UseSerialGC", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn")
PROPERTIES = """
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller_port}
listeners=PLAINTEXT://{address},CONTROLLER://127.0.0.1:{controller_port}{listeners}
advertised.listeners=PLAINTEXT://{address}{listeners}
controller.listener.names=CONTROLLER
log.dirs={data}
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
"""


class ApacheKafka:
    """A KRaft node of its own, from format to stop.

    `listeners` (name and address) come beside the plain one; `properties` say how they are set up, and
    `users` are SCRAM credentials as the storage tool takes them.
    """

    def __init__(
        self,
        folder: Path,
        *,
        listeners: Mapping[str, str] | None = None,
        properties: Mapping[str, str] | None = None,
        users: Sequence[str] = (),
    ) -> None:
        self.data = folder / "data"
        self.address = f"127.0.0.1:{free_port()}"
        self.listeners = dict(listeners or {})
        self._more = "".join(f"{key}={value}\n" for key, value in (properties or {}).items())
        self._users = [word for user in users for word in ("--add-scram", user)]
        self._log = folder / "kafka.log"
        self._properties = folder / "server.properties"

    def __enter__(self) -> Self:
        listeners = "".join(f",{name}://{address}" for name, address in self.listeners.items())
        properties = PROPERTIES.format(
            controller_port=free_port(), address=self.address, data=self.data, listeners=listeners
        )
        self._properties.write_text(properties + self._more)
        properties = str(self._properties)
        cluster_id = uuid_text(new_uuid())
        with self._log.open("wb") as log:
            storage_tool = self._java("kafka.tools.StorageTool", "format", "-t", cluster_id, "-c", properties)
            subprocess.run([*storage_tool, *self._users], stdout=log, stderr=log, check=True)
        self.start()
        return self

    def start(self) -> None:
        """Start it, for the first time or after `kill`, and wait until it answers."""
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                self._java("kafka.Kafka", str(self._properties)),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        try:
            wait_until(self._answers, f"Kafka to be ready (see {self._log})", READY_WITHIN_S)
        except BaseException:
            self._process.kill()
            raise

    def kill(self) -> None:
        """End it without a warning (kill -9)."""
        self._process.kill()
        self._process.wait()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.terminate()
        try:
            self._process.wait(STOPPED_WITHIN_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _answers(self) -> bool:
        assert self._process.poll() is None, self._log.read_text()
        try:
            admin = AdminClient({"bootstrap.servers": self.address, "log_level": 0})
            return bool(admin.list_topics(timeout=1).brokers)
        except KafkaException:
            return False

    @staticmethod
    def _java(*arguments: str) -> list[str]:
        return [*JAVA, "-cp", f"{KAFKA_JARS}/*", *arguments]


def main() -> int:
    """Run pytest against a Kafka of our own and return its exit code."""
    fetch()
    with tempfile.TemporaryDirectory() as folder, ApacheKafka(Path(folder)) as kafka:
        given = {"OTTLA_TEST_BOOTSTRAP": kafka.address, "OTTLA_TEST_DATA": str(kafka.data)}
        tests = sys.argv[1:] or ["tests/integration", "tests/interop"]
        command = [sys.executable, "-m", "pytest", *tests]
        return subprocess.run(command, cwd=ROOT, env={**os.environ, **given}, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
