"""A standalone Spark cluster on this machine: a master and workers, started from pyspark's own scripts."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

import psutil  # type: ignore[import-untyped]
import pyarrow
import pyspark
from tests.spark.topics import SHORT_LIVED

from ottla.spark.runtime.shipping import settings_to_ship

SPARK_HOME = Path(pyspark.__file__).parent
MASTER_URL = re.compile(r"Starting Spark master at (spark://\S+)")
REGISTERED = re.compile(r"Successfully registered with master")
READY_WITHIN_S = 90.0
POLL_INTERVAL_S = 0.05
ON_DRIVER = "ottla-driver.zip"
SLOW_START = "TEST_PYTHON_STARTS_IN_S"
EXECUTOR = "org.apache.spark.executor.CoarseGrainedExecutorBackend"
PYTHON_DAEMON = "pyspark.daemon"
ON_LOOPBACK = ("--host", "127.0.0.1", "--port", "0", "--webui-port", "0")


class StandaloneCluster:
    """`python` is what drivers and executors run."""

    def __init__(self, folder: Path, *, python: Path, workers: int = 2) -> None:
        self.folder = folder
        self.python = python
        self.workers = workers
        self.url = ""
        self._processes: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> Self:
        try:
            log = self._run("master", "org.apache.spark.deploy.master.Master", *ON_LOOPBACK)
            self.url = self._wait_for(MASTER_URL, log)
            logs = []
            for number in range(1, self.workers + 1):
                size = ["--cores", "1", "--memory", "1g", "--work-dir", str(self.folder / f"work-{number}")]
                main = "org.apache.spark.deploy.worker.Worker"
                logs.append(self._run(f"worker-{number}", main, *ON_LOOPBACK, *size, self.url))
            for log in logs:
                self._wait_for(REGISTERED, log)
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()

    def executors(self) -> list[int]:
        """Return the processes of the executors that run now, all of them below our workers."""
        return [each.pid for each in self._children() if _runs(each, EXECUTOR)]

    def python_workers(self) -> list[int]:
        """Return the Python processes of the executors."""
        return [each.pid for each in self._children() if _runs(each, PYTHON_DAEMON)]

    def _children(self) -> list[psutil.Process]:
        return [
            each for mine in self._processes for each in psutil.Process(mine.pid).children(recursive=True)
        ]

    def submit(self, job: Path, *arguments: str, package: Path, settings: Mapping[str, str]) -> str:
        """Run a job that finds the package on the driver only, and return what it has printed."""
        home = Path(tempfile.mkdtemp(prefix=f"driver-{job.stem}-", dir=self.folder))
        shutil.copy(package, home / ON_DRIVER)
        command = [str(SPARK_HOME / "bin/spark-submit"), "--master", self.url]
        for key, value in {**settings_to_ship(package), **settings}.items():
            command += ["--conf", f"{key}={value}"]
        # The path is relative: executors do not find the driver's package there.
        return self.run(*command, str(job), *arguments, folder=home, PYTHONPATH=ON_DRIVER)

    def run(self, *command: str, folder: Path, **variables: str) -> str:
        """Run a program that drives jobs on the cluster, and return what it has printed."""
        done = subprocess.run(
            command,
            cwd=folder,
            env={**self._environment(), **variables},
            capture_output=True,
            text=True,
            timeout=240,
            check=False,
        )
        assert done.returncode == 0, f"{done.stdout[-3000:]}\n{done.stderr[-8000:]}"
        return done.stdout

    def _run(self, name: str, main_class: str, *arguments: str) -> Path:
        log_path = self.folder / f"{name}.log"
        with log_path.open("wb") as log:
            self._processes.append(
                subprocess.Popen(
                    [str(SPARK_HOME / "bin/spark-class"), main_class, *arguments],
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    env=self._environment(),
                    start_new_session=True,
                )
            )
        return log_path

    def _wait_for(self, pattern: re.Pattern[str], log_path: Path) -> str:
        deadline = time.monotonic() + READY_WITHIN_S
        while True:
            text = log_path.read_text(errors="replace")
            if found := pattern.search(text):
                return found.group(found.re.groups)
            assert time.monotonic() < deadline, f"{log_path} does not say {pattern.pattern!r}:\n{text}"
            time.sleep(POLL_INTERVAL_S)

    def _environment(self) -> dict[str, str]:
        kept = {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "SPARK_HOME")}
        return {
            **kept,
            "SPARK_HOME": str(SPARK_HOME),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "PYSPARK_PYTHON": str(self.python),
            "PYSPARK_DRIVER_PYTHON": str(self.python),
            "SPARK_DAEMON_MEMORY": "256m",
            # A dozen JVMs that live for seconds: do not compile what runs once.
            "JAVA_TOOL_OPTIONS": SHORT_LIVED["spark.driver.extraJavaOptions"],
        }

    def _end(self) -> None:
        for process in reversed(self._processes):
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGTERM)
        for process in self._processes:
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()


def _runs(process: psutil.Process, main_class: str) -> bool:
    try:
        return main_class in process.cmdline()
    except psutil.Error:  # it has ended
        return False


def bare_python(folder: Path) -> Path:
    """Return a Python that has everything that Ottla needs, and not Ottla: what an executor's machine has."""
    venv.create(folder, with_pip=False, symlinks=True)
    libraries = folder / "lib" / f"python{sys.version_info.major}.{sys.version_info.minor}" / "site-packages"
    # A folder that a .pth file names is a plain path: .pth files in it, such as ours, do not count.
    (libraries / "libraries.pth").write_text(f"{Path(pyarrow.__file__).parents[1]}\n")
    # As from a slow disk: a Python that needs longer to start than Spark's timeout of 10 seconds.
    slow = f"import os, time\ntime.sleep(float(os.environ.get({SLOW_START!r}, 0)))\n"
    (libraries / "sitecustomize.py").write_text(slow)
    return folder / "bin" / "python"
