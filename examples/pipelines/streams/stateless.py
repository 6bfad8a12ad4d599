"""Kafka Streams' mapValues, flatMapValues, filter, merge, peek and split().branch().

Lines of two topics become words. Long and short words go to topics of their own, in one query: so each word
is in exactly one of them, exactly once.

ottla pipeline run stateless.py --available-now
"""

from pyspark.sql import functions as sf

from ottla.spark import pipelines as dp

dp.create_sink("words", "ottla")  # no topic: each record names its own


def words(lines):
    """One row for each word: map, flatMap, filter."""
    text = sf.lower(sf.col("value").cast("string"))
    return lines.select(sf.explode(sf.split(text, "[^a-z]+")).alias("word")).where("word <> ''")


def peeked(rows):
    """Look at what flows by: the figures stand in each batch's progress, under observedMetrics."""
    return rows.observe("words", sf.count("*").alias("all"), sf.max(sf.length("word")).alias("longest"))


def branched(rows):
    """Each row names the topic that it goes to."""
    topic = sf.when(sf.length("word") > 6, "long-words").otherwise("short-words")
    return rows.select(sf.col("word").alias("key"), sf.col("word").alias("value"), topic.alias("topic"))


@dp.append_flow(target="words")
def split_words():
    merged = dp.read_topic("books").unionByName(dp.read_topic("letters"))
    return branched(peeked(words(merged)))
