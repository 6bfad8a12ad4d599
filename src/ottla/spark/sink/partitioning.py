"""The partition of each row: the given one, by the key, or one for all rows until its batch is full."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from ottla.client.producer.options import ProducerOptions
from ottla.client.producer.partitioners import STICKY, any_of, partitioner_of, positive_murmur2
from ottla.common.ids import TopicPartition
from ottla.spark.errors import SparkError
from ottla.spark.sink.rows import KEY, NO_PARTITION, Layout, partitions_of, topics_and_rows

_SEED = np.uint32(0x9747B28C)
_M = np.uint32(0x5BD1E995)
_POSITIVE = np.uint32(0x7FFFFFFF)
_WORD = 4
LONG_KEY = 256
"""From so many bytes on keys are rare, and hashed one by one: numpy takes a step per word of the longest."""


def positive_murmur2_of(keys: Any) -> npt.NDArray[np.int64]:
    """Return the hash of each key of an array of `binary`, without its sign bit; of a null, anything."""
    count = len(keys)
    if not count:
        return np.zeros(0, np.int64)
    edges = np.frombuffer(keys.buffers()[1], np.int32)[keys.offset : keys.offset + count + 1].astype(np.int64)
    first, last = int(edges[0]), int(edges[-1])
    data = bytearray(last - first + _WORD)
    if last > first:
        data[: last - first] = memoryview(keys.buffers()[2])[first:last]
    starts, sizes = edges[:-1] - first, np.diff(edges)
    found = _hashes(data, starts, np.where(sizes < LONG_KEY, sizes, 0))
    for row in np.flatnonzero(sizes >= LONG_KEY):
        found[row] = positive_murmur2(bytes(data[starts[row] : starts[row] + sizes[row]]))
    return found


def _hashes(
    data: bytearray, starts: npt.NDArray[np.int64], sizes: npt.NDArray[np.int64]
) -> npt.NDArray[np.int64]:
    # The four bytes from every position on, as an integer.
    words: npt.NDArray[np.uint32] = np.ndarray(len(data) - _WORD + 1, np.dtype("<u4"), data, strides=(1,))
    hashes = _SEED ^ sizes.astype(np.uint32)
    counts = sizes // _WORD
    for place in range(int(counts.max())):
        rows = np.flatnonzero(counts > place)
        word = words[starts[rows] + _WORD * place] * _M
        hashes[rows] = hashes[rows] * _M ^ (word ^ word >> np.uint32(24)) * _M
    rest = sizes % _WORD
    rows = np.flatnonzero(rest)
    kept = (np.uint32(1) << (8 * rest[rows]).astype(np.uint32)) - np.uint32(1)
    hashes[rows] = (hashes[rows] ^ words[starts[rows] + _WORD * counts[rows]] & kept) * _M
    hashes = (hashes ^ hashes >> np.uint32(13)) * _M
    return ((hashes ^ hashes >> np.uint32(15)) & _POSITIVE).astype(np.int64)


Numbers = npt.NDArray[np.int64]


class PartitionNumbers:
    """The partitions of a topic, numbered from `first` on among those of all topics; behind them comes the
    number of rows that may go anywhere.
    """

    def __init__(self, topic: str, count: int, first: int) -> None:
        self.topic = topic
        self.count = count
        self.first = first
        self._current = any_of(range(count))

    @property
    def numbers(self) -> int:
        """How many numbers it takes."""
        return self.count + 1

    def place(self, number: int) -> TopicPartition:
        """Return the partition of a batch; the next batch that may go anywhere goes to another one."""
        partition = number - self.first
        if partition == self.count:
            partition = self._current
            self._current = (partition + 1) % self.count
        return TopicPartition(self.topic, partition)


class RowPartitioner:
    """Chooses the partition of each row, as a number."""

    def __init__(self, options: ProducerOptions, partition_count: Callable[[str], int]) -> None:
        self._count_of = partition_count
        self._topics: dict[str, PartitionNumbers] = {}
        self._numbers: list[PartitionNumbers] = []
        partitioner = options.partitioner
        self._is_sticky = partitioner == STICKY
        self._choose = partitioner_of(partitioner) if isinstance(partitioner, str) else partitioner

    def numbers_of(self, batch: Any, rows: Any, layout: Layout) -> Numbers:
        """Return the number of each row's partition; `rows` are the rows of `batch` as records."""
        keys = rows.column(KEY) if KEY in rows.schema.names else None
        wanted = partitions_of(batch, layout)
        hashes = None
        if self._is_sticky and keys is not None and (wanted is None or (wanted == NO_PARTITION).any()):
            hashes = positive_murmur2_of(keys)
        numbers = np.empty(batch.num_rows, np.int64)
        for topic, some in topics_and_rows(batch, layout):
            places = self._places_of(topic)
            which = np.arange(batch.num_rows) if some is None else some
            chosen = self._chosen(places, keys, hashes, which)
            if wanted is not None:
                chosen = _with_given(places, chosen, wanted[which])
            numbers[which] = places.first + chosen
        return numbers

    def place(self, number: int) -> TopicPartition:
        """Return the partition that a batch of rows with this number goes to."""
        return self._numbers[number].place(number)

    def topic(self, number: int) -> str:
        """Return the topic of a number."""
        return self._numbers[number].topic

    def _places_of(self, topic: str) -> PartitionNumbers:
        places = self._topics.get(topic)
        if places is None:
            places = self._topics[topic] = PartitionNumbers(topic, self._count_of(topic), len(self._numbers))
            self._numbers += [places] * places.numbers
        return places

    def _chosen(self, places: PartitionNumbers, keys: Any, hashes: Numbers | None, which: Numbers) -> Numbers:
        if not self._is_sticky:
            every = range(places.count)
            given = [None] * len(which) if keys is None else keys.take(which).to_pylist()
            return np.array([self._choose(key, every, every) for key in given], np.int64)
        if hashes is None or keys is None:
            return np.full(len(which), places.count, np.int64)
        by_key = hashes[which] % places.count
        if not keys.null_count:
            return by_key
        return np.where(np.asarray(keys.is_null())[which], places.count, by_key)


def _with_given(places: PartitionNumbers, chosen: Numbers, wanted: Numbers) -> Numbers:
    """Return the given partition where there is one; raise if it does not exist."""
    is_given = wanted != NO_PARTITION
    wrong = wanted[is_given & ((wanted < 0) | (wanted >= places.count))]
    if len(wrong):
        raise SparkError(
            f"{places.topic} has no partition {wrong[0]}: it has {places.count}, numbered from 0"
        )
    return np.where(is_given, wanted, chosen)
