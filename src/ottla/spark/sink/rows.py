"""Encode Arrow rows as record batches, by topic and partition.

The columns of a write:

    value      string or binary   required
    key        string or binary   null: any partition
    topic      string             unless the option `topic` names one for all records
    partition  int                null: by the key, or any
    headers    array<struct<key: string, value: binary>>
    timestamp  timestamp          with the option `includeTimestamp`
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import Any

import pyarrow as pa

from ottla.client.producer.batch import size_of
from ottla.client.producer.options import ProducerOptions
from ottla.client.producer.partitioners import STICKY, any_of, partitioner_of, positive_murmur2
from ottla.common.clock import Clock
from ottla.common.ids import TopicPartition
from ottla.protocol.records.record_encoder import NewRecord, encode_new_batch
from ottla.spark.errors import SparkError, WrongOption
from ottla.spark.sink.serializing import SerializeOptions, serialized

COLUMNS = {
    "value": ("string", "binary"),
    "key": ("string", "binary"),
    "topic": ("string",),
    "partition": ("int",),
    "headers": ("array<struct<key:string,value:binary>>",),
    "timestamp": ("timestamp", "timestamp_ntz"),
}


@dataclass(frozen=True)
class Layout:
    """The columns of a write, by their position."""

    places: Mapping[str, int]
    topic: str | None


def layout_of(
    schema: Any,
    topic: str | None,
    *,
    with_headers: bool,
    with_timestamp: bool,
    is_serialized: bool = False,
) -> Layout:
    """Return the columns of a write; raise if one has the wrong type, or is missing."""
    places: dict[str, int] = {}
    for place, field in enumerate(schema.fields):
        name = field.name.lower()
        if name not in COLUMNS or (name == "headers" and not with_headers):
            continue
        if (name == "timestamp" and not with_timestamp) or (name == "topic" and topic is not None):
            continue
        kind = field.dataType.simpleString()
        if is_serialized and name == "value":
            if not kind.startswith("struct<"):
                raise WrongOption("serialize", f"needs a struct in the column value, not {kind}: {STRUCT}")
        elif kind not in COLUMNS[name]:
            wanted = " or ".join(COLUMNS[name])
            raise SparkError(f"the column {field.name} must be {wanted}, not {kind}; use CAST, or to_json")
        places[name] = place
    if "value" not in places:
        raise SparkError(
            "there is no column `value`. To write whole rows: df.select(to_json(struct('*')).alias('value'))"
        )
    if topic is None and "topic" not in places:
        raise WrongOption("topic", "must name the topic, or there must be a column `topic`")
    return Layout(places, topic)


STRUCT = "df.select(struct('*').alias('value'))"
Encoded = tuple[TopicPartition, bytearray, int]


class RowEncoder:
    """Encodes rows into batches."""

    def __init__(
        self,
        layout: Layout,
        options: ProducerOptions,
        partition_count: Callable[[str], int],
        clock: Clock,
        *,
        transactional: bool,
        serialize: SerializeOptions | None = None,
    ) -> None:
        self._layout = layout
        self._options = options
        self._clock = clock
        self._transactional = transactional
        self._serialize = serialize
        self._open: dict[TopicPartition, list[NewRecord]] = {}
        self._sizes: dict[TopicPartition, int] = {}
        self._spread = _Partitioner(options, partition_count)
        self.rows = 0

    def add(self, batch: Any) -> Iterator[Encoded]:
        """Add the rows of an Arrow record batch; yield full batches."""
        self.rows += batch.num_rows
        limit, most = self._options.batch_size, self._options.max_request_size
        opened, sizes, spread = self._open, self._sizes, self._spread
        for topic, partition, record in self._records(batch):
            size = size_of(*record[1:])
            if size > most:
                raise SparkError(
                    f"a record for {topic} has {size} bytes; the limit is {most} "
                    "(kafka.max.request.size, and max.message.bytes of the topic)"
                )
            at = spread.place(topic, partition, record[1])
            held = sizes.get(at, 0)
            if held and held + size > limit:
                yield self._close(at)
                spread.was_full(at)
                if partition is None and record[1] is None:
                    at = spread.place(topic, None, None)
                held = sizes.get(at, 0)
            if held:
                opened[at].append(record)
            else:
                opened[at] = [record]
            sizes[at] = held + size

    def rest(self) -> Iterator[Encoded]:
        """Yield the remaining batches."""
        for at in list(self._open):
            yield self._close(at)

    def _close(self, at: TopicPartition) -> Encoded:
        records = self._open.pop(at)
        del self._sizes[at]
        encoded = encode_new_batch(records, codec=self._options.codec, transactional=self._transactional)
        return at, encoded, len(records)

    def _records(self, batch: Any) -> Iterator[tuple[str, int | None, NewRecord]]:
        values: Any = None
        if self._serialize is None:
            values = _bytes_column(batch, self._layout, "value")
        keys = _bytes_column(batch, self._layout, "key")
        now = self._clock.wall_ms()
        times = self._times(batch, now)
        headers = self._headers(batch)
        topics: Any = repeat(self._layout.topic)
        if "topic" in self._layout.places:
            topics = batch.column(self._layout.places["topic"]).to_pylist()
            if None in topics:
                raise SparkError(
                    "a row has no topic: its column `topic` is null, and there is no option topic"
                )
        partitions: Any = repeat(None)
        if "partition" in self._layout.places:
            partitions = batch.column(self._layout.places["partition"]).to_pylist()
        if self._serialize is not None:
            values = serialized(self._serialize, batch.column(self._layout.places["value"]), topics)
        return zip(topics, partitions, zip(times, keys, values, headers, strict=False), strict=False)

    def _times(self, batch: Any, now: int) -> Any:
        place = self._layout.places.get("timestamp")
        if place is None:
            return repeat(now)
        column = batch.column(place).cast(pa.timestamp("us")).cast(pa.int64())
        return [now if each is None else each // 1000 for each in column.to_pylist()]

    def _headers(self, batch: Any) -> Any:
        place = self._layout.places.get("headers")
        if place is None:
            return repeat(())
        return [
            tuple((each["key"], each["value"]) for each in row) if row else ()
            for row in batch.column(place).to_pylist()
        ]


def _bytes_column(batch: Any, layout: Layout, name: str) -> Sequence[bytes | None] | repeat[None]:
    place = layout.places.get(name)
    if place is None:
        return repeat(None)
    column = batch.column(place)
    if column.null_count == len(column):
        return repeat(None, len(column))
    kind = pa.large_binary() if pa.types.is_large_string(column.type) else pa.binary()
    found: Sequence[bytes | None] = column.cast(kind).to_pylist()
    return found


class _Partitioner:
    """Chooses partitions: the given one, by the key, or one for all records until its batch is full."""

    def __init__(self, options: ProducerOptions, partition_count: Callable[[str], int]) -> None:
        self._count_of = partition_count
        self._counts: dict[str, int] = {}
        self._places: dict[str, list[TopicPartition]] = {}
        self._current: dict[str, TopicPartition] = {}
        partitioner = options.partitioner
        self._is_sticky = partitioner == STICKY
        self._choose = partitioner_of(partitioner) if isinstance(partitioner, str) else partitioner

    def place(self, topic: str, partition: int | None, key: bytes | None) -> TopicPartition:
        """Return the partition of a record."""
        places = self._places.get(topic)
        if places is None:
            places = self._places[topic] = [
                TopicPartition(topic, index) for index in range(self._count_of(topic))
            ]
        if partition is not None:
            if not 0 <= partition < len(places):
                raise SparkError(
                    f"{topic} has no partition {partition}: it has {len(places)}, numbered from 0"
                )
            return places[partition]
        if not self._is_sticky:
            every = range(len(places))
            return places[self._choose(key, every, every)]
        if key is not None:
            return places[positive_murmur2(key) % len(places)]
        current = self._current.get(topic)
        if current is None:
            current = self._current[topic] = places[any_of(range(len(places)))]
        return current

    def was_full(self, at: TopicPartition) -> None:
        """Switch to another partition."""
        if self._current.get(at.topic) == at:
            places = self._places[at.topic]
            self._current[at.topic] = places[(at.partition + 1) % len(places)]
