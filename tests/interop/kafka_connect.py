"""Kafka Connect's own worker in a process, from Kafka's jars."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.integration.connect_stage import call
from tests.interop.fetch_jars import CONNECT_FILE_JARS, KAFKA_JARS
from tests.interop.java_process import require_java
from tests.waiting import wait_until

from ottla.testing.broker_process import free_port

PROPERTIES = """
bootstrap.servers={bootstrap}
group.id=java-connect
listeners=http://127.0.0.1:{port}
key.converter=org.apache.kafka.connect.json.JsonConverter
value.converter=org.apache.kafka.connect.json.JsonConverter
config.storage.topic=java-configs
offset.storage.topic=java-offsets
status.storage.topic=java-status
config.storage.replication.factor=1
offset.storage.replication.factor=1
status.storage.replication.factor=1
offset.storage.partitions=1
status.storage.partitions=1
scheduled.rebalance.max.delay.ms=0
"""

SMALL = ("-Xmx400m", "-XX:+UseSerialGC")


@contextmanager
def kafka_connect(
    bootstrap: str, folder: Path, *settings: str, java: Sequence[str] = SMALL
) -> Iterator[tuple[str, int]]:
    """Run it; yield its URL and its process."""
    require_java()
    port = free_port()
    properties = PROPERTIES.format(bootstrap=bootstrap, port=port)
    (folder / "java.properties").write_text("\n".join((properties, *settings)))
    command = ["java", *java, "-cp", f"{KAFKA_JARS}/*:{CONNECT_FILE_JARS}/*"]
    command += ["org.apache.kafka.connect.cli.ConnectDistributed", str(folder / "java.properties")]
    with (folder / "java.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
    url = f"http://127.0.0.1:{port}"

    def answers() -> bool:
        assert process.poll() is None, (folder / "java.log").read_text()[-3000:]
        try:
            return call(url, "GET", "/connectors").status == 200
        except (OSError, ValueError):
            return False

    try:
        wait_until(answers, "Kafka Connect to answer", 120)
        yield url, process.pid
    finally:
        process.terminate()
        process.wait(60)
