"""From record batches as they came over the wire to Arrow, without a Python object per record.

The keys and values (record_columns.py says where they are) are never cut out one by one: the decompressed
batch *is* the data of an Arrow array with the offsets

    key 0 starts, key 0 ends, key 1 starts, key 1 ends, ...

whose every other element is a key; `take` copies those, in C++, into an array of their own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from ottla.client.record_columns import MAX_DECOMPRESSED_BYTES, Columns, Field, columns_of
from ottla.protocol.records.batch import BatchHeader, Buffer

HEADERS_TYPE = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
RECORD_FIELDS = (
    pa.field("offset", pa.int64(), nullable=False),
    pa.field("timestamp", pa.timestamp("ms", tz="UTC"), nullable=False),
    pa.field("timestamp_type", pa.int32(), nullable=False),
    pa.field("key", pa.binary()),
    pa.field("value", pa.binary()),
)
RECORD_SCHEMA = pa.schema(RECORD_FIELDS)
RECORD_SCHEMA_WITH_HEADERS = pa.schema((*RECORD_FIELDS, pa.field("headers", HEADERS_TYPE)))

MAX_ARRAY_BYTES = 2**31 - 1
"""Arrow's `binary` counts its bytes with 32 bits."""


class ArrayTooLarge(Exception):
    """The batches expand to more than one array can hold: convert some of them at a time."""


NO_HEADERS = pa.array([[]], HEADERS_TYPE)


def batches_to_arrow(
    batches: Sequence[tuple[BatchHeader, Buffer]],
    *,
    with_headers: bool = False,
    max_bytes: int = MAX_DECOMPRESSED_BYTES,
) -> Any:
    """Return whole data batches as one `pyarrow.RecordBatch` of RECORD_SCHEMA.

    Many small batches cost hardly more than one large one. Raise InvalidRecord or CorruptMessage for a
    batch that does not add up, or that would expand to more than `max_bytes`; ArrayTooLarge if all of them
    together do not fit.
    """
    schema = RECORD_SCHEMA_WITH_HEADERS if with_headers else RECORD_SCHEMA
    filled = [(header, batch) for header, batch in batches if header.record_count]
    if not filled:
        return pa.RecordBatch.from_pylist([], schema=schema)
    columns = columns_of(filled, max_bytes)
    if len(columns.data) > MAX_ARRAY_BYTES and len(filled) > 1:
        raise ArrayTooLarge(f"{len(columns.data)} bytes of records: an Arrow array holds 2 GiB")
    buffer = pa.py_buffer(columns.data)
    arrays = [
        pa.array(columns.offsets),
        pa.array(columns.timestamps).cast(pa.timestamp("ms", tz="UTC")),
        pa.array(columns.append_times.astype(np.int32)),
        _binary(columns.keys, buffer),
        _binary(columns.values, buffer),
    ]
    if with_headers:
        arrays.append(_header_column(columns))
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _binary(field: Field, buffer: Any) -> Any:
    """Return the byte strings of a field as one Arrow array."""
    count = len(field.starts)
    if field.nulls.all():
        return pa.nulls(count, pa.binary())
    edges = np.empty(2 * count, np.int32)
    edges[0::2] = field.starts
    edges[1::2] = field.stops
    both = pa.Array.from_buffers(pa.binary(), 2 * count - 1, [None, pa.py_buffer(edges), buffer])
    wanted = np.arange(0, 2 * count, 2, dtype=np.int32)
    return both.take(pa.array(wanted, mask=field.nulls if field.nulls.any() else None))


def _header_column(columns: Columns) -> Any:
    counts = columns.header_counts
    if not counts.any():
        return NO_HEADERS.take(pa.array(np.zeros(len(counts), np.int32)))
    rows = [
        list(columns.headers_of(row, "replace")) if count else [] for row, count in enumerate(counts.tolist())
    ]
    return pa.array(rows, HEADERS_TYPE)
