"""Spark sessions for jobs that read and write topics: by our format, or by Spark's own connector."""

from __future__ import annotations

import os
import sys
from typing import Any

from tests.interop.fetch_jars import CONNECTOR_JARS

MASTER = "local[2,4]"  # a task has four attempts: the death of a worker is not the end of a query
SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.session.timeZone": "UTC",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.log.level": "WARN",
}
ON_CLUSTER = {
    "spark.executor.memory": "700m",
    "spark.deploy.maxExecutorRetries": "-1",  # killed executors are no sign of a broken job
    "spark.task.maxFailures": "4",
}


def session_for(connector: str, master: str = MASTER, **more: str) -> Any:
    """Return a session for a format: Ottla's with our settings, Spark's own connector with Spark's."""
    settings = {**SETTINGS, **more}
    if connector == "ottla":
        from ottla.spark import session

        if not master.startswith("local"):
            settings |= ON_CLUSTER
            settings["spark.executorEnv.PYTHONPATH"] = os.environ.get("PYTHONPATH", "")
        return session("fault-injection", master=master, conf=settings)
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master(master)
    builder = builder.config("spark.jars", ",".join(map(str, sorted(CONNECTOR_JARS.glob("*.jar")))))
    for key, value in settings.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()
