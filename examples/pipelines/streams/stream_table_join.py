"""Kafka Streams' KStream-KTable join (by key), and GlobalKTable join (by any column).

The table is a topic with the newest value of each key. Every batch of the stream sees the table as it is
when the batch runs: whoever changes a customer changes how later visits look, not those already written.

ottla pipeline run stream_table_join.py --available-now
"""

from pyspark.sql import functions as sf

from ottla.spark import pipelines as dp


def with_customer(visits, customers):
    """KTable: visits have the customer's key. A left join: unknown visitors stay."""
    customers = customers.select(sf.col("key").cast("string").alias("customer"), "name", "city")
    return visits.join(customers, "customer", "left")


def with_country(visits, cities):
    """GlobalKTable: a small table, copied to every task, found by a column that is not the stream's key."""
    cities = cities.select(sf.col("key").cast("string").alias("city"), "country")
    return visits.join(sf.broadcast(cities), "city", "left")


@dp.table(format="ottla", options={"topic": "known-visits", "key": "customer"})
def known_visits():
    visits = dp.read_topic("visits", schema="customer STRING, page STRING")
    customers = dp.read_changelog("visitors", schema="name STRING, city STRING")
    cities = dp.read_changelog("cities", schema="country STRING")
    return with_country(with_customer(visits, customers), cities)
