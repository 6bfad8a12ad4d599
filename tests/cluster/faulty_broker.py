"""A broker whose disk fails on request, by a library that is slipped under it (faulty_io.c)."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from ottla.testing.broker_process import BrokerProcess


def compile_library(folder: Path) -> Path:
    """Compile the library into a folder; skip the test where there is no compiler."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("there is no C compiler")
    made = folder / "faulty_io.so"
    source = Path(__file__).with_name("faulty_io.c")
    subprocess.run(
        [compiler, "-shared", "-fPIC", "-O1", "-Wall", "-o", str(made), str(source), "-ldl"], check=True
    )
    return made


class FaultyBroker(BrokerProcess):
    """A broker whose disk fails on request."""

    def __init__(self, data: Path, library: Path, settings: Mapping[str, str] | None = None) -> None:
        self.faults = data.with_name("faults")
        environment = {"LD_PRELOAD": str(library), "OTTLA_FAULTS": str(self.faults)}
        few = {"offsets.topic.num.partitions": "1"}
        super().__init__(data, settings={**few, **(settings or {})}, environment=environment)

    @contextmanager
    def failing(self, *faults: str) -> Iterator[None]:
        """Let operations fail, as faulty_io.c has it, inside a with block."""
        self.faults.with_suffix(".new").write_text("".join(f"{fault}\n" for fault in faults))
        self.faults.with_suffix(".new").rename(self.faults)
        try:
            yield
        finally:
            self.faults.unlink()
