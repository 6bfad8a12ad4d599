"""Sum up the orders by country: with Spark in a process of its own, or a consumer group in this one.

Both read the topic of orders with a consumer group, so that its lag can be shown, and write one record per
country and change to the topic of results: key `DE`, value `{"country": "DE", "orders": 12, "cents": 3456}`.
"""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from ottla.cli.demo.state import Names
from ottla.cli.support.problems import Problem
from ottla.cli.support.session import connection_settings
from ottla.client.cluster import Cluster
from ottla.client.consumer import AsyncConsumer, ConsumerOptions
from ottla.client.producer import AsyncProducer
from ottla.common.config.properties import as_properties
from ottla.common.processes import die_with_parent, terminate

# The pipeline file of the demo, for `ottla pipeline run`.

FLOW = "sales"
TEXT = '''"""What each country has ordered so far; written by `ottla demo`."""

from pyspark.sql import SparkSession
from pyspark.sql import functions as sf

from ottla.spark import pipelines as dp

spark = SparkSession.active()


@dp.temporary_view
def orders():
    return dp.read_topic("{orders}", schema="country STRING, cents BIGINT")


@dp.table(
    format="ottla",
    options={{"topic": "{results}", "key": "country"}},
    output_mode="update",
    trigger="1 second",
)
def {flow}():
    return (
        spark.readStream.table("orders")
        .groupBy("country")
        .agg(sf.count("*").alias("orders"), sf.sum("cents").alias("cents"))
    )
'''


def pipeline_text(names: Names) -> str:
    """Return the file for the topics of a run."""
    return TEXT.format(orders=names.orders, results=names.results, flow=FLOW)


SPARK_SETTINGS = ("--set", "spark.sql.shuffle.partitions=2", "--set", "spark.ui.enabled=false")
STOPPED_WITHIN_S = 20.0
ERROR_TAIL_LINES = 8


@asynccontextmanager
async def spark_pipeline(cluster: Cluster, names: Names) -> AsyncIterator[asyncio.Future[None]]:
    """Run the pipeline on Spark, in a process of its own; yield a future that fails if it ends."""
    with tempfile.TemporaryDirectory(prefix="ottla-demo-") as folder:
        file = Path(folder) / f"{names.pipeline}.py"
        file.write_text(pipeline_text(names))
        settings = (
            Path(folder) / "client.properties"
        )  # not in the arguments, where other users can see passwords
        settings.write_text(as_properties(connection_settings()))
        errors = Path(folder) / "said"
        with errors.open("wb") as log:
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                *("-m", "ottla.cli.main", "pipeline", "run", str(file)),
                *("--name", names.pipeline, "--root", folder, "--master", "local[2]"),
                *("--bootstrap-server", ",".join(map(str, cluster.bootstrap))),
                *("--command-config", str(settings)),
                *SPARK_SETTINGS,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=folder,
                start_new_session=True,
                preexec_fn=die_with_parent,
            )
        ending = asyncio.ensure_future(_fail_at_end(process, errors))
        try:
            yield ending
        finally:
            ending.cancel()
            await terminate(process, STOPPED_WITHIN_S)


async def _fail_at_end(process: asyncio.subprocess.Process, errors: Path) -> None:
    code = await process.wait()
    said = errors.read_text(errors="replace").splitlines()
    known = [line for line in said if line.startswith("error: ")]
    tail = known[-1:] or [line for line in said if line.strip()][-ERROR_TAIL_LINES:]
    raise Problem(
        f"the Spark pipeline ended with exit code {code}",
        *tail,
        "without Spark:  ottla demo --no-spark",
    )


@asynccontextmanager
async def python_pipeline(cluster: Cluster, names: Names) -> AsyncIterator[asyncio.Future[None]]:
    """Do the same with a consumer group in this process; yield a future that fails if it ends."""
    adding = asyncio.ensure_future(_add_up(cluster, names))
    try:
        yield adding
    finally:
        adding.cancel()
        with suppress(asyncio.CancelledError):
            await adding


async def _add_up(cluster: Cluster, names: Names) -> None:
    reading = ConsumerOptions(group_id=names.group, auto_offset_reset="earliest", auto_commit_interval_ms=500)
    orders: Counter[str] = Counter()
    cents: Counter[str] = Counter()
    async with (
        AsyncProducer.on(cluster) as producer,
        AsyncConsumer.on(cluster, reading) as consumer,
    ):
        consumer.subscribe([names.orders])
        while True:
            fetched = await consumer.getmany(timeout_ms=None)
            changed = set()
            for record in (each for some in fetched.values() for each in some):
                order = json.loads(record.value or b"{}")
                country = order["country"]
                orders[country] += 1
                cents[country] += order["cents"]
                changed.add(country)
            for country in sorted(changed):
                total = {"country": country, "orders": orders[country], "cents": cents[country]}
                await producer.send(names.results, json.dumps(total).encode(), country.encode())
