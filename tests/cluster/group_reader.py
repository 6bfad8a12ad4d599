"""A consumer group that reads while the cluster suffers, and remembers what it was given.

In a group a record may come twice (what was read but not committed when a member was lost). But from one
position to the next nothing may be left out, and in the end the group must have had everything.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from typing import Any

from confluent_kafka import Consumer, KafkaException, TopicPartition
from tests.cluster.history import Place
from tests.cluster.load import client_config

COMMIT_EVERY = 500


class GroupReader:
    """Members of one group, each with a thread of its own."""

    def __init__(self, bootstrap: str, topics: Iterable[str], members: int = 2, group: str = "group") -> None:
        self.problems: list[str] = []
        self._values: dict[Place, dict[int, bytes | None]] = {}
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._topics = list(topics)
        self._acked_commits: dict[Place, int] = {}
        self._bootstrap, self._group = bootstrap, group
        config = {
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "session.timeout.ms": 10_000,
            "partition.assignment.strategy": "cooperative-sticky",
        }
        self._threads = [
            threading.Thread(target=self._read, args=(client_config(bootstrap, config),), daemon=True)
            for _ in range(members)
        ]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        self._stopping.set()
        for thread in self._threads:
            thread.join(30)

    def ends(self) -> dict[Place, int]:
        """Return how far the group has read without a gap, from offset 0."""
        with self._lock:
            return {place: len(values) for place, values in self._values.items()}

    def values(self, place: Place) -> list[tuple[int, bytes | None]]:
        """Return what the group was given of a partition, by offset."""
        with self._lock:
            return sorted(self._values.get(place, {}).items())

    def _read(self, config: dict[str, Any]) -> None:
        positions: dict[Place, int] = {}

        def forget(_: Consumer, partitions: list[TopicPartition]) -> None:
            for each in partitions:
                positions.pop((each.topic, each.partition), None)

        consumer = Consumer(config)
        consumer.subscribe(self._topics, on_revoke=forget, on_lost=forget)
        uncommitted = 0
        try:
            while not self._stopping.is_set():
                for message in consumer.consume(200, 0.2):
                    if message.error() is not None:
                        continue
                    place = (message.topic() or "", message.partition() or 0)
                    self._take(positions, place, message.offset() or 0, message.value())
                    uncommitted += 1
                if uncommitted >= COMMIT_EVERY:
                    uncommitted = 0
                    self._commit(consumer)
        finally:
            consumer.close()

    def _take(self, positions: dict[Place, int], place: Place, offset: int, value: bytes | None) -> None:
        expected = positions.get(place)
        with self._lock:
            known = self._values.setdefault(place, {})
            if expected is not None and offset != expected:
                self.problems.append(f"{place}: the group was given offset {offset} after {expected - 1}")
            if known.get(offset, value) != value:
                self.problems.append(f"{place}: two values at offset {offset}")
            known[offset] = value
        positions[place] = offset + 1

    def _commit(self, consumer: Consumer) -> None:
        try:
            committed = consumer.commit(asynchronous=False) or []
        except KafkaException:
            return  # a coordinator that moves; the next commit covers it
        with self._lock:
            for each in committed:
                if each.error is None:
                    self._acked_commits[each.topic, each.partition] = each.offset

    def check_commits(self) -> list[str]:
        """Return the offsets whose commit was acknowledged, but which are not committed any more."""
        consumer = Consumer(client_config(self._bootstrap, {"group.id": self._group}))
        try:
            found = consumer.committed([TopicPartition(*place) for place in self._acked_commits], 30)
        finally:
            consumer.close()
        return [
            f"{each.topic}-{each.partition}: offset {self._acked_commits[each.topic, each.partition]} was "
            f"committed, now it is {each.offset}"
            for each in found
            if each.offset < self._acked_commits[each.topic, each.partition]
        ]
