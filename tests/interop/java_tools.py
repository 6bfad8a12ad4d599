"""Kafka's command-line tools in one Java machine (java/Tools.java): a test does not wait for its start."""

from __future__ import annotations

import select
import struct
import subprocess
import tempfile
import time
from pathlib import Path

from tests.interop.fetch_jars import KAFKA_JARS
from tests.interop.java_process import OPTIONS, compile_java

QUIET = "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"
OF_TOOLS = ("kafka-tools-", "kafka_2.")
"""How the names of the jars begin that are loaded anew for each run."""


class JavaTools:
    """A Java machine that runs tools one at a time; it is started by the first, and again after a failure."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="ottla-java-tools-")
        self._path = ""
        self._process: subprocess.Popen[bytes] | None = None

    def run(
        self, main_class: str, *arguments: str, text: str, within_s: float
    ) -> subprocess.CompletedProcess[str]:
        """Run a tool to its end."""
        process = self._running()
        assert process.stdin is not None
        parts = [each.encode() for each in (main_class, *arguments, text)]
        request = struct.pack(">i", len(parts))
        request += b"".join(struct.pack(">i", len(part)) + part for part in parts)
        try:
            process.stdin.write(request)
            process.stdin.flush()
            deadline = time.monotonic() + within_s
            (code,) = struct.unpack(">i", self._read(4, deadline))
            out, err = self._text(deadline), self._text(deadline)
        except BaseException:
            self.close()
            raise
        return subprocess.CompletedProcess([main_class, *arguments], code, out, err)

    def close(self) -> None:
        """End the Java machine."""
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            if not self._path:
                self._path = compile_java("Tools", Path(self._folder.name)).partition(":")[0]
            jars = sorted(KAFKA_JARS.glob("*.jar"))
            tools = [str(each) for each in jars if each.name.startswith(OF_TOOLS)]
            others = [str(each) for each in jars if not each.name.startswith(OF_TOOLS)]
            path = ":".join([self._path, *others])
            self._process = subprocess.Popen(
                ["java", *OPTIONS, QUIET, "-cp", path, "Tools", *tools],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                bufsize=0,
            )
        return self._process

    def _text(self, deadline: float) -> str:
        (size,) = struct.unpack(">i", self._read(4, deadline))
        return self._read(size, deadline).decode()

    def _read(self, size: int, deadline: float) -> bytes:
        assert self._process is not None
        assert self._process.stdout is not None
        found = b""
        while len(found) < size:
            left = max(0.0, deadline - time.monotonic())
            if not select.select([self._process.stdout], [], [], left)[0]:
                raise TimeoutError("the tool did not end in time")
            chunk = self._process.stdout.read(size - len(found))
            if not chunk:
                raise EOFError("the Java machine of the tools has ended")
            found += chunk
        return found
