"""Start the streaming query of a flow: choose the writer, the checkpoint and the trigger."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from ottla.spark.pipelines.elements import POSTGRES, TABLE_OPTIONS, TOPIC, UPDATE, Dataset, Flow, Kind
from ottla.spark.pipelines.postgres.write import Target, write_batch
from ottla.spark.pipelines.problems import PipelineProblem
from ottla.spark.pipelines.records import RECORD_COLUMNS, for_topic
from ottla.spark.pipelines.run.storage import Storage
from ottla.spark.worker import BATCH_PLAN, QUERY_ID

FILES = ("parquet", "json", "csv", "orc", "text")


@dataclass(frozen=True)
class FlowWriter:
    """The common settings of the queries of one run."""

    spark: Any
    storage: Storage
    topic_options: Mapping[str, str]
    available_now: bool = False

    def start(self, flow: Flow, target: Dataset, rows: Any) -> Any:
        """Start a flow; return its StreamingQuery."""
        if not rows.isStreaming:
            return self._start_once(flow, target, rows)
        if target.format == TOPIC and not target.is_upsert:
            rows = for_topic(rows, key=target.options.get("key"))
        checkpoint = self.storage.checkpoint(flow.name)
        writer = (
            rows.writeStream.queryName(flow.name)
            .option("checkpointLocation", str(checkpoint))
            .outputMode(UPDATE if target.is_upsert else flow.output_mode)
        )
        if self.available_now:
            writer = writer.trigger(availableNow=True)
        elif flow.trigger:
            writer = writer.trigger(processingTime=flow.trigger)
        with self._settings(flow.spark_conf):
            if target.is_upsert:
                return writer.foreachBatch(self._upserting(target, rows)).start()
            return self._to(writer, flow, target).start()

    def _upserting(self, target: Dataset, rows: Any) -> Callable[[Any, int], None]:
        """Return the writer of the newest row of each key; create the topic if it is missing."""
        from ottla.spark.changelogs import Upserts, names_of
        from ottla.spark.upserting import ensure_compacted, is_serialized, writer_of_batches

        given, options = target.options, self._sink_options(target)
        is_record = (
            set(rows.columns) <= {*RECORD_COLUMNS, "offset", "timestampType"} and "value" in rows.columns
        )
        upserts = Upserts(
            names_of(given.get("key") or ("key" if is_record else "")),
            "value" if is_record else "",
            given.get("deleted"),
            given.get("sequence_by", ""),
            is_serialized(options),
        )
        upserts.check(rows.columns)
        ensure_compacted(options)
        return writer_of_batches(upserts, options)

    def _to(self, writer: Any, flow: Flow, target: Dataset) -> Any:
        if target.format == POSTGRES:
            return writer.foreachBatch(self._into_postgres(target))
        if target.format == TOPIC:
            options = self._sink_options(target)
            if (
                flow.output_mode == UPDATE
            ):  # Spark rejects it for Python sinks: each batch is written as a batch
                return writer.foreachBatch(
                    lambda batch, _: batch.write.format(TOPIC).mode("append").options(**options).save()
                )
            return writer.format(TOPIC).options(**options)
        if target.kind == Kind.SINK:
            writer = writer.format(target.format).options(**_without(target.options, "partition_by"))
            by = [part.strip() for part in target.options.get("partition_by", "").split(",") if part.strip()]
            return writer.partitionBy(*by) if by else writer
        folder = self.storage.table(target.name, flow.name)
        writer = writer.format(target.format).options(**target.options).option("path", str(folder))
        return writer.partitionBy(*target.partition_cols) if target.partition_cols else writer

    def _start_once(self, flow: Flow, target: Dataset, rows: Any) -> Any:
        """Start a flow that is not a stream: a stream of one row drives it, so that it has a checkpoint."""
        if target.kind != Kind.SINK:
            raise PipelineProblem(
                f"{flow.name!r} is not a stream, but {target.name!r} is a streaming table",
                "read with spark.readStream, or declare it with @dp.materialized_view",
                place=flow.place,
            )
        folder = self.storage.once(flow.name)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "go.txt").touch()
        if not (folder / "go.txt").stat().st_size:
            (folder / "go.txt").write_text("go\n", encoding="utf-8")
        write = self._write_once(target, rows)
        with self._settings(flow.spark_conf):
            return (
                self.spark.readStream.text(str(folder))
                .writeStream.queryName(flow.name)
                .option("checkpointLocation", str(self.storage.checkpoint(flow.name)))
                .trigger(availableNow=True)
                .foreachBatch(write)
                .start()
            )

    def _write_once(self, target: Dataset, rows: Any) -> Callable[[Any, int], None]:
        if target.format == POSTGRES:
            into = self._into_postgres(target)
            return lambda _, batch: into(rows, batch)
        if target.is_upsert:
            upserting = self._upserting(target, rows)
            return lambda _, batch: upserting(rows, batch)
        if target.format == TOPIC:
            records = for_topic(rows, key=target.options.get("key"))
            options = self._sink_options(target)
            return lambda *_: records.write.format(TOPIC).mode("append").options(**options).save()
        by = [part.strip() for part in target.options.get("partition_by", "").split(",") if part.strip()]
        writer = rows.write.format(target.format).options(**_without(target.options, "partition_by"))
        # Overwriting makes a retry idempotent.
        return lambda *_: (writer.partitionBy(*by) if by else writer).mode("overwrite").save()

    def _into_postgres(self, target: Dataset) -> Callable[[Any, int], None]:
        into = Target.of(target.options)

        def write(batch: Any, batch_id: int) -> None:
            context = self.spark.sparkContext
            query, plan = map(context.getLocalProperty, (QUERY_ID, BATCH_PLAN))
            write_batch(batch, into, query, batch_id, plan)

        return write

    def _sink_options(self, target: Dataset) -> dict[str, str]:
        options = {**self.topic_options, **_without(target.options, *TABLE_OPTIONS)}
        if target.kind != Kind.SINK and target.topic:
            options.setdefault("topic", target.topic)
        return options

    @contextmanager
    def _settings(self, settings: Mapping[str, str]) -> Iterator[None]:
        """Set a flow's Spark settings while it starts: a query keeps the settings of its start."""
        before = {key: self.spark.conf.get(key, None) for key in settings}
        try:
            for key, value in settings.items():
                self.spark.conf.set(key, value)
            yield
        finally:
            for key, value in before.items():
                self.spark.conf.unset(key) if value is None else self.spark.conf.set(key, value)


def _without(options: Mapping[str, str], *names: str) -> dict[str, str]:
    return {key: value for key, value in options.items() if key not in names}
