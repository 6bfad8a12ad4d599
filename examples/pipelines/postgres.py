"""A changelog topic into a table of PostgreSQL, and a table of PostgreSQL into a topic.

The table `stock` (item text primary key, pieces int) follows the topic `stock`: a row for each item, the
last value, gone when the item is deleted. The table `prices` is copied into the topic `prices` once.

PGHOST=... PGDATABASE=... ottla pipeline run postgres.py --available-now
"""

from pyspark.sql import functions as sf

from ottla.spark import pipelines as dp

dp.create_sink(
    "stock",
    "postgres",
    {"table": "stock", "key": "item", "deleted": "is_deleted", "sequence_by": "sequence"},
)
dp.create_sink("prices", "ottla", {"topic": "prices", "key": "item"})


@dp.append_flow(target="stock")
def follow_stock():
    changes = dp.read_topic("stock")
    value = sf.from_json(sf.col("value").cast("string"), "pieces INT")
    return changes.select(
        sf.col("key").cast("string").alias("item"),
        value["pieces"].alias("pieces"),
        sf.col("value").isNull().alias("is_deleted"),
        sf.col("offset").alias("sequence"),
    )


@dp.append_flow(target="prices")
def copy_prices():
    return dp.read_postgres("prices")
