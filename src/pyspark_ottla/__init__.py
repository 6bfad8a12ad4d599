"""The module by which Spark finds the format `ottla`: it looks for `DefaultSource` in each `pyspark_*`."""

from ottla.spark.data_source import OttlaSource as DefaultSource

__all__ = ["DefaultSource"]
