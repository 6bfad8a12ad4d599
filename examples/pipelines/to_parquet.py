"""A topic into Parquet files, one folder per day of the orders' own time.

ottla pipeline run to_parquet.py --available-now     # again later: only what is new
"""

import os

from ottla.spark import pipelines as dp

FOLDER = os.environ.get("ORDERS_FOLDER", "/tmp/ottla-orders")

dp.create_sink("archive", "parquet", {"path": FOLDER, "partition_by": "day"})


@dp.append_flow(target="archive")
def orders_by_day():
    orders = dp.read_topic("orders", schema="item STRING, quantity INT, price DOUBLE, at TIMESTAMP")
    return dp.partition_by_time(orders, "at", "day")
