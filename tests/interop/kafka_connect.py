"""Kafka Connect's own worker in a process, from Kafka's jars."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.integration.connect_stage import call
from tests.interop.fetch_jars import CONNECT_FILE_JARS, KAFKA_JARS
from tests.interop.java_process import require_java
from tests.interop.test_connect_rest import PROPERTIES
from tests.waiting import wait_until

from ottla.testing.broker_process import free_port


@contextmanager
def kafka_connect(bootstrap: str, folder: Path, **settings: Any) -> Iterator[str]:
    """Run it, and yield its URL."""
    require_java()
    port = free_port()
    lines = [PROPERTIES.format(bootstrap=bootstrap, port=port), *(f"{k}={v}" for k, v in settings.items())]
    (folder / "java.properties").write_text("\n".join(lines))
    command = ["java", "-Xmx400m", "-XX:+UseSerialGC", "-cp", f"{KAFKA_JARS}/*:{CONNECT_FILE_JARS}/*"]
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
        yield url
    finally:
        process.terminate()
        process.wait(60)
