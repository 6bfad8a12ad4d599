"""Orders come in as JSON; revenue per minute and item goes out, and so does every large order."""

from pyspark.sql import SparkSession
from pyspark.sql import functions as sf

from ottla.spark import pipelines as dp

spark = SparkSession.active()

ORDER = "item STRING, quantity INT, price DOUBLE, at TIMESTAMP"


@dp.temporary_view
def orders():
    """The topic `shop-orders`, value by value."""
    return dp.read_topic("shop-orders", schema=ORDER)


@dp.table(format="ottla", options={"topic": "revenue", "key": "item"})
def revenue():
    """A window is written once: when orders come that are two minutes younger than its end."""
    return (
        spark.readStream.table("orders")
        .withWatermark("at", "2 minutes")
        .groupBy(sf.window("at", "1 minute"), "item")
        .agg(
            sf.sum("quantity").alias("pieces"),
            sf.round(sf.sum(sf.expr("quantity * price")), 2).alias("revenue"),
        )
        .select("window.start", "item", "pieces", "revenue")
    )
