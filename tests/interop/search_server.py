"""OpenSearch itself, from the jars on Maven Central: one node on loopback."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
from tests.interop.fetch_jars import OPENSEARCH_JARS
from tests.interop.java_process import OPTIONS, SOURCES
from tests.waiting import wait_until

from ottla.testing.broker_process import free_port


@contextmanager
def search_server(folder: Path) -> Iterator[str]:
    """Run it, and yield its URL; skip the test where it cannot be run."""
    if shutil.which("javac") is None or not OPENSEARCH_JARS.is_dir():
        pytest.skip(f"javac or the jars in {OPENSEARCH_JARS} are missing; fetch them with: make interop")
    jars = f"{OPENSEARCH_JARS}/*"
    subprocess.run(
        ["javac", "-nowarn", "-cp", jars, "-d", str(folder), str(SOURCES / "SearchServer.java")], check=True
    )
    (folder / "home" / "config").mkdir(parents=True)
    port = free_port()
    command = ["java", *OPTIONS, "-Xmx400m", "-cp", f"{folder}:{jars}", "SearchServer"]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen([*command, str(folder / "home"), str(port)], stdout=log, stderr=log)
    url = f"http://127.0.0.1:{port}"

    def answers() -> bool:
        assert process.poll() is None, (folder / "log").read_text()[-3000:]
        try:
            return httpx.get(url).status_code == 200
        except httpx.TransportError:
            return False

    try:
        wait_until(answers, "OpenSearch to answer", 120)
        yield url
    finally:
        process.kill()
        process.wait()
