"""From what a sender gave to a record in a queue: interceptors, serialisers, checks, the partition.

Plain functions without waiting, called in the sender's thread; both faces of the producer use them. A
record is first prepared, then offered; an offer is refused while the buffer is full, and made again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from operator import index
from typing import Any, NamedTuple

from ottla.client.metadata import TopicInfo
from ottla.client.producer.accumulator import Accumulator
from ottla.client.producer.batch import Batch, Callback, Delivery, size_of
from ottla.client.producer.bulk import Bulk
from ottla.client.producer.interceptors import Interceptors, ProducerRecord
from ottla.client.producer.options import ProducerOptions
from ottla.client.producer.partition_queue import PartitionQueue
from ottla.client.producer.partitioners import (
    STICKY,
    Partitioner,
    any_of,
    partitioner_of,
    positive_murmur2,
)
from ottla.client.record_serdes import KEY, VALUE, serialize
from ottla.common.clock import Clock
from ottla.common.ids import TopicPartition
from ottla.protocol.errors import MessageTooLarge, UnknownTopicOrPartition
from ottla.protocol.records.record_encoder import MAX_OVERHEAD_BYTES, NewRecord
from ottla.protocol.records.records import INT64_MAX, Headers
from ottla.protocol.records.value_encoder import encode_value_batch

# A topic that a producer writes to: its partitions, and which of them the next record goes to.


class Topic:
    """Finds the queue for a record."""

    def __init__(
        self, info: TopicInfo, accumulator: Accumulator, partitioner: str | Partitioner, batch_bytes: int
    ) -> None:
        self.name = info.name
        self._batch_bytes = batch_bytes
        self._accumulator = accumulator
        self._is_sticky = partitioner == STICKY
        self._choose = partitioner_of(partitioner) if isinstance(partitioner, str) else partitioner
        self._current: PartitionQueue | None = None
        self.adopt(info)

    def adopt(self, info: TopicInfo) -> None:
        """Take over which partitions there are, and which of them can be written to."""
        partitions = list(info.partitions)
        # The queues first: another thread may be about to choose among the partitions.
        self._queues = [self._accumulator.queue(TopicPartition(self.name, index)) for index in partitions]
        self._partitions = partitions
        self._available = [each.index for each in info.partitions.values() if each.leader >= 0]
        for queue in self._queues:
            queue.leader = info.partitions[queue.partition.partition].leader

    @property
    def partition_count(self) -> int:
        """The number of partitions, as far as is known."""
        return len(self._queues)

    def has(self, partition: int) -> bool:
        """Return whether there is such a partition, as far as is known."""
        return type(partition) is int and 0 <= partition < len(self._queues)

    def queue_for(self, key: bytes | None, partition: int | None, size_bytes: int) -> PartitionQueue:
        """Return the queue of the partition that is named, or else chosen, for a record of this size."""
        if partition is None:
            if self._is_sticky:
                if key is None:
                    return self._sticky(size_bytes)
                return self._queues[positive_murmur2(key) % len(self._queues)]
            partition = self._choose(key, self._partitions, self._available)
        if type(partition) is not int:
            partition = as_number(partition)
        if 0 <= partition < len(self._queues):
            return self._queues[partition]
        raise UnknownTopicOrPartition(
            f"{self.name} has no partition {partition}: it has {len(self._queues)}, numbered from 0"
        )

    def _sticky(self, size_bytes: int) -> PartitionQueue:
        """Return the partition of the last record without a key, until its batch is full or all is delivered.

        While a batch is on its way the next one waits for it and grows; elsewhere it would leave at once.
        """
        queue = self._current
        if queue is not None:
            batch = queue.open
            if (batch.size_bytes + size_bytes <= self._batch_bytes) if batch is not None else queue.in_flight:
                return queue
        return self.next_queue()

    def next_queue(self) -> PartitionQueue:
        """Return another partition than that of the last record without a key, if there is one."""
        queue = self._current
        candidates = self._available or self._partitions
        if queue is not None and len(candidates) > 1:
            candidates = [each for each in candidates if each != queue.partition.partition]
        queue = self._current = self._queues[any_of(candidates)]
        return queue


def as_number(partition: Any) -> int:
    """Return a partition as a plain number: one of numpy's is as good."""
    try:
        return index(partition)
    except TypeError:
        raise TypeError(f"a partition is a whole number, not {partition!r}") from None


