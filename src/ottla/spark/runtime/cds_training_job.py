"""Run small jobs of every kind, so that Spark loads the classes for the AppCDS archive (app_cds.py)."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamArrowWriter,
    DataSourceStreamReader,
    InputPartition,
    WriterCommitMessage,
)

JAVA_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""Do not compile code that runs once. An AOT cache has its profiles, too, and needs Java's own collector."""
ROWS = 10
BATCHES = 2
SCHEMA = "n BIGINT, at TIMESTAMP, value STRING"
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"


class Numbers(DataSource):
    """A data source of numbers; it discards what is written."""

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return "numbers"

    def schema(self) -> str:
        """Return the columns."""
        return SCHEMA

    def reader(self, schema: Any) -> DataSourceReader:
        """Return the reader of a batch."""
        return NumberReader()

    def streamReader(self, schema: Any) -> DataSourceStreamReader:  # noqa: N802
        """Return the reader of a stream."""
        return NumberStream()

    def writer(self, schema: Any, overwrite: bool) -> DataSourceArrowWriter:
        """Return the writer of a batch."""
        return DiscardingWriter()

    def streamWriter(self, schema: Any, overwrite: bool) -> DataSourceStreamArrowWriter:  # noqa: N802
        """Return the writer of a stream."""
        return DiscardingStreamWriter()


def count_from(first: int) -> Iterator[Any]:
    """Yield some numbers as an Arrow record batch."""
    import pyarrow as pa

    rows = range(first, first + ROWS)
    times = pa.array([n * 1_000_000 for n in rows], pa.timestamp("us", tz="UTC"))
    values = pa.array([f'{{"n":{n}}}' for n in rows])
    yield pa.RecordBatch.from_arrays([pa.array(list(rows)), times, values], ["n", "at", "value"])


class NumberReader(DataSourceReader):
    """Reads numbers as a table."""

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Yield the numbers."""
        return count_from(0)


class NumberStream(DataSourceStreamReader):
    """Reads numbers as a stream of a few batches."""

    at = 0

    def initialOffset(self) -> dict[str, int]:  # noqa: N802
        """Return where to begin."""
        return {"n": 0}

    def latestOffset(self) -> dict[str, int]:  # type: ignore[override]  # noqa: N802
        """Return where the next batch ends."""
        self.at = min(self.at + ROWS, ROWS * BATCHES)
        return {"n": self.at}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[InputPartition]:
        """Return one task."""
        return [InputPartition(start["n"])]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Yield the numbers of one batch."""
        return count_from(partition.value)


class DiscardingWriter(DataSourceArrowWriter):
    """Reads its input and discards it."""

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        """Read everything."""
        for _ in iterator:
            pass
        return WriterCommitMessage()


class DiscardingStreamWriter(DataSourceStreamArrowWriter):
    """The same for streams."""

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        """Read everything."""
        return DiscardingWriter().write(iterator)

    def commit(self, messages: Any, batchId: int = -1) -> None:  # noqa: N803
        """Do nothing."""


def tables(spark: Any, folder: Path) -> None:
    """Read, parse, group, join, sort, and write tables."""
    rows = spark.read.format("numbers").load()
    rows.write.format("numbers").mode("append").save()
    rows.write.parquet(str(folder / "rows"))
    stored = spark.read.parquet(str(folder / "rows"))
    stored.createOrReplaceTempView("stored")
    spark.sql(
        "SELECT window(at, '5 seconds') AS w, count(*) AS c, sum(from_json(value, 'n BIGINT').n) AS s "
        "FROM stored WHERE n > 1 GROUP BY 1 ORDER BY 1"
    ).collect()
    stored.join(rows.select("n"), "n").toPandas()
    stored.select("value").write.text(str(folder / "texts"))
    spark.read.json(str(folder / "texts")).collect()


def streams(spark: Any, folder: Path) -> None:
    """Copy a stream, and count by window, with both state stores."""
    from pyspark.sql import functions as f

    rows = spark.readStream.format("numbers").load()
    copied = rows.select(f.to_json(f.struct("n", "at")).cast("binary").alias("value"))
    run(copied.writeStream.format("numbers"), folder / "copied")
    counts = rows.withWatermark("at", "1 second").groupBy(f.window("at", "5 seconds"), "n").count()
    counts = counts.select(f.col("count"))
    run(counts.writeStream.format("numbers"), folder / "counted")
    spark.conf.set("spark.sql.streaming.stateStore.providerClass", ROCKSDB)
    writer = counts.writeStream.outputMode("update")
    run(
        writer.foreachBatch(lambda some, _: some.write.format("numbers").mode("append").save()), folder / "up"
    )


def run(writer: Any, checkpoint: Path) -> None:
    """Run a query until its input is processed."""
    query = writer.option("checkpointLocation", str(checkpoint)).start()
    query.processAllAvailable()
    query.stop()


def main() -> None:
    """Run all jobs, and wait for the JVM to end: it writes the archive then."""
    from ottla.spark.runtime.builder import session
    from ottla.spark.runtime.spark_home import app_cds_archive

    archive = app_cds_archive()
    java_options = "" if archive is not None and archive.is_aot_cache else JAVA_OPTIONS
    with tempfile.TemporaryDirectory() as folder:
        conf = {"spark.driver.extraJavaOptions": java_options}
        spark = session("training", master="local[2]", conf=conf, log_level="OFF")
        gateway: Any = spark.sparkContext._gateway
        spark.dataSource.register(Numbers)
        tables(spark, Path(folder))
        streams(spark, Path(folder))
        spark.stop()
        gateway.proc.stdin.close()
        gateway.proc.wait()


if __name__ == "__main__":
    main()
