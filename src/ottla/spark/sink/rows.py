"""The columns of a write, as Arrow has them, in the form that records are encoded from.

The columns of a write:

    value      string or binary   required
    key        string or binary   null: any partition
    topic      string             unless the option `topic` names one for all records
    partition  int                null: by the key, or any
    headers    array<struct<key: string, value: binary>>
    timestamp  timestamp          with the option `includeTimestamp`
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from ottla.client.arrow_to_batches import header_sections
from ottla.protocol.errors import InvalidRecord
from ottla.protocol.records.record_encoder import MAX_OVERHEAD_BYTES
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

# The rows of a write in the form that records are encoded from: none of these is null, but key and value.
TIME, SIZE, KEY, VALUE, HEADERS = "time", "size", "key", "value", "headers"


def record_rows(batch: Any, layout: Layout, now_ms: int, serialize: SerializeOptions | None) -> Any:
    """Return rows as an Arrow record batch: time in ms, size in bytes, key, value, encoded headers."""
    columns: dict[str, Any] = {TIME: _times(batch, layout, now_ms)}
    if serialize is None:
        columns[VALUE] = _binary(batch.column(layout.places["value"]))
    else:
        made = serialized(serialize, batch.column(layout.places["value"]), topics_of(batch, layout))
        columns[VALUE] = pa.array(made, pa.binary())
    if "key" in layout.places:
        columns[KEY] = _binary(batch.column(layout.places["key"]))
    if "headers" in layout.places:
        try:
            columns[HEADERS] = header_sections(batch.column(layout.places["headers"]))
        except InvalidRecord as error:
            raise SparkError(f"{error}: its column is null") from None
    sizes = np.full(batch.num_rows, MAX_OVERHEAD_BYTES, np.int64)
    for name in (KEY, VALUE, HEADERS):
        if name in columns:
            sizes += np.asarray(pc.fill_null(pc.binary_length(columns[name]), 0))
    columns[SIZE] = pa.array(sizes)
    return pa.RecordBatch.from_pydict(columns)


def topics_of(batch: Any, layout: Layout) -> list[str]:
    """Return the topic of each row."""
    if layout.topic is not None:
        return [layout.topic] * batch.num_rows
    found: list[str] = batch.column(layout.places["topic"]).to_pylist()
    return found


def topics_and_rows(batch: Any, layout: Layout) -> list[tuple[str, npt.NDArray[np.int64] | None]]:
    """Return each topic, and the rows that go to it; None for all."""
    if layout.topic is not None:
        return [(layout.topic, None)]
    column = batch.column(layout.places["topic"])
    if column.null_count:
        raise SparkError("a row has no topic: its column `topic` is null, and there is no option topic")
    encoded = column.dictionary_encode()
    names = encoded.dictionary.to_pylist()
    if len(names) == 1:
        return [(names[0], None)]
    which = np.asarray(encoded.indices)
    return [(name, np.flatnonzero(which == number)) for number, name in enumerate(names)]


def partitions_of(batch: Any, layout: Layout) -> npt.NDArray[np.int64] | None:
    """Return the partition that each row asks for, NO_PARTITION for none; None if no row does."""
    place = layout.places.get("partition")
    if place is None:
        return None
    column = batch.column(place)
    if column.null_count == len(column):
        return None
    return np.asarray(pc.fill_null(column.cast(pa.int64()), NO_PARTITION))


NO_PARTITION = -(2**40)
"""For null: another one than any number that a column of type int can have."""


def _times(batch: Any, layout: Layout, now_ms: int) -> Any:
    place = layout.places.get("timestamp")
    if place is None:
        return pa.array(np.full(batch.num_rows, now_ms, np.int64))
    column = batch.column(place).cast(pa.timestamp("us")).cast(pa.int64())
    given = np.asarray(pc.fill_null(column, now_ms * 1000))
    return pa.array(given // 1000)


def _binary(column: Any) -> Any:
    return column.cast(pa.binary())
