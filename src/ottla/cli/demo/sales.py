"""The demo's pipeline, as `ottla pipeline run` takes it: a file of a page."""

from __future__ import annotations

from ottla.cli.demo.scene import Names

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
