"""Java programs beside a cluster: compiled, started, killed without a warning, started again."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

import pytest
from tests.interop.fetch_jars import CONNECT_FILE_JARS, KAFKA_JARS

SOURCES = Path(__file__).parent / "java"
# Quick to start: most of these programs live for seconds.
OPTIONS = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto")


def require_java() -> None:
    """Skip the test where a Java program cannot be compiled."""
    if shutil.which("javac") is None:
        pytest.skip("javac is not installed")
    if not KAFKA_JARS.is_dir():
        pytest.skip(f"Kafka's jars are not in {KAFKA_JARS}; fetch them with: make interop")


def compile_java(source: str, folder: Path) -> str:
    """Compile a program of tests/interop/java and return the class path to run it with."""
    path = f"{KAFKA_JARS}/*"
    command = ["javac", "-nowarn", "-cp", path, "-d", str(folder), str(SOURCES / f"{source}.java")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return f"{folder}:{path}"


class JavaProcess:
    """A Java program that runs until it is killed; its output is in a file."""

    def __init__(self, log: Path, main_class: str, *arguments: str, path: Sequence[str] = ()) -> None:
        self.log = log
        jars = ":".join((*path, f"{KAFKA_JARS}/*", f"{CONNECT_FILE_JARS}/*"))
        self._command = ["java", *OPTIONS, "-cp", jars, main_class, *arguments]
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it, for the first time or after `kill`."""
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(self._command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def kill(self) -> None:
        """End it without a warning (kill -9)."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def tail(self, lines: int = 40) -> str:
        """Return what it wrote last."""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            error.add_note(f"{self.log.name} ends:\n{self.tail()}")
        self.kill()
