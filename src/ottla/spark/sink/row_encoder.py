"""Encode Arrow rows as record batches, by topic and partition.

Rows are collected until there are a few megabytes of them, sorted by partition, and cut into batches. The
last batch of each partition is not full: its rows stay for the next time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ottla.client.arrow_to_batches import records_to_batches
from ottla.client.producer.options import ProducerOptions
from ottla.common.clock import Clock
from ottla.common.ids import TopicPartition
from ottla.spark.errors import SparkError
from ottla.spark.sink.partitioning import RowPartitioner
from ottla.spark.sink.rows import HEADERS, KEY, SIZE, TIME, VALUE, Layout, record_rows
from ottla.spark.sink.serializing import SerializeOptions

Encoded = tuple[TopicPartition, bytearray, int]
Numbers = npt.NDArray[np.int64]

PLACE = "place"
BYTES_AT_ONCE = 4 * 1024 * 1024
"""How many bytes of rows are encoded together: sorting and cutting cost the same for few rows."""
MAX_OPEN_BYTES = 32 * 1024 * 1024
"""How many bytes may stay behind in batches that are not full."""
MAX_ARRAY_BYTES = 64 * 1024 * 1024
"""An Arrow record batch with more is encoded in parts: the data of one array is limited to 2 GB."""


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
        self._partitioner = RowPartitioner(options, partition_count)
        self._waiting: list[Any] = []
        self._new_bytes = 0
        self.rows = 0

    def add(self, batch: Any) -> Iterator[Encoded]:
        """Add the rows of an Arrow record batch; yield full batches."""
        if batch.nbytes > MAX_ARRAY_BYTES and batch.num_rows > 1:
            half = batch.num_rows // 2
            yield from self.add(batch.slice(0, half))
            yield from self.add(batch.slice(half))
            return
        if not batch.num_rows:
            return
        self.rows += batch.num_rows
        rows = record_rows(batch, self._layout, self._clock.wall_ms(), self._serialize)
        places = self._partitioner.numbers_of(batch, rows, self._layout)
        sizes = np.asarray(rows.column(SIZE))
        self._check_sizes(sizes, places)
        self._waiting.append(rows.append_column(PLACE, pa.array(places)))
        self._new_bytes += int(sizes.sum())
        if self._new_bytes >= BYTES_AT_ONCE:
            yield from self._encode(is_last=False)

    def rest(self) -> Iterator[Encoded]:
        """Yield the remaining batches."""
        yield from self._encode(is_last=True)

    def _check_sizes(self, sizes: Numbers, places: Numbers) -> None:
        largest, most = int(sizes.argmax()), self._options.max_request_size
        if sizes[largest] > most:
            raise SparkError(
                f"a record for {self._partitioner.topic(int(places[largest]))} has {sizes[largest]} bytes; "
                f"the limit is {most} (kafka.max.request.size, and max.message.bytes of the topic)"
            )

    def _encode(self, *, is_last: bool) -> Iterator[Encoded]:
        if not self._waiting:
            return
        (rows,) = pa.Table.from_batches(self._waiting).combine_chunks().to_batches()
        self._waiting, self._new_bytes = [], 0
        places, sizes = np.asarray(rows.column(PLACE)), np.asarray(rows.column(SIZE))
        order = None
        if (places[1:] != places[:-1]).any():
            order = np.argsort(places, kind="stable")
            places, sizes = places[order], sizes[order]
        starts, is_full = cut(places, sizes, self._options.batch_size)
        if not is_last and not is_full.all():
            order = np.arange(len(places)) if order is None else order
            order, starts = self._keep_open(rows, sizes, order, starts, is_full)
        yield from self._batches(rows if order is None else rows.take(pa.array(order)), starts)

    def _keep_open(
        self, rows: Any, sizes: Numbers, order: Numbers, starts: Numbers, is_full: npt.NDArray[np.bool_]
    ) -> tuple[Numbers, Numbers]:
        """Keep the rows of batches that are not full, unless they are too many; return the others."""
        counts = np.diff(np.append(starts, len(order)))
        is_ready = np.repeat(is_full, counts)
        if int(sizes[~is_ready].sum()) > MAX_OPEN_BYTES:
            return order, starts
        self._waiting = [rows.take(pa.array(order[~is_ready]))]
        counts = counts[is_full]
        return order[is_ready], np.append(0, np.cumsum(counts))[: len(counts)]

    def _batches(self, rows: Any, starts: Numbers) -> Iterator[Encoded]:
        if not len(starts):
            return
        names = rows.schema.names
        made = records_to_batches(
            np.asarray(rows.column(TIME)),
            rows.column(KEY) if KEY in names else None,
            rows.column(VALUE),
            rows.column(HEADERS) if HEADERS in names else None,
            starts,
            codec=self._options.codec,
            transactional=self._transactional,
        )
        places = np.asarray(rows.column(PLACE))[starts].tolist()
        for place, (encoded, count) in zip(places, made, strict=True):
            yield self._partitioner.place(place), encoded, count


def cut(places: Numbers, sizes: Numbers, limit: int) -> tuple[Numbers, npt.NDArray[np.bool_]]:
    """Return where batches start in rows that are sorted by place, and which of them are full.

    A batch has the rows of one place, and at most `limit` bytes, or one row. The last of each place is not
    full.
    """
    ends = np.cumsum(sizes)
    edges = [*np.flatnonzero(places[1:] != places[:-1]) + 1, len(places)]
    starts, is_full, start = [], [], 0
    for edge in edges:
        while start < edge:
            before = int(ends[start - 1]) if start else 0
            stop = min(max(int(np.searchsorted(ends, before + limit, "right")), start + 1), int(edge))
            starts.append(start)
            is_full.append(stop < edge)
            start = stop
    return np.array(starts, np.int64), np.array(is_full, bool)
