"""Topics as Spark tables and streams: the format `ottla`, its exactly-once sink, and Spark sessions.

    options           what users write: declared once, checked, refused by name
    source_offsets    how far a query has read, as it stands in the checkpoint
    planning          which task reads what
    topic_watch       asks the cluster: which partitions, where they begin and end
    stream_position   how far a stream can be read now
    range_reader      fetches ranges of offsets; columns makes Arrow of what came
    batch_reader      what Spark calls; stream_reader likewise
    sink/             prepared transactions and one decision record per batch
    sessions          a SparkSession with what makes small batches fast

Spark finds the format by itself, through the module `pyspark_ottla`. See docs/spark.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.common.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from ottla.spark.data_source import OttlaSource as OttlaSource
    from ottla.spark.session.builder import builder as builder
    from ottla.spark.session.builder import session as session

_HOMES = {
    "OttlaSource": "ottla.spark.data_source",
    "builder": "ottla.spark.session.builder",
    "session": "ottla.spark.session.builder",
}

__all__ = sorted(_HOMES)
__getattr__, __dir__ = lazy_exports(__name__, _HOMES)
