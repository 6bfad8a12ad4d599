"""Kafka Streams' suppress(untilTimeLimit): of many changes of a key, at most one a minute is passed on.

The first change of a key starts its minute; when that is over, the newest one is written. Time is that of
the changes, as in Kafka Streams.

ottla pipeline run suppress_by_time.py --available-now
"""

from pyspark.sql import Row
from pyspark.sql.streaming import StatefulProcessor

from ottla.spark import pipelines as dp

LIMIT_MS = 60_000
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"


class NewestPerMinute(StatefulProcessor):
    def init(self, handle):
        self.handle = handle
        self.held = handle.getValueState("held", "due_ms BIGINT, at_ms BIGINT, price DOUBLE")

    def handleInputRows(self, key, rows, timerValues):  # noqa: N802,N803 (Spark's names)
        held = before = self.held.get() if self.held.exists() else None
        for row in sorted(rows, key=lambda row: row.at_ms):
            if held is not None and row.at_ms >= held[0]:
                yield self._row(key, held)
                held = None
            held = (held[0] if held else row.at_ms + LIMIT_MS, row.at_ms, row.price)
        if before is not None and before[0] != held[0]:
            self.handle.deleteTimer(before[0])
        if before is None or before[0] != held[0]:
            self.handle.registerTimer(held[0])
        self.held.update(held)

    def handleExpiredTimer(self, key, timerValues, expiredTimerInfo):  # noqa: N802,N803
        yield self._row(key, self.held.get())
        self.held.clear()

    def _row(self, key, held):
        return Row(stock=key[0], at_ms=held[1], price=held[2])


def suppressed(prices):
    """Rows with stock, price, at."""
    timed = prices.withWatermark("at", "0 seconds").selectExpr("*", "unix_millis(at) AS at_ms")
    result = "stock STRING, at_ms BIGINT, price DOUBLE"
    return timed.groupBy("stock").transformWithState(NewestPerMinute(), result, "Append", "EventTime")


@dp.table(
    format="ottla",
    options={"topic": "calm-prices", "key": "stock"},
    spark_conf={"spark.sql.streaming.stateStore.providerClass": ROCKSDB},
)
def calm_prices():
    return suppressed(dp.read_topic("prices", schema="stock STRING, price DOUBLE, at TIMESTAMP"))
