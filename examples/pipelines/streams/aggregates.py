"""Kafka Streams' groupByKey with count, reduce, aggregate, and cogroup.

The result is a KTable: a topic with the newest totals of each item, keyed by the item (make it with
cleanup.policy=compact). Update mode writes an item whenever its totals have changed.

ottla pipeline run aggregates.py --available-now
"""

from pyspark.sql import functions as sf

from ottla.spark import pipelines as dp

SALE = "item STRING, pieces INT, price DOUBLE"
RETURN = "item STRING, reason STRING"


def totals_of(sales):
    """Count, reduce (two values become one of the same kind), aggregate (into a value of another kind)."""
    return sales.groupBy("item").agg(
        sf.count("*").alias("sales"),
        sf.max("price").alias("highest_price"),
        sf.struct(sf.sum("pieces").alias("pieces"), sf.max("pieces").alias("most")).alias("amounts"),
    )


def cogrouped(sales, returns):
    """Two streams of different shape into one aggregate: each brings its columns, null in the other's."""
    sold = sales.select("item", "pieces", sf.lit(None).cast("string").alias("reason"))
    given_back = returns.select("item", sf.lit(None).cast("int").alias("pieces"), "reason")
    reasons = sf.array_sort(sf.collect_set("reason")).alias("reasons")
    return sold.union(given_back).groupBy("item").agg(sf.sum("pieces").alias("sold"), reasons)


@dp.table(format="ottla", options={"topic": "item-totals", "key": "item"}, output_mode="update")
def totals():
    return totals_of(dp.read_topic("sales", schema=SALE))


@dp.table(format="ottla", options={"topic": "item-quality", "key": "item"}, output_mode="update")
def quality():
    return cogrouped(dp.read_topic("sales", schema=SALE), dp.read_topic("returns", schema=RETURN))
