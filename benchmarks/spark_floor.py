"""What a small batch costs in Spark itself, in the same session: what no source and no sink can go below.

jvm     rate-micro-batch -> noop: Spark's planning, its two logs and one task, without Python
python  a Python source of one row -> a Python sink that discards it: the calls of the Python API, too
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any

from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition

from ottla.spark.runtime.cds_training_job import DiscardingStreamWriter

BATCHES, WARM = 100, 34
DEADLINE_S = 120.0


class OneRow(DataSource):
    """A stream with a row in each batch; it discards what is written."""

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return "one-row"

    def schema(self) -> str:
        """Return the columns."""
        return "value BIGINT"

    def streamReader(self, schema: Any) -> DataSourceStreamReader:  # noqa: N802
        """Return the reader."""
        return OneRowReader()

    def streamWriter(self, schema: Any, overwrite: bool) -> DiscardingStreamWriter:  # type: ignore[override]  # noqa: N802
        """Return the writer."""
        return DiscardingStreamWriter()


class OneRowReader(DataSourceStreamReader):
    """Has another row whenever it is asked."""

    def initialOffset(self) -> dict[str, int]:  # noqa: N802
        """Return where to begin."""
        return {"n": 0}

    def latestOffset(self, start: dict[str, int], limit: Any) -> dict[str, int]:  # noqa: N802
        """Return where the next batch ends."""
        return {"n": start["n"] + 1}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[InputPartition]:
        """Return one task."""
        return [InputPartition(end["n"])]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Yield the row."""
        import pyarrow as pa

        yield pa.RecordBatch.from_arrays([pa.array([partition.value])], ["value"])


def floors(spark: Any, checkpoints: Path) -> dict[str, float]:
    """Return the median times of a batch."""
    rate = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 1).load()
    seen = measured(rate.writeStream.format("noop"), checkpoints / "floor-jvm", "jvm")
    spark.dataSource.register(OneRow)
    rows = spark.readStream.format("one-row").load()
    return seen | measured(rows.writeStream.format("one-row"), checkpoints / "floor-python", "python")


def measured(writing: Any, checkpoint: Path, name: str) -> dict[str, float]:
    """Run a query for some batches."""
    query = writing.option("checkpointLocation", str(checkpoint)).start()
    deadline = time.monotonic() + DEADLINE_S
    while (query.lastProgress or {"batchId": -1})["batchId"] < BATCHES and time.monotonic() < deadline:
        time.sleep(0.01)
    batches = [each.durationMs for each in query.recentProgress][WARM:]
    query.stop()
    return {
        f"floor_{name}_ms": median(each["triggerExecution"] for each in batches),
        **{
            f"floor_{name}_{phase}_ms": median(each.get(phase, 0) for each in batches)
            for phase in ("addBatch", "walCommit", "commitOffsets", "queryPlanning", "latestOffset")
        },
    }
