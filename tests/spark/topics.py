"""Topics for the tests of Spark: made, filled and read by our own client."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from types import TracebackType
from typing import Self

from ottla.client import Admin, Consumer, ConsumerRecord, Producer, TopicPartition

_numbers = itertools.count()

SHORT_LIVED = {
    "spark.driver.extraJavaOptions": (
        "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:ReservedCodeCacheSize=240m"  # 48m fills with all tests
    ),
    "spark.sql.codegen.wholeStage": "false",
}
"""For a JVM that does little and is soon gone: do not compile what runs once."""


class Topics:
    """What a test does with topics beside Spark."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.admin = Admin(address)
        self.producer = Producer(address)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.producer.close()
        self.admin.close()

    def create(self, name: str = "topic", *, partitions: int = 3, **configs: str) -> str:
        """Make a topic with a name that nobody has used, and return the name."""
        name = f"{name}-{next(_numbers)}"
        settings = {key.replace("_", "."): value for key, value in configs.items()}
        self.admin.create_topic(name, partitions=partitions, configs=settings)
        return name

    def fill(
        self, topic: str, values: Iterable[bytes | str], *, keys: bool = True, partition: int | None = None
    ) -> None:
        """Send records; each has its value as its key too."""
        with Producer(self.address) as producer:  # one that knows how many partitions there are now
            for value in values:
                raw = value if isinstance(value, bytes) else value.encode()
                producer.send(topic, raw, key=raw if keys else None, partition=partition)

    def records(self, topic: str, *, committed: bool = True) -> list[ConsumerRecord]:
        """Return all the records of a topic, as a consumer sees them that reads committed ones only."""
        level = "read_committed" if committed else "read_uncommitted"
        with Consumer(self.address, isolation_level=level, auto_offset_reset="earliest") as consumer:
            partitions = [TopicPartition(topic, each.index) for each in consumer.partitions_for_topic(topic)]
            ends = consumer.end_offsets(partitions)
            consumer.assign([each for each in partitions if ends[each]])
            found: list[ConsumerRecord] = []
            while any(consumer.position(each, 10_000) < ends[each] for each in consumer.assignment()):
                for records in consumer.poll(1_000, 10_000).values():
                    found += records
            return found

    def values(self, topic: str) -> list[str]:
        """Return the values of a topic, sorted."""
        return sorted(each.value.decode() for each in self.records(topic))

    def open_transactions(self) -> list[str]:
        """Return the transactional ids of Spark's tasks whose transactions are not ended."""
        found = self.admin.list_transactions()
        return [
            each.transactional_id
            for each in found
            if each.transactional_id.startswith("spark/")
            and each.state not in ("CompleteCommit", "CompleteAbort", "Empty")
        ]


def numbers(first: int, last: int) -> Sequence[str]:
    """Return numbers as texts of one length, so that they sort."""
    return [f"{each:06d}" for each in range(first, last)]
