"""Kafka Streams' KStream-KStream joins: inner, left, outer (here: full); and right and semi.

Orders and payments meet if the payment comes within ten minutes after the order. Watermarks on both sides
say how long a row is kept for one that may still come, and when a row without partner is written.

ottla pipeline run stream_joins.py --available-now
"""

from pyspark.sql import functions as sf

from ottla.spark import pipelines as dp

KINDS = {"inner": "inner", "left": "left", "right": "right", "full": "full", "semi": "left_semi"}


def joined(orders, payments, kind):
    """Orders (id, item, at) and payments (id, amount, paid_at) that belong together."""
    left = orders.withWatermark("at", "1 minute").alias("o")
    right = payments.withWatermark("paid_at", "1 minute").alias("p")
    in_time = "o.id = p.id AND paid_at BETWEEN at AND at + INTERVAL 10 MINUTES"
    both = left.join(right, sf.expr(in_time), KINDS[kind])
    if kind == "semi":  # orders that were paid, once each
        return both.select("id", "item")
    return both.select(sf.coalesce("o.id", "p.id").alias("id"), "item", "amount")


def declare(kind):
    @dp.table(name=f"{kind}_join", format="ottla", options={"topic": f"paid-{kind}", "key": "id"})
    def rows():
        orders = dp.read_topic("placed-orders", schema="id STRING, item STRING, at TIMESTAMP")
        payments = dp.read_topic("payments", schema="id STRING, amount DOUBLE, paid_at TIMESTAMP")
        return joined(orders, payments, kind)


for each in KINDS:
    declare(each)
