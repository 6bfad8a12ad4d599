"""Which machine and which versions: noted with every run."""

from __future__ import annotations

import os
import platform
import re
import subprocess
from collections.abc import Iterator
from importlib.metadata import version

import confluent_kafka
from tests.interop.fetch_jars import MEASURED_KAFKA_VERSION, OLDER_KAFKA_VERSION

import ottla
from benchmarks.measure import machine
from benchmarks.peers.servers import Absent, program

PACKAGES = ("nats-server", "redis-server", "rabbitmq-server")


def about() -> dict[str, object]:
    """Return the machine and the versions of everything that takes part."""
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 1e9
    return {"machine": f"{machine()}, {memory:.0f} GB, {platform.platform()}", "versions": list(_versions())}


def _versions() -> Iterator[str]:
    yield f"Ottla {ottla.__version__} on Python {platform.python_version()}, uvloop {version('uvloop')}"
    yield f"Apache Kafka {MEASURED_KAFKA_VERSION} and {OLDER_KAFKA_VERSION} on {_java()}"
    yield f"librdkafka {confluent_kafka.libversion()[0]}"
    for name in PACKAGES:
        try:
            program(name)
        except Absent:
            continue
        said = subprocess.run(["dpkg-query", "-W", name], capture_output=True, text=True, check=False).stdout
        yield " ".join(said.split())


def _java() -> str:
    said = subprocess.run(["java", "-version"], capture_output=True, text=True, check=False).stderr
    found = re.search(r'version "([^"]+)"', said)
    return f"Java {found[1]}" if found else "Java"
