"""Kafka Streams' SlidingWindows: for each reading, the average of the ten seconds that end with it.

Spark has no such window: a processor keeps the readings of each sensor, and a timer for each of them. It
fires when the watermark has passed the reading, so late ones are counted too, whatever the order.

ottla pipeline run sliding_windows.py --available-now
"""

from datetime import UTC, datetime

from pyspark.sql import Row
from pyspark.sql.streaming import StatefulProcessor

from ottla.spark import pipelines as dp

WIDTH_MS = 10_000
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"


class SlidingAverage(StatefulProcessor):
    def init(self, handle):
        self.handle = handle
        self.readings = handle.getListState("readings", "at_ms BIGINT, degrees DOUBLE")

    def handleInputRows(self, key, rows, timerValues):  # noqa: N802,N803 (Spark's names)
        for row in rows:
            self.readings.appendValue((row.at_ms, row.degrees))
            self.handle.registerTimer(row.at_ms + 1)
        return iter(())

    def handleExpiredTimer(self, key, timerValues, expiredTimerInfo):  # noqa: N802,N803
        """All readings up to this one have come. Timers of a key fire in order: older ones are done with."""
        end_ms = expiredTimerInfo.getExpiryTimeInMs() - 1
        kept = [each for each in self.readings.get() if each[0] >= end_ms - WIDTH_MS]
        self.readings.put(kept)
        inside = [degrees for at_ms, degrees in kept if at_ms <= end_ms]
        end = datetime.fromtimestamp(end_ms / 1000, UTC)
        yield Row(sensor=key[0], end=end, readings=len(inside), average=sum(inside) / len(inside))


def sliding(readings):
    """Rows with sensor, degrees, at; those of one sensor and one moment make one window."""
    timed = readings.withWatermark("at", "5 seconds").selectExpr("*", "unix_millis(at) AS at_ms")
    result = "sensor STRING, end TIMESTAMP, readings INT, average DOUBLE"
    return timed.groupBy("sensor").transformWithState(SlidingAverage(), result, "Append", "EventTime")


@dp.table(
    format="ottla",
    options={"topic": "sliding-averages", "key": "sensor"},
    spark_conf={"spark.sql.streaming.stateStore.providerClass": ROCKSDB},
)
def sliding_averages():
    return sliding(dp.read_topic("probes", schema="sensor STRING, degrees DOUBLE, at TIMESTAMP"))
