"""A Spark session that starts soon and has little to do between small batches.

    from ottla.spark import session

    spark = session("orders", master="local[4]")

What it sets, and what each is worth, is measured in docs/spark.md. A plain `SparkSession` works as well; all
of this is only about time.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from ottla.common.java import find_java
from ottla.spark.checkpoint_lock import lock_checkpoints
from ottla.spark.session.python_launcher import ADDRESS
from ottla.spark.session.spark_home import PYTHON, class_archive, is_launcher, make_spark_home

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CHECKPOINT_MANAGER = "spark.sql.streaming.checkpointFileManagerClass"
CHECKPOINTS = "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
FAST = {
    "spark.python.unix.domain.socket.enabled": "true",
    CHECKPOINT_MANAGER: CHECKPOINTS,
    "spark.python.daemon.module": "ottla.spark.session.daemon",
}
"""For sessions on this machine. The checkpoint manager does not test whether another run of the query has
written a file: so each query locks its checkpoint (checkpoint_lock.py)."""
QUIET = {
    "spark.ui.showConsoleProgress": "false",
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "4",
}
EVERYWHERE = {"spark.speculation": "false"}
DEFAULT_MEMORY = "1g"
PYTHONS = ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON")
"""The first is for workers; formats in Python are looked up, planned and run by the second."""

_warm: subprocess.Popen[bytes] | None = None
"""The warm Python of this process; it ends when this one does."""


def builder(
    name: str = "ottla",
    *,
    master: str = "local[*]",
    conf: Mapping[str, str] | None = None,
    fast_checkpoints: bool = True,
) -> SparkSession.Builder:
    """Return a builder of a session; `conf` goes before what is set here."""
    is_local = master.startswith("local")
    settings = {**EVERYWHERE, **(FAST | QUIET if is_local else {}), **(conf or {})}
    if not fast_checkpoints and CHECKPOINT_MANAGER not in (conf or {}):
        settings.pop(CHECKPOINT_MANAGER, None)
    _prepare_environment(settings, is_local)
    from pyspark.sql import SparkSession

    if settings.get(CHECKPOINT_MANAGER) == CHECKPOINTS:
        lock_checkpoints()
    made = SparkSession.builder.master(master).appName(name)
    for key, value in settings.items():
        made = made.config(key, value)
    return made


def session(
    name: str = "ottla",
    *,
    master: str = "local[*]",
    conf: Mapping[str, str] | None = None,
    fast_checkpoints: bool = True,
    log_level: str = "WARN",
) -> SparkSession:
    """Return a running session; raise JavaNotFound, which says what to do, if there is no Java."""
    made = builder(name, master=master, conf=conf, fast_checkpoints=fast_checkpoints).getOrCreate()
    made.sparkContext.setLogLevel(log_level)
    if master.startswith("local") and (archive := class_archive()) is not None and archive.is_wanted:
        archive.make_in_background()
    return made


def _prepare_environment(settings: Mapping[str, str], is_local: bool) -> None:
    """Say where Python and Java are, before the JVM starts; what the user has said himself stays."""
    java = find_java()
    os.environ.setdefault("JAVA_HOME", str(java.resolve().parent.parent))
    if is_local and "SPARK_HOME" not in os.environ:
        home = make_spark_home(
            java,
            memory=settings.get("spark.driver.memory", DEFAULT_MEMORY),
            java_options=settings.get("spark.driver.extraJavaOptions", ""),
        )
        if home is not None:
            os.environ["SPARK_HOME"] = str(home)
    for name in PYTHONS:
        if is_launcher(os.environ.get(name, "")):
            del os.environ[name]  # of the process that has started this one, perhaps another Python
    if not all(name in os.environ for name in PYTHONS):
        python = _warm_python() if is_local else sys.executable
        for name in PYTHONS:
            os.environ.setdefault(name, python)


def _warm_python() -> str:
    """Start a warm Python for this process, if it has none; return the program that Spark is to start."""
    global _warm
    launcher = Path(os.environ.get("SPARK_HOME", "")) / "bin" / PYTHON
    if not is_launcher(str(launcher)):
        return sys.executable
    if _warm is None or _warm.poll() is not None:
        address = str(Path(tempfile.mkdtemp(prefix="ottla-")) / "warm-python")
        _warm = subprocess.Popen(
            [sys.executable, "-m", "ottla.spark.session.warm_python", address],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            env={**os.environ, "PYTHONHASHSEED": "0"},  # as Spark has it for all its workers
        )
        os.environ[ADDRESS] = address
    return str(launcher)
