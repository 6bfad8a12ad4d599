"""Topics as Spark tables and streams: the data source `ottla`, its exactly-once sink, and Spark sessions.

Reading order:

    data_source         what Spark calls: readers and writers by their options
    options             all options, declared once; options_docs writes docs/spark-options.md
    cluster_session     the connections of a process, shared by its tasks
    source/             batch and stream readers
    sink/               prepared transactions and one decision record per batch
    runtime/            a SparkSession that starts fast and has short batches
    checkpoint_lock     one run of a query per checkpoint
    pipelines/          declarative pipelines and their runner
    worker              settings of Python workers, and the context of a task

Spark finds the data source through the module `pyspark_ottla`. See docs/spark.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.common.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from ottla.spark.data_source import OttlaSource as OttlaSource
    from ottla.spark.runtime.builder import builder as builder
    from ottla.spark.runtime.builder import session as session

_HOMES = {
    "OttlaSource": "ottla.spark.data_source",
    "builder": "ottla.spark.runtime.builder",
    "session": "ottla.spark.runtime.builder",
}

__all__ = sorted(_HOMES)
__getattr__, __dir__ = lazy_exports(__name__, _HOMES)
