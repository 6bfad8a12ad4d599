"""Copies a topic as a table, prints which Java does it, and what the sink says to speculation."""

from __future__ import annotations

import sys
from typing import Any

from tests.spark.topics import SHORT_LIVED

from ottla.spark import session


def main(address: str, into: str, out: str) -> None:
    """Copy at least once, then try to write exactly once though tasks may be run twice."""
    spark = session(
        "java", master="local[1]", conf={**SHORT_LIVED, "spark.speculation": "true"}, log_level="OFF"
    )
    jvm: Any = spark.sparkContext._jvm
    print("java.home", jvm.java.lang.System.getProperty("java.home"))
    rows = (
        spark.read.format("ottla").option("kafka.bootstrap.servers", address).option("subscribe", into).load()
    )
    sink = rows.select("value").write.format("ottla").option("kafka.bootstrap.servers", address)
    sink = sink.option("topic", out).mode("append")
    sink.option("deliveryGuarantee", "at-least-once").save()
    try:
        sink.option("deliveryGuarantee", "exactly-once").save()
    except Exception as error:
        print("refused", error)
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
