"""Convert fetched batches into the columns of the source."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from ottla.client.arrow_batches import batches_to_arrow
from ottla.spark.errors import WrongOption
from ottla.spark.source.range_reader import FetchedBatches
from ottla.spark.source.record_filter import ALL_RECORDS, RecordFilter

# The columns of the source, as in Spark's Kafka source.

COLUMN_TYPES = {
    "key": "binary",
    "value": "binary",
    "topic": "string",
    "partition": "int",
    "offset": "bigint",
    "timestamp": "timestamp",
    "timestampType": "int",
    "headers": "array<struct<key:string,value:binary>>",
}
HEADERS = "headers"


def choose_columns(text: str | None, available: Sequence[str]) -> list[str]:
    """Return the columns that the option `columns` names, by default all."""
    if text is None:
        return list(available)
    lower = {each.lower(): each for each in available}
    chosen = []
    for name in (each.strip() for each in text.split(",")):
        if name.lower() not in lower:
            raise WrongOption("columns", f"unknown column {name!r}; the columns are {', '.join(available)}")
        chosen.append(lower[name.lower()])
    if len(set(chosen)) < len(chosen):
        raise WrongOption("columns", "names a column twice")
    return chosen


ARROW_TYPES = {
    "key": pa.binary(),
    "value": pa.binary(),
    "topic": pa.string(),
    "partition": pa.int32(),
    "offset": pa.int64(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "timestampType": pa.int32(),
    HEADERS: pa.list_(
        pa.field("element", pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())]))
    ),
}
MAX_ROWS = 100_000
"""The maximum number of rows in an Arrow batch for Spark."""


def record_columns(
    pieces: Sequence[FetchedBatches], columns: Sequence[str], record_filter: RecordFilter = ALL_RECORDS
) -> Any:
    """Return the records of fetched pieces that match, as one Arrow record batch with these columns."""
    batches = [batch for piece in pieces for batch in piece.batches]
    records = batches_to_arrow(batches, with_headers=HEADERS in columns)
    counts = [sum(header.record_count for header, _ in piece.batches) for piece in pieces]
    arrays = [_column(name, records, pieces, counts) for name in columns]
    schema = pa.schema([pa.field(name, ARROW_TYPES[name]) for name in columns])
    rows = pa.RecordBatch.from_arrays(arrays, schema=schema) if columns else _only_count(records.num_rows)
    wanted: Any | None = None
    for mask in (_inside(pieces, counts, records), _matching(record_filter, records)):
        if mask is not None:
            wanted = mask if wanted is None else wanted & mask
    return rows if wanted is None else rows.filter(pa.array(wanted))


def _column(name: str, records: Any, pieces: Sequence[FetchedBatches], counts: Sequence[int]) -> Any:
    if name == "topic":
        if len({piece.range.topic for piece in pieces}) == 1:
            return pa.repeat(pieces[0].range.topic, sum(counts))
        which = pa.array(np.repeat(np.arange(len(pieces), dtype=np.int32), counts))
        return pa.array([piece.range.topic for piece in pieces], pa.string()).take(which)
    if name == "partition":
        return pa.array(np.repeat(np.array([piece.range.partition for piece in pieces], np.int32), counts))
    if name == "timestamp":
        return records.column("timestamp").cast(ARROW_TYPES[name])
    if name == "timestampType":
        return records.column("timestamp_type")
    column = records.column(name)
    return column.cast(ARROW_TYPES[name]) if name == HEADERS else column


def _matching(record_filter: RecordFilter, records: Any) -> Any | None:
    """Return which records match; None if all do."""
    if not record_filter.conditions:
        return None
    times_ms = records.column("timestamp").cast(pa.int64())
    return record_filter.mask(np.asarray(records.column("offset")), np.asarray(times_ms))


def _inside(pieces: Sequence[FetchedBatches], counts: Sequence[int], records: Any) -> Any | None:
    """Return which records lie in their range; None if all do."""
    is_whole = all(
        piece.batches[0][0].base_offset >= piece.position
        and piece.batches[-1][0].last_offset < piece.range.end
        for piece in pieces
    )
    if is_whole:
        return None
    offsets = np.asarray(records.column("offset"))
    starts = np.repeat([piece.position for piece in pieces], counts)
    ends = np.repeat([piece.range.end for piece in pieces], counts)
    return (offsets >= starts) & (offsets < ends)


def _only_count(rows: int) -> Any:
    return pa.RecordBatch.from_arrays([pa.nulls(rows)], names=["nothing"])
