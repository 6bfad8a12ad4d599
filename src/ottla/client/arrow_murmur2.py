"""The murmur2 hashes of a column of keys, for all keys at once: by them every Kafka client partitions."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from ottla.client.producer.partitioners import positive_murmur2

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
