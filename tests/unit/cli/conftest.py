"""The client tests' broker in memory, and the command line run in this process."""

from __future__ import annotations

import importlib.util
import os
import sys
import threading
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from ottla.cli.main import run
from ottla.cli.produce import command as produce

_SPEC = importlib.util.spec_from_file_location(
    "fake_broker_of_the_client_tests", Path(__file__).parents[1] / "client" / "conftest.py"
)
assert _SPEC is not None
assert _SPEC.loader is not None
_FAKES = importlib.util.module_from_spec(_SPEC)
sys.modules[_SPEC.name] = _FAKES
_SPEC.loader.exec_module(_FAKES)

network = _FAKES.network
peer = _FAKES.peer


@dataclass(frozen=True)
class Outcome:
    """What a command left behind."""

    code: int
    out: bytes
    err: str

    @property
    def lines(self) -> list[str]:
        return self.out.decode().splitlines()


@pytest.fixture
def ottla(capfdbinary: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a function that runs `ottla ARGS` with some standard input, and gives its outcome."""
    monkeypatch.setenv("OTTLA_BOOTSTRAP", "fake:9092")
    monkeypatch.setenv("COLUMNS", "80")

    def command(*args: str, stdin: bytes = b"") -> Outcome:
        reading, writing = os.pipe()
        os.write(writing, stdin)
        os.close(writing)
        read_lines = getattr(produce.read_lines, "func", produce.read_lines)
        monkeypatch.setattr(produce, "read_lines", partial(read_lines, reading))
        code = run(args)
        sys.stdout.flush()
        captured = capfdbinary.readouterr()
        for thread in threading.enumerate():
            if thread.name == "stdin":
                thread.join(5)
        os.close(reading)
        return Outcome(code, captured.out, captured.err.decode())

    return command
