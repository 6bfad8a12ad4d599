"""A topic as a table, and a table as a topic.

`customers` is keyed by id, a null value deletes. `vip` is written the same way: the customers who order
often, null for those who do not (any more).
"""

from pyspark.sql import functions as sf

from ottla.spark import pipelines as dp

dp.create_sink("vip", "ottla", {"topic": "vip"})


@dp.materialized_view
def customers():
    """The latest of each key, without the deleted."""
    return dp.read_changelog("customers", schema="name STRING, orders INT").withColumn(
        "id", sf.col("key").cast("string")
    )


@dp.append_flow(target="vip")
def follow():
    changes = dp.read_topic("customers")
    value = sf.from_json(sf.col("value").cast("string"), "name STRING, orders INT")
    rows = changes.select(
        sf.col("key").cast("string").alias("id"), value["name"].alias("name"), value["orders"].alias("orders")
    )
    return dp.as_changelog(rows, key="id", deleted="orders IS NULL OR orders < 10")
