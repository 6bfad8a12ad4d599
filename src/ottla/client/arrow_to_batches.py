"""From columns of Arrow to record batches as they go over the wire, without a Python object per record.

A record is its fields one behind the other: lengths, deltas, key, value, headers. Each field of all records
is an Arrow array of byte strings, the integers taken from a table of varints; one join of these arrays, in
C++, writes the records of all batches.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from ottla.protocol.errors import InvalidRecord
from ottla.protocol.records.compression import compress
from ottla.protocol.records.record_encoder import frame_batch

Integers = npt.NDArray[np.int64]

_NOTHING = pa.scalar(b"", pa.binary())
_NULL = pa.scalar(b"\x01", pa.binary())
_NO_HEADERS = _NO_ATTRIBUTES = _ZERO = pa.scalar(b"\x00", pa.binary())


def records_to_batches(
    times: Integers,
    keys: Any | None,
    values: Any,
    headers: Any | None,
    starts: Integers,
    *,
    codec: int = 0,
    transactional: bool = False,
) -> list[tuple[bytearray, int]]:
    """Return the batches of records, and the number of records in each.

    `starts` has the first record of each batch. Keys and values are arrays of `binary`, or None if all are
    null; headers as `header_sections` returns them, or None if there are none.
    """
    total = len(times)
    stops = np.append(starts[1:], total)
    counts = stops - starts
    firsts = np.repeat(starts, counts)
    joined = _joined(times - times[firsts], np.arange(total) - firsts, keys, values, headers)
    edges = np.append(_offsets(joined)[starts], _offsets(joined)[-1]).tolist()
    data = memoryview(joined.buffers()[2] or b"")
    latest = np.maximum.reduceat(times, starts).tolist()
    earliest = times[starts].tolist()
    batches = []
    for number, count in enumerate(counts.tolist()):
        records = data[edges[number] : edges[number + 1]]
        made = frame_batch(
            [compress(codec, bytes(records)) if codec else records],
            count,
            (earliest[number], latest[number]),
            codec=codec,
            transactional=transactional,
        )
        batches.append((made, count))
    return batches


def _joined(
    time_deltas: Integers, offset_deltas: Integers, keys: Any | None, values: Any, headers: Any | None
) -> Any:
    """Return all records, each with its length, as an array of `binary`."""
    fields = [_NO_ATTRIBUTES, varints(time_deltas) if time_deltas.any() else _ZERO, varints(offset_deltas)]
    fields += (_NULL,) if keys is None else (varints(_lengths(keys, null=-1)), keys)
    fields += (varints(_lengths(values, null=-1)), values)
    fields.append(_NO_HEADERS if headers is None else headers)
    lengths: Any = 0
    for field in fields:
        lengths = lengths + (len(field.as_py()) if isinstance(field, pa.Scalar) else _lengths(field))
    return join(varints(lengths), *fields)


def join(*fields: Any) -> Any:
    """Return the fields of each record as one byte string; a null is nothing."""
    return pc.binary_join_element_wise(*fields, _NOTHING, null_handling="replace")


def header_sections(lists: Any) -> Any:
    """Return the encoded headers of each record, of an array of lists of (key: string, value: binary).

    A null is an empty list. InvalidRecord if a header has no key.
    """
    counts = _integers(pc.fill_null(pc.list_value_length(lists), 0))
    headers = lists.flatten()
    names = headers.field("key").cast(pa.binary())
    if headers.null_count or names.null_count:
        raise InvalidRecord("a header has no key")
    contents = headers.field("value").cast(pa.binary())
    encoded = join(varints(_lengths(names)), names, varints(_lengths(contents, null=-1)), contents)
    edges = _offsets(encoded)[np.append(0, np.cumsum(counts))]
    blocks = pa.Array.from_buffers(
        pa.binary(), len(counts), [None, pa.py_buffer(edges.astype(np.int32)), encoded.buffers()[2]]
    )
    return join(varints(counts), blocks)


def _lengths(strings: Any, null: int = 0) -> Integers:
    """Return the length of each byte string."""
    found = pc.binary_length(strings)
    return _integers(pc.fill_null(found, null) if strings.null_count else found)


def _integers(array: Any) -> Integers:
    return np.asarray(array).astype(np.int64)


def _offsets(strings: Any) -> npt.NDArray[np.int32]:
    """Return where each byte string starts in the data, and where the last one ends."""
    found = np.frombuffer(strings.buffers()[1], np.int32) if len(strings) else np.zeros(1, np.int32)
    return found[strings.offset : strings.offset + len(strings) + 1]


# Integers of variable length.


def _encoded(numbers: Integers) -> Any:
    """Return integers as zig-zag varints."""
    zigzag = ((numbers << 1) ^ (numbers >> 63)).view(np.uint64)
    sizes = np.ones(len(numbers), np.int64)
    for bits in range(7, 64, 7):
        is_longer = zigzag >> np.uint64(bits) != 0
        if not is_longer.any():
            break
        sizes += is_longer
    edges = np.append(0, np.cumsum(sizes))
    data = np.empty(edges[-1], np.uint8)
    for place in range(int(sizes.max(initial=0))):
        rows = np.flatnonzero(sizes > place)
        digits = (zigzag[rows] >> np.uint64(7 * place)).astype(np.uint8) & 0x7F
        data[edges[rows] + place] = digits | ((sizes[rows] > place + 1).astype(np.uint8) << 7)
    buffers: Sequence[Any] = [None, pa.py_buffer(edges.astype(np.int32)), pa.py_buffer(data)]
    return pa.Array.from_buffers(pa.binary(), len(numbers), buffers)


_KNOWN = 16_384
_VARINTS = _encoded(np.arange(-1, _KNOWN))


def varints(numbers: Integers) -> Any:
    """Return integers as they stand in a record, in an array of `binary`."""
    if len(numbers) and (numbers.min() < -1 or numbers.max() >= _KNOWN):
        return _encoded(numbers)
    return pc.take(_VARINTS, pa.array(numbers + 1), boundscheck=False)
