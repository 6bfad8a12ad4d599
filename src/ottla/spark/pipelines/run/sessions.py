"""The Spark session of a driver: settings of Ottla, of the spec file, and of the command line."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ottla.spark.pipelines.problems import PipelineProblem
from ottla.spark.pipelines.run.driver import Job

QUIET_LOGGERS = ("SQLQueryContextLogger", "DataFrameQueryContextLogger", "py4j", "ottla.spark.queries")
"""Loggers whose messages are repeated in the exceptions that we report."""

DEFAULTS = {
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.streaming.stopTimeout": "60000",
}
"""A pipeline's results must not depend on the machine's time zone. On this machine, `session` adds few
shuffle partitions and no Spark UI; on a cluster, Spark's own defaults hold."""


def open_session(job: Job, *, log_level: str = "WARN") -> Any:
    """Return a session for a job; the output of Spark and of its workers goes to `spark.log`."""
    try:
        import pyspark  # noqa: F401
    except ImportError:
        raise PipelineProblem(
            "pipelines need Spark, which is not installed", "pip install 'ottla[spark]'"
        ) from None
    from ottla.common.java import JavaNotFound
    from ottla.spark import session

    for name in QUIET_LOGGERS:
        logging.getLogger(name).setLevel(logging.CRITICAL)
    conf = {**DEFAULTS, **job.project.spec.configuration, **job.settings}
    if job.master and not job.master.startswith("local"):
        conf |= _shipped(job.storage.home / "ottla.zip", conf)
    try:
        with _errors_to(job.storage.log_file):
            spark = session(job.project.name, master=job.master or "local[*]", conf=conf, log_level=log_level)
    except JavaNotFound as error:
        raise PipelineProblem(str(error)) from None
    return spark


def own_session(spark: Any, job: Job) -> Any:
    """Return a session for one of several pipelines in a driver; it is the active one of its thread."""
    from ottla.spark.progress_listener import listen

    made = spark.newSession()
    made._jvm.org.apache.spark.sql.classic.SparkSession.setActiveSession(made._jsparkSession)
    for name, value in (DEFAULTS | dict(job.project.spec.configuration) | dict(job.settings)).items():
        if made.conf.isModifiable(name):
            made.conf.set(name, value)
    listen(made)
    return made


def _shipped(target: Path, conf: Mapping[str, str]) -> dict[str, str]:
    """Write the package, and return the settings that ship it; Spark needs them before it starts."""
    from ottla.spark.runtime.shipping import settings_to_ship, write_package

    package = write_package(target.resolve())
    # On the driver, too, Spark looks up formats with the executors' Python, which may lack Ottla.
    here = [str(package), os.environ.get("PYTHONPATH", "")]
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, here))
    return settings_to_ship(package, conf)


@contextmanager
def _errors_to(file: Path) -> Iterator[None]:
    """Redirect the standard error of processes that are started within the block to a file."""
    file.parent.mkdir(parents=True, exist_ok=True)
    sys.stderr.flush()
    kept = os.dup(2)
    try:
        with file.open("wb") as log:
            os.dup2(log.fileno(), 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
