"""Topics as Spark tables and streams: the data source `ottla`, its exactly-once sink, and Spark sessions.

Reading order:

    data_source         what Spark calls: readers and writers by their options
    errors, messages    errors of source and sink; the sentence in a message of Spark
    options             all options, declared once; options_docs writes docs/spark-options.md
    cluster_session     the connections of a process, shared by its tasks
    source/             batch and stream readers
    sink/               prepared transactions and one decision record per batch
    upserting, changelogs       topics as tables: rows by key into a compacted topic, and back
    kafka_format, connector_options     in place of Spark's Kafka connector
    runtime/            a SparkSession that starts fast and has short batches
    checkpoint_lock, checkpoint_files   one run of a query per checkpoint; what is in a checkpoint
    query_progress, progress_listener, driver_endpoint    lag and rates of queries; /metrics of a driver
    batch_plans         separates a replayed batch from another one with its number
    pipelines/          declarative pipelines and their runner
    worker              settings of Python workers, and the context of a task

Spark finds the data source through the module `pyspark_ottla`. See docs/spark.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.common.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from ottla.spark.changelogs import changelog as changelog
    from ottla.spark.changelogs import table as table
    from ottla.spark.data_source import OttlaSource as OttlaSource
    from ottla.spark.kafka_format import use_for_kafka as use_for_kafka
    from ottla.spark.runtime.builder import builder as builder
    from ottla.spark.runtime.builder import session as session
    from ottla.spark.upserting import upsert as upsert

_HOMES = {
    "OttlaSource": "ottla.spark.data_source",
    "builder": "ottla.spark.runtime.builder",
    "changelog": "ottla.spark.changelogs",
    "session": "ottla.spark.runtime.builder",
    "table": "ottla.spark.changelogs",
    "upsert": "ottla.spark.upserting",
    "use_for_kafka": "ottla.spark.kafka_format",
}

__all__ = sorted(_HOMES)
__getattr__, __dir__ = lazy_exports(__name__, _HOMES)
