"""The source: topics as batches and streams.

Reading order:

    batch_reader, stream_reader     what Spark calls
    options             what to read, from where to where
    topic_watch         partitions and offsets of the topics, from the cluster
    stream_position     the end of the next batch of a stream
    offsets             positions in Spark's checkpoint
    planning            which task reads which offsets
    reading             a task: fetch in the background, convert to Arrow
    range_reader        fetch ranges of offsets
    columns, deserializing, schema_registry     from record batches to columns
    json_values, json_times     from JSON to the columns of a schema
    record_filter       the option `where`
"""
