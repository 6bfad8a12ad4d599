"""The module by which Spark finds the format `ottla`: it looks for `DefaultSource` in each `pyspark_*`."""
