"""Kafka Streams' KTable-KTable join by key: a table that follows two tables.

Spark's joins take nothing back when a row changes. So the changes of both topics, each with a tag, go to a
processor that knows both sides of its key. It writes the joined row when one has changed, and a null value
(which deletes) when one is gone.

ottla pipeline run table_join.py --available-now
"""

from pyspark.sql import Row
from pyspark.sql import functions as sf
from pyspark.sql.streaming import StatefulProcessor

from ottla.spark import pipelines as dp

ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
SIDES = ("stock", "shelf")


class TableJoin(StatefulProcessor):
    def init(self, handle):
        self.sides = {name: handle.getValueState(name, "value STRING") for name in SIDES}

    def handleInputRows(self, key, rows, timerValues):  # noqa: N802,N803 (Spark's names)
        before = self._joined()
        for row in sorted(rows, key=lambda row: row.offset):  # a key's changes of one topic, as they came
            side = self.sides[row.side]
            side.update((row.value,)) if row.value is not None else side.clear()
        after = self._joined()
        if after != before:
            yield Row(key=key[0], value=after)

    def _joined(self):
        values = [state.get()[0] if state.exists() else None for state in self.sides.values()]
        if None in values:
            return None
        return f'{{"{SIDES[0]}": {values[0]}, "{SIDES[1]}": {values[1]}}}'


def joined_tables(stock, shelves):
    """Records of two changelogs; the result is a changelog."""
    changes = _tagged(stock, SIDES[0]).unionByName(_tagged(shelves, SIDES[1]))
    return changes.groupBy("key").transformWithState(
        TableJoin(), "key STRING, value STRING", "Append", "None"
    )


def _tagged(records, side):
    columns = ["CAST(key AS STRING) AS key", "CAST(value AS STRING) AS value", "offset"]
    return records.selectExpr(*columns).withColumn("side", sf.lit(side))


@dp.table(
    format="ottla",
    options={"topic": "items"},
    spark_conf={"spark.sql.streaming.stateStore.providerClass": ROCKSDB},
)
def items():
    return joined_tables(dp.read_topic("stock"), dp.read_topic("shelves"))
