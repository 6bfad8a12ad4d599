"""The Python from which Spark's Python processes are forked, and the launcher that asks for them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.integration.clients import wait_until

from ottla.spark.runtime import python_launcher
from ottla.spark.runtime.python_launcher import ADDRESS, JVM

LAUNCHER = [sys.executable, "-I", "-S", python_launcher.__file__, sys.executable]
SERVE = """
import sys
from ottla.spark.runtime import warm_python
warm_python.WORKERS, warm_python.PLANNERS = ("numpy",), ()
warm_python.main(sys.argv[1])
"""
JOB = """
import os, sys, time
if sys.argv[1] == "tell":
    print(sys.stdin.read(), os.getcwd(), sys.argv[1:], os.environ["COLOUR"], os.environ["{jvm}"], sep="|")
elif sys.argv[1] == "draw":
    import random, numpy
    print(random.random(), numpy.random.random())
elif sys.argv[1] == "fail":
    sys.exit(7)
elif sys.argv[1] == "wait":
    print(os.getpid(), flush=True)
    time.sleep(60)
"""


@pytest.fixture
def warm() -> Iterator[subprocess.Popen[bytes]]:
    """A warm Python that has loaded nothing; `address` is where it listens."""
    address = Path(tempfile.mkdtemp()) / "warm"
    with subprocess.Popen([sys.executable, "-c", SERVE, str(address)], stdin=subprocess.PIPE) as process:
        try:
            wait_until(address.exists, "the warm Python to listen")
            process.address = address  # type: ignore[attr-defined]
            yield process
        finally:
            process.kill()


@pytest.fixture
def environment(warm: subprocess.Popen[bytes], tmp_path: Path) -> dict[str, str]:
    (tmp_path / "job.py").write_text(JOB.format(jvm=JVM))
    address = str(warm.address)  # type: ignore[attr-defined]
    return {**os.environ, ADDRESS: address, "PYTHONPATH": str(tmp_path), "COLOUR": "blue"}


def launch(environment: dict[str, str], folder: Path, *arguments: str, said: str = "") -> tuple[int, str]:
    done = subprocess.run(
        [*LAUNCHER, "-m", "job", *arguments],
        env=environment,
        cwd=folder,
        input=said,
        stdout=subprocess.PIPE,
        text=True,
        timeout=60,
        check=False,
    )
    return done.returncode, done.stdout.strip()


def test_a_forked_process_has_the_files_folder_arguments_and_environment_of_its_launcher(
    environment: dict[str, str], tmp_path: Path
) -> None:
    code, told = launch(environment, tmp_path, "tell", "twice", said="hello")
    assert (code, told) == (0, f"hello|{tmp_path}|['tell', 'twice']|blue|{os.getpid()}")


def test_forked_processes_draw_random_numbers_of_their_own(
    environment: dict[str, str], tmp_path: Path
) -> None:
    drawn = [number for _ in range(2) for number in launch(environment, tmp_path, "draw")[1].split()]
    assert len(set(drawn)) == 4


def test_the_launcher_ends_as_the_process_ends(environment: dict[str, str], tmp_path: Path) -> None:
    assert launch(environment, tmp_path, "fail")[0] == 7


@pytest.mark.parametrize("to_launcher", [True, False])
def test_signals_go_both_ways(environment: dict[str, str], tmp_path: Path, to_launcher: bool) -> None:
    command = [*LAUNCHER, "-m", "job", "wait"]
    with subprocess.Popen(command, env=environment, cwd=tmp_path, stdout=subprocess.PIPE) as launcher:
        assert launcher.stdout is not None
        forked = int(launcher.stdout.readline())
        assert forked != launcher.pid
        if to_launcher:
            launcher.terminate()
        else:
            os.kill(forked, signal.SIGKILL)
        assert launcher.wait(30) == 128 + (signal.SIGTERM if to_launcher else signal.SIGKILL)


def test_without_a_warm_python_the_launcher_becomes_an_ordinary_one(
    environment: dict[str, str], tmp_path: Path
) -> None:
    nowhere = {**environment, ADDRESS: str(tmp_path / "nowhere"), JVM: "none"}
    code, told = launch(nowhere, tmp_path, "tell", said="hello")
    assert (code, told) == (0, f"hello|{tmp_path}|['tell']|blue|none")


def test_it_ends_with_the_driver_and_leaves_nothing_behind(warm: subprocess.Popen[bytes]) -> None:
    assert warm.stdin is not None
    warm.stdin.close()
    assert warm.wait(30) == 0
    assert not warm.address.parent.exists()  # type: ignore[attr-defined]