HeadersGiven = Sequence[tuple[str, bytes | None]] | Mapping[str, bytes | None]


class Prepared(NamedTuple):
    """A record that is ready to be queued."""

    topic: str
    partition: int | None
    record: NewRecord
    size_bytes: int
    callback: Callback | None


class RecordPreparer:
    """Takes records for the topics that are known."""

    def __init__(self, options: ProducerOptions, accumulator: Accumulator, clock: Clock) -> None:
        self.topics: dict[str, Topic] = {}
        self.interceptors = Interceptors(options.interceptors)
        self._options = options
        self._accumulator = accumulator
        self._clock = clock
        self._key_serializer = options.key_serializer
        self._value_serializer = options.value_serializer
        self._max_bytes = options.max_request_size
        self._takes_bytes = not (self.interceptors.are_any or self._key_serializer or self._value_serializer)

    def take(
        self, topic: str, value: Any, key: Any, partition: int | None, callback: Callback | None
    ) -> Delivery | None:
        """Queue a plain record at once: bytes, now, no headers, for a known topic, with room for it.

        This is what nearly every record is, so it costs little; None for all others, which `prepare` and
        `offer` take care of, errors included.
        """
        target = self.topics.get(topic)
        if target is None or not self._takes_bytes:
            return None
        if partition is not None and not target.has(partition):
            return None
        size_bytes = MAX_OVERHEAD_BYTES
        if value is not None:
            if type(value) is not bytes:
                return None
            size_bytes += len(value)
        if key is not None:
            if type(key) is not bytes:
                return None
            size_bytes += len(key)
        if size_bytes > self._max_bytes:
            return None
        queue = target.queue_for(key, partition, size_bytes)
        record = (self._clock.wall_ms(), key, value, ())
        return self._accumulator.append(queue, record, size_bytes, callback)

    def takes_bulk(self, topic: str, partition: int | None, bulk: Bulk) -> bool:
        """Return whether records need nothing but to be encoded, so that `take_bulk` may have them."""
        options, target = self._options, self.topics.get(topic)
        if target is None or not self._takes_bytes or options.transactional_id is not None:
            return False
        if not (target.has(partition) if partition is not None else options.partitioner == STICKY):
            return False
        return bulk.largest_bytes <= self._max_bytes

    def divide_bulk(self, topic: str, partition: int | None, bulk: Bulk) -> Iterator[tuple[int | None, Bulk]]:
        """Yield records with the partition that their keys belong to, if it is not chosen already."""
        if partition is not None or bulk.keys is None:
            yield partition, bulk
            return
        for number, some in enumerate(bulk.by_partition(self.topics[topic].partition_count)):
            if some.values:
                yield number, some

    def take_bulk(
        self, topic: str, bulk: Bulk, size_bytes: int, partition: int | None, codec: int
    ) -> Batch | None:
        """Queue records as one batch, encoded; None if the buffer is full."""
        if self._accumulator.is_full(size_bytes):
            return None
        target = self.topics[topic]
        queue = target.next_queue() if partition is None else target.queue_for(None, partition, size_bytes)
        encoded = encode_value_batch(bulk.values, self._clock.wall_ms(), codec, bulk.keys, bulk.headers)
        return self._accumulator.append_encoded(queue, encoded, len(bulk.values))

    def knows(self, topic: str, partition: int | None) -> bool:
        """Return whether records can be offered for a topic, and for this partition if one is named."""
        target = self.topics.get(topic)
        return target is not None and (partition is None or target.has(partition))

    def prepare(
        self,
        topic: str,
        value: Any,
        key: Any,
        partition: int | None,
        timestamp_ms: int | None,
        headers: HeadersGiven,
        callback: Callback | None,
    ) -> Prepared:
        """Return the record that these stand for; raise TypeError, ValueError or MessageTooLarge."""
        if not isinstance(topic, str):
            raise TypeError(f"the name of a topic is text, not {type(topic).__name__}")
        if self.interceptors.are_any:
            given = ProducerRecord(topic, value, key, partition, timestamp_ms, _pairs(headers))
            topic, value, key, partition, timestamp_ms, headers = self.interceptors.on_send(given)
            callback = _both(callback, self.interceptors.on_acknowledgement)
        if self._key_serializer is not None or self._value_serializer is not None:
            added = list(_pairs(headers))
            key = serialize(self._key_serializer, topic, KEY, key, added)
            value = serialize(self._value_serializer, topic, VALUE, value, added)
            headers = added
        if partition is not None and type(partition) is not int:
            partition = as_number(partition)
        if key is not None and type(key) is not bytes:
            key = _as_bytes("key", key)
        if value is not None and type(value) is not bytes:
            value = _as_bytes("value", value)
        if timestamp_ms is None:
            timestamp_ms = self._clock.wall_ms()
        elif type(timestamp_ms) is not int or not 0 <= timestamp_ms <= INT64_MAX:
            timestamp_ms = _as_time(timestamp_ms)
        pairs: Headers = _checked(_pairs(headers)) if headers else ()
        size_bytes = size_of(key, value, pairs)
        if size_bytes > self._max_bytes:
            raise MessageTooLarge(
                f"a record for {topic} has {size_bytes} bytes, and max_request_size is {self._max_bytes}"
            )
        return Prepared(topic, partition, (timestamp_ms, key, value, pairs), size_bytes, callback)

    def offer(self, prepared: Prepared, has_waited: bool = False) -> Delivery | None:
        """Queue a record and return its delivery; None if the buffer is full."""
        topic, partition, record, size_bytes, callback = prepared
        queue = self.topics[topic].queue_for(record[1], partition, size_bytes)
        return self._accumulator.append(queue, record, size_bytes, callback, has_waited)

    def adopt(self, info: TopicInfo) -> None:
        """Take over what is known of a topic."""
        topic = self.topics.get(info.name)
        if topic is not None:
            topic.adopt(info)
        else:
            options = self._options
            self.topics[info.name] = Topic(info, self._accumulator, options.partitioner, options.batch_size)


