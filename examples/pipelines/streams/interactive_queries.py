"""Kafka Streams' interactive queries: ask a pipeline for the totals of one item (see aggregates.py).

Two ways. The topic that it writes answers at once, without Spark: the newest record of the key, out of the
one partition where the key belongs. The state in the checkpoint is a table for Spark, with all that the
query remembers.

python interactive_queries.py tea [localhost:9092 [ottla-pipelines/aggregates/checkpoints/totals]]
"""

import sys

from ottla.client import Consumer, TopicPartition
from ottla.client.producer.partitioners import partition_of


def newest(address, topic, key):
    """Return the newest committed value of a key, or None if there is none (any more)."""
    value = None
    with Consumer(address, isolation_level="read_committed", auto_offset_reset="earliest") as consumer:
        count = len(consumer.partitions_for_topic(topic))
        place = TopicPartition(topic, partition_of(key, count))
        consumer.assign([place])
        [end] = consumer.end_offsets([place]).values()
        while consumer.position(place) < end:
            for record in consumer.poll(1_000).get(place, ()):
                value = record.value if record.key == key else value
    return value


def state_of(spark, checkpoint):
    """Return what a query remembers as a table: key and value are what it groups by and what it has."""
    return spark.read.format("statestore").load(checkpoint)


def main(item, address="localhost:9092", checkpoint=None):
    """Ask the topic, and with a checkpoint the state too."""
    print(newest(address, "item-totals", item.encode()))
    if checkpoint:
        from ottla.spark import session

        state_of(session("questions"), checkpoint).where(f"key.item = '{item}'").show(truncate=False)


if __name__ == "__main__":
    main(*sys.argv[1:])
