"""Many records that are sent at once: their values, their keys if they have any, and the headers of all."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate
from operator import add
from typing import NamedTuple

from ottla.client.producer.batch import size_of
from ottla.client.producer.partitioners import by_partition
from ottla.protocol.records.records import Headers


class Bulk(NamedTuple):
    """Records without an object for each."""

    values: Sequence[bytes]
    keys: Sequence[bytes] | None = None
    headers: Headers = ()

    @property
    def largest_bytes(self) -> int:
        """Return what the largest record takes in a batch, at most: rounded up."""
        largest_key = max(map(len, self.keys)) if self.keys else 0
        return max(map(len, self.values)) + largest_key + size_of(None, None, self.headers)

    def cut(self, start: int, stop: int | None = None) -> Bulk:
        """Return some of the records."""
        keys = self.keys
        return Bulk(self.values[start:stop], keys if keys is None else keys[start:stop], self.headers)

    def by_partition(self, partition_count: int) -> list[Bulk]:
        """Return the records of each partition, by the hash of their keys."""
        assert self.keys is not None
        found = by_partition(list(self.keys), list(self.values), partition_count)
        return [Bulk(values, keys, self.headers) for keys, values in found]

    def in_batches(self, batch_bytes: int) -> Iterator[tuple[Bulk, int]]:
        """Yield groups that fit into a batch, or a record that is larger, and their sizes there."""
        sizes = map(len, self.values)
        ends = list(accumulate(sizes if self.keys is None else map(add, sizes, map(len, self.keys))))
        overhead_bytes = size_of(None, None, self.headers)
        start = taken_bytes = 0
        while start < len(ends):
            stop = bisect_right(
                range(start + 1, len(ends) + 1),
                batch_bytes,
                key=lambda end: ends[end - 1] - taken_bytes + (end - start) * overhead_bytes,
            )
            stop = start + max(1, stop)
            yield self.cut(start, stop), ends[stop - 1] - taken_bytes + (stop - start) * overhead_bytes
            start, taken_bytes = stop, ends[stop - 1]