def _as_bytes(what: str, given: Any) -> bytes:
    if isinstance(given, bytes | bytearray | memoryview):
        return bytes(given)  # what can change must not change after it was sent
    raise TypeError(
        f"a {what} is bytes or None, not {type(given).__name__}; for anything else give a {what}_serializer"
    )


def _as_time(given: Any) -> int:
    try:
        time_ms = index(given)
    except TypeError:
        raise TypeError(f"timestamp_ms is a whole number of milliseconds since 1970, not {given!r}") from None
    if not 0 <= time_ms <= INT64_MAX:
        raise ValueError(f"timestamp_ms counts from 1970 and is not negative, unlike {time_ms}")
    return time_ms


def _pairs(headers: HeadersGiven) -> Sequence[tuple[str, bytes | None]]:
    return tuple(headers.items()) if isinstance(headers, Mapping) else tuple(headers or ())


def _checked(headers: Sequence[tuple[str, bytes | None]]) -> Headers:
    checked = []
    for name, value in headers:
        if not isinstance(name, str):
            raise TypeError(f"the name of a header is text, not {type(name).__name__}")
        name.encode(errors="surrogateescape")
        if value is not None and not isinstance(value, bytes | bytearray | memoryview):
            raise TypeError(f"the value of a header is bytes or None, not {type(value).__name__}: encode it")
        checked.append((name, None if value is None else bytes(value)))
    return tuple(checked)


def _both(first: Callback | None, second: Callback) -> Callback:
    if first is None:
        return second

    def call(metadata: Any, error: Any) -> None:
        try:
            first(metadata, error)
        finally:
            second(metadata, error)

    return call
