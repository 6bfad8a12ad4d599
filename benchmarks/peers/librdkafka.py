"""Loads by librdkafka (C), through confluent-kafka."""

from __future__ import annotations

from benchmarks.peers.load import Figures, Go, Options
from benchmarks.throughput import Case, Sender, open_consumer, read


def _case(options: Options) -> Case:
    return Case(
        record_bytes=options["record_bytes"],
        partitions=options["partitions"],
        acks=options["acks"],
        records=options["records"],
        compression=options["compression"],
        name=options["topic"],
    )


def produce(options: Options, go: Go) -> Figures:
    """Send `records` records and wait for all acks."""
    sender = Sender(options["address"], _case(options))
    go()
    sender.send()
    return {}


def fill(options: Options, go: Go) -> Figures:
    """Send `records` records to each of `topics`, one topic after the other."""
    go()
    for topic in options["topics"]:
        Sender(options["address"], _case({**options, "topic": topic})).send()
    return {}


def consume(options: Options, go: Go) -> Figures:
    """Read `records` records of the partitions `mine`."""
    consumer = open_consumer(options["address"])
    consumer.list_topics(options["topic"], timeout=30)
    go()
    read(consumer, _case(options), options["mine"], options["records"])
    return {}
