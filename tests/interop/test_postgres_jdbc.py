"""Tables of PostgreSQL read by Spark's JDBC reader, where Spark was given the driver's jar."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from tests.interop.fetch_jars import JDBC_JARS
from tests.spark.test_pipeline_postgres import dsn as dsn

from ottla.spark.pipelines.postgres.write import connect

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

ROOT = Path(__file__).parents[2]


def test_with_the_jdbc_driver_spark_reads_a_table_in_ranges_with_its_types(dsn: str) -> None:
    if not JDBC_JARS.is_dir():
        pytest.skip(f"PostgreSQL's JDBC driver is not in {JDBC_JARS}; fetch it with: make interop")
    with connect(dsn) as connection:
        connection.execute("CREATE TABLE prices (id bigint PRIMARY KEY, item text, price numeric(10,2))")
        connection.execute(
            "INSERT INTO prices SELECT n, 'item ' || n, n / 4.0 FROM generate_series(1, 1000) n"
        )
        connection.commit()
    [jar] = JDBC_JARS.glob("*.jar")

    done = subprocess.run(
        [sys.executable, "-m", "tests.interop.jdbc_job", dsn, str(jar)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )

    assert done.returncode == 0, done.stderr[-3_000:]
    found = json.loads(done.stdout.splitlines()[-1])
    assert "JDBC" in found["plan"]
    assert found["types"] == ["bigint", "string", "decimal(10,2)"]
    assert found["partitions"] == 4
    assert found["ids"] == list(range(1, 1001))
    assert found["tenth"] == "2.50"
