"""Parquet files into a topic, each row exactly once: each file is read once, also over restarts.

ottla pipeline run from_parquet.py --available-now
"""

import os

from ottla.spark import pipelines as dp

FOLDER = os.environ.get("ORDERS_FOLDER", "/tmp/ottla-orders")


@dp.table(format="ottla", options={"topic": "restored-orders", "key": "item"})
def restored():
    return dp.read_files(FOLDER, "parquet").drop("day")
