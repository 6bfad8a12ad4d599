"""The engine: a process with a Spark session that runs the tasks of a worker as streaming queries.

supervisor     starts the process when the first task is due, and again if it or its JVM dies
process        the main program of that process: commands in, events out
queries        a task as a streaming query
source_stream  the Spark data source around a SourceReader
topic_ranges   the Spark data source of sinks
sink_batches   the batches of a SinkWriter
spec           the description of a task that a worker sends to its engine
pipeline       converters and transforms of a task, and what happens to bad records
"""
