"""Loads by Ottla's own clients."""

from __future__ import annotations

from benchmarks.payloads import values
from benchmarks.peers.load import Figures, Go, Options
from ottla.client import Consumer, Producer, TopicPartition

CHUNK = 10_000


def produce(options: Options, go: Go) -> Figures:
    """Send `records` records and wait for all acks."""
    topic, pool = options["topic"], values(options["record_bytes"])
    with Producer(options["address"], acks=options["acks"], linger_ms=20, batch_size=1_000_000) as producer:
        producer.send(topic, pool[0]).result(30)
        go()
        for number in range(options["records"]):
            producer.send(topic, pool[number % len(pool)])
        producer.flush()
    return {}


def consume(options: Options, go: Go) -> Figures:
    """Read `records` records of the partitions `mine`."""
    places = [TopicPartition(options["topic"], index) for index in options["mine"]]
    seen = 0
    with Consumer(options["address"], auto_offset_reset="earliest") as consumer:
        consumer.partitions_for_topic(options["topic"])
        go()
        consumer.assign(places)
        while seen < options["records"]:
            fetched = consumer.getmany(timeout_ms=1000, max_records=CHUNK)
            seen += sum(len(records) for records in fetched.values())
    return {}
