"""A broker for a while, in a process of its own, with nothing in it: for the tests of pipelines."""

from __future__ import annotations

import subprocess
import sys
from types import TracebackType
from typing import Self

from ottla.cli.problems import Problem
from ottla.common.processes import die_with_parent

SETTINGS = ("transaction.two.phase.commit.enable=true", "num.partitions=1")
ENDS_WITHIN_S = 10


class SampleBroker:
    """`with SampleBroker() as broker: broker.address`."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[str] | None = None
        self.address = ""

    def __enter__(self) -> Self:
        command = [sys.executable, "-m", "ottla.cli", "serve", "--ephemeral", "--listen", "127.0.0.1:0"]
        command += ["--log-level", "error"]
        for setting in SETTINGS:
            command += ["--set", setting]
        self._process = subprocess.Popen(
            command, stdout=subprocess.PIPE, text=True, preexec_fn=die_with_parent, start_new_session=True
        )
        assert self._process.stdout is not None
        words = self._process.stdout.readline().split()
        if not words or words[0] != "ready":
            raise Problem("a broker for the test could not be started")
        self.address = words[1]
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._process is not None
        self._process.terminate()
        try:
            self._process.wait(ENDS_WITHIN_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()
