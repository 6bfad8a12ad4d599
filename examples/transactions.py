"""Consume, transform, produce: what is read counts as read exactly if what was made of it is there.

Kill it at any moment and start it again: every word is in `counted` once.
"""

import sys

from ottla.client import Consumer, OffsetAndMetadata, Producer, TopicPartition

LINES = ("the cat sat on the mat", "the dog sat on the log", "a cat and a dog")


def count_words(consumer: Consumer, producer: Producer) -> int:
    """Deal with what is there, in one transaction; return how many lines that was."""
    records = consumer.poll(timeout_ms=2_000)
    if not records:
        return 0
    with producer.transaction():  # commits at the end, aborts if something is raised
        next_offsets: dict[TopicPartition, OffsetAndMetadata] = {}
        for partition, lines in records.items():
            for line in lines:
                for word in line.value.split():
                    producer.send("counted", b"1", key=word)
            next_offsets[partition] = OffsetAndMetadata(lines[-1].offset + 1)
        producer.send_offsets_to_transaction(next_offsets, consumer.group_metadata())
    return sum(map(len, records.values()))


def main(bootstrap_servers: str = "localhost:9092") -> None:
    with Producer(bootstrap_servers) as source:
        for line in LINES:
            source.send("lines", line.encode())

    with (
        Consumer(
            bootstrap_servers,
            group_id="word-count",
            topics="lines",
            auto_offset_reset="earliest",
            enable_auto_commit=False,  # the transaction does it
            isolation_level="read_committed",
        ) as consumer,
        # One producer at a time has this name: whoever had it before is fenced off.
        Producer(bootstrap_servers, transactional_id="word-count-1") as producer,
    ):
        done = 0
        while done < len(LINES):
            done += count_words(consumer, producer)
        print(f"{done} lines counted")


if __name__ == "__main__":
    main(*sys.argv[1:])
