"""Run a pipeline in this process: signals, progress, end."""

from __future__ import annotations

import logging
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from threading import Event, Thread
from typing import Any

from ottla.cli.pipeline.view import JsonLines, LiveTable, SharedView
from ottla.cli.support.options import is_terminal
from ottla.cli.support.output import echo_err
from ottla.common.clock import SystemClock
from ottla.spark.pipelines.problems import PipelineProblem
from ottla.spark.pipelines.run import driver
from ottla.spark.pipelines.run.driver import Job, Load
from ottla.spark.pipelines.run.runner import Observer
from ottla.spark.pipelines.run.sessions import open_session, own_session

logger = logging.getLogger(__name__)

JOIN_S = 0.2


def run_job(
    job: Job, *, log_level: str = "WARN", load: Load | None = None, view: Observer | None = None
) -> None:
    """Run a pipeline until it is done or this process receives a signal."""
    with stop_on_signals() as stopping:

        def spark_of(job: Job) -> Any:
            spark = open_session(job, log_level=log_level)
            stopping.install()  # Spark has replaced our handlers by its own
            return spark

        observer = view or (LiveTable() if is_terminal(sys.stderr) else JsonLines())
        try:
            driver.run(job, spark_of, observer, SystemClock(), stopping.event, load)
        finally:
            close = getattr(observer, "close", None)
            if close is not None:
                close()
            end_session()
    echo_err(f"{job.project.name}: {'stopped' if stopping.event.is_set() else 'done'}")


def run_jobs(jobs: Sequence[Job], *, log_level: str = "WARN") -> None:
    """Run several pipelines in one driver, each in a thread and a session of its own; if some fail, raise the
    first problem when all have ended.
    """
    if len(jobs) == 1:
        run_job(jobs[0], log_level=log_level)
        return
    problems: list[PipelineProblem] = []
    with stop_on_signals() as stopping:
        spark = open_session(jobs[0], log_level=log_level)
        stopping.install()  # Spark has replaced our handlers by its own
        view = LiveTable() if is_terminal(sys.stderr) else JsonLines()
        shared = SharedView(view)

        def run(job: Job) -> None:
            try:
                observer = shared.of(job.project.name)
                driver.run(job, partial(own_session, spark), observer, SystemClock(), stopping.event)
            except PipelineProblem as problem:
                shared.of(job.project.name).message(problem.headline())
                problems.append(problem)

        threads = [Thread(target=run, args=(job,), name=job.project.name) for job in jobs]
        try:
            for thread in threads:
                thread.start()
            for thread in threads:
                while thread.is_alive():  # with a timeout, so that signals are handled
                    thread.join(JOIN_S)
        finally:
            if isinstance(view, LiveTable):
                view.close()
            end_session()
    for job in jobs:
        echo_err(f"{job.project.name}: {'stopped' if stopping.event.is_set() else 'ended'}")
    if problems:
        raise problems[0]


class StopSignals:
    """Ctrl-C and SIGTERM set an event; the second Ctrl-C ends the process as usual."""

    def __init__(self) -> None:
        self.event = Event()
        self._before: dict[int, Any] = {}

    def install(self) -> None:
        """Install the signal handlers."""
        for number in (signal.SIGINT, signal.SIGTERM):
            before = signal.signal(number, self._asked)
            self._before.setdefault(number, before)

    def restore(self) -> None:
        """Give them back."""
        for number, before in self._before.items():
            signal.signal(number, before)

    def _asked(self, number: int, frame: object) -> None:
        if self.event.is_set() and number == signal.SIGINT:
            raise KeyboardInterrupt
        self.event.set()
        echo_err("stopping after the current batches; Ctrl-C again to stop at once")


@contextmanager
def stop_on_signals() -> Iterator[StopSignals]:
    """Handle Ctrl-C and SIGTERM within the block."""
    stopping = StopSignals()
    stopping.install()
    try:
        yield stopping
    finally:
        stopping.restore()


def end_session() -> None:
    """Stop Spark, if it runs."""
    if sys.modules.get("pyspark") is None:  # not installed, or not needed so far
        return
    from py4j.protocol import Py4JError  # type: ignore[import-untyped]
    from pyspark.sql import SparkSession

    spark = SparkSession.getActiveSession()
    if spark is None:
        return
    try:
        spark.stop()
    except (Py4JError, OSError) as error:  # Ctrl-C reaches the JVM too, which may have ended already
        logger.debug("Spark had ended before it was stopped: %s", error)
