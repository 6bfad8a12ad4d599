"""A client of Spark Connect: batch and exactly-once stream, with a server in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.spark.topics import Topics, numbers

pytest.importorskip("grpc_status", reason="Spark Connect needs grpcio-status")

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

JOB = """
import sys

from pyspark.sql import SparkSession

from ottla.spark import use_for_kafka

address, into, out, checkpoint = sys.argv[1:]
spark = SparkSession.builder.remote("local[2]").getOrCreate()
assert type(spark).__module__.startswith("pyspark.sql.connect"), type(spark)
servers = {"kafka.bootstrap.servers": address}
rows = spark.readStream.format("ottla").options(**servers, subscribe=into, startingOffsets="earliest").load()
writer = rows.select("value").writeStream.format("ottla").options(**servers, topic=out)
query = writer.option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
query.awaitTermination(120)
assert query.exception() is None, query.exception()
use_for_kafka()
print("rows", spark.read.format("kafka").options(**servers, subscribe=out).load().count())
spark.stop()
"""


def test_a_client_of_spark_connect_reads_and_writes(topics: Topics, tmp_path: Path) -> None:
    into, out = topics.create(), topics.create()
    topics.fill(into, numbers(0, 100))
    (tmp_path / "job.py").write_text(JOB)
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("PYSPARK_", "SPARK_"))}
    done = subprocess.run(
        [sys.executable, "job.py", topics.address, into, out, str(tmp_path / "checkpoint")],
        cwd=tmp_path,
        env={**kept, "PYSPARK_PYTHON": sys.executable},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert "rows 100" in done.stdout
    assert topics.values(out) == numbers(0, 100)
    assert topics.open_transactions() == []
