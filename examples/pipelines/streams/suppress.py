"""Kafka Streams' suppress(untilWindowCloses): one final record for each window, none before.

That is append mode: a window is written when the watermark has passed its end, and then never again.

ottla pipeline run suppress.py --available-now
"""

from pyspark.sql import functions as sf

from ottla.spark import pipelines as dp


def final_averages(readings):
    """The average of each sensor and minute, once the minute can get no more readings."""
    minutes = readings.withWatermark("at", "30 seconds").groupBy(sf.window("at", "1 minute"), "sensor")
    averages = minutes.agg(sf.count("*").alias("readings"), sf.avg("degrees").alias("average"))
    return averages.select("sensor", "window.start", "readings", "average")


@dp.table(format="ottla", options={"topic": "minute-averages", "key": "sensor"}, output_mode="append")
def minute_averages():
    return final_averages(dp.read_topic("temperatures", schema="sensor STRING, degrees DOUBLE, at TIMESTAMP"))
