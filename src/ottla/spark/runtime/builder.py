"""Build a Spark session that starts fast and has short batches.

    from ottla.spark import session

    spark = session("orders", master="local[4]")

docs/spark.md lists the settings, and what each gains. A plain `SparkSession` works as well, only slower.
"""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from ottla.common.java import find_java
from ottla.spark.batch_plans import identify_batches
from ottla.spark.checkpoint_lock import lock_checkpoints
from ottla.spark.kafka_format import SETTING, use_for_kafka
from ottla.spark.progress_listener import start_listening
from ottla.spark.runtime.active_session import write_from_threads
from ottla.spark.runtime.app_cds import BUILD_TIMEOUT_S
from ottla.spark.runtime.python_launcher import ADDRESS
from ottla.spark.runtime.spark_home import PYTHON, app_cds_archive, is_launcher, make_spark_home

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger(__name__)

CHECKPOINT_MANAGER = "spark.sql.streaming.checkpointFileManagerClass"
CHECKPOINTS = "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
FAST = {
    "spark.python.unix.domain.socket.enabled": "true",
    CHECKPOINT_MANAGER: CHECKPOINTS,
    "spark.python.daemon.module": "ottla.spark.runtime.daemon",
}
"""For sessions on this machine. The checkpoint manager does not test whether another run of the query has
written a file: so each query locks its checkpoint (checkpoint_lock.py)."""
LOCAL_DEFAULTS = {
    # Spark's own: the address of this machine's name. No other host has to reach a driver without executors.
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.showConsoleProgress": "false",
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "4",
}
DEFAULTS = {"spark.speculation": "false"}
DEFAULT_MEMORY = "1g"
PYTHONS = ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON")
"""The first is for workers; Python data sources are looked up, planned and run with the second."""

_warm: subprocess.Popen[bytes] | None = None
"""The warm Python of this process; it ends with it."""


def builder(
    name: str = "ottla",
    *,
    master: str = "local[*]",
    conf: Mapping[str, str] | None = None,
    fast_checkpoints: bool = True,
) -> SparkSession.Builder:
    """Return a builder of a session; `conf` overrides the settings here."""
    is_local = master.startswith("local")
    settings = default_settings(master) | dict(conf or {})
    if not fast_checkpoints and CHECKPOINT_MANAGER not in (conf or {}):
        settings.pop(CHECKPOINT_MANAGER, None)
    _prepare_environment(settings, is_local)
    from pyspark.sql import SparkSession

    write_from_threads()
    identify_batches()
    if settings.get(CHECKPOINT_MANAGER) == CHECKPOINTS:
        lock_checkpoints()
    if settings.get(SETTING, "").lower() == "true":
        use_for_kafka()
    made = SparkSession.builder.master(master).appName(name)
    for key, value in settings.items():
        made = made.config(key, value)
    return made


def default_settings(master: str) -> dict[str, str]:
    """Return the settings for a master; on a cluster, what depends on size is Spark's own."""
    return DEFAULTS | (FAST | LOCAL_DEFAULTS if master.startswith("local") else {})


def session(
    name: str = "ottla",
    *,
    master: str = "local[*]",
    conf: Mapping[str, str] | None = None,
    fast_checkpoints: bool = True,
    log_level: str = "WARN",
) -> SparkSession:
    """Return a running session; raise JavaNotFound if there is no Java."""
    made = builder(name, master=master, conf=conf, fast_checkpoints=fast_checkpoints).getOrCreate()
    made.sparkContext.setLogLevel(log_level)
    start_listening(made, conf or {})
    if master.startswith("local") and (archive := app_cds_archive()) is not None and archive.should_build_now:
        log.warning(
            "an archive of Spark's classes is built in the background, once for this machine (process %d, "
            "1 GB, at most %d minutes); OTTLA_SPARK_ARCHIVE=off prevents it",
            archive.build_in_background(),
            BUILD_TIMEOUT_S // 60,
        )
    return made


def _prepare_environment(settings: Mapping[str, str], is_local: bool) -> None:
    """Set the paths of Python and Java before the JVM starts, unless the user has."""
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
            del os.environ[name]  # inherited from a parent process, perhaps with another Python
    if not all(name in os.environ for name in PYTHONS):
        python = _warm_python() if is_local else sys.executable
        for name in PYTHONS:
            os.environ.setdefault(name, python)


def _warm_python() -> str:
    """Start a warm Python for this process, if it has none; return the program for Spark to start."""
    global _warm
    launcher = Path(os.environ.get("SPARK_HOME", "")) / "bin" / PYTHON
    if not is_launcher(str(launcher)):
        return sys.executable
    if _warm is None or _warm.poll() is not None:
        address = str(Path(tempfile.mkdtemp(prefix="ottla-")) / "warm-python")
        _warm = subprocess.Popen(
            [sys.executable, "-m", "ottla.spark.runtime.warm_python", address],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            env={**os.environ, "PYTHONHASHSEED": "0"},  # as Spark sets it for all its workers
        )
        os.environ[ADDRESS] = address
    return str(launcher)
