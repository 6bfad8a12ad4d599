"""Fetched batches as one Arrow table: no Python object per record."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from ottla.client.arrow_batches import (
    RECORD_SCHEMA,
    RECORD_SCHEMA_WITH_HEADERS,
    ArrayTooLarge,
    batches_to_arrow,
)
from ottla.client.consumer.fetching.partition_state import Chunk, PartitionState
from ottla.client.consumer.fetching.record import Batch
from ottla.common.ids import TopicPartition
from ottla.protocol.errors import CorruptMessage, InvalidRecord

PLACE_FIELDS = (
    pa.field("topic", pa.string(), nullable=False),
    pa.field("partition", pa.int32(), nullable=False),
)
ARROW_SCHEMA = pa.schema((*PLACE_FIELDS, *RECORD_SCHEMA))
ARROW_SCHEMA_WITH_HEADERS = pa.schema((*PLACE_FIELDS, *RECORD_SCHEMA_WITH_HEADERS))
BYTES_AT_ONCE = 64 * 1024 * 1024
"""How much is decoded in one go, unless one fetch of a partition is larger by itself."""

Taken = tuple[PartitionState, list[Batch], Chunk]


def to_table(taken: Sequence[Taken], with_headers: bool) -> Any:
    """Return what was taken as one table, and move the positions behind it.

    A partition whose batches do not add up stays where it is, with the error to be raised next.
    """
    schema = ARROW_SCHEMA_WITH_HEADERS if with_headers else ARROW_SCHEMA
    parts = []
    for group in _in_groups(taken):
        try:
            parts += _tables(group, with_headers)
        except (InvalidRecord, CorruptMessage):
            parts += [part for one in group for part in _alone(one, with_headers)]
            continue
        for state, _, chunk in group:
            state.position, state.epoch = chunk.next_offset, chunk.next_epoch
    return pa.Table.from_batches(parts, schema=schema)


def _in_groups(taken: Sequence[Taken]) -> list[list[Taken]]:
    groups: list[list[Taken]] = []
    room = 0
    for one in taken:
        size = sum(len(batch) for _, batch in one[1])
        if not groups or size > room:
            groups.append([])
            room = BYTES_AT_ONCE
        groups[-1].append(one)
        room -= size
    return groups


def _alone(one: Taken, with_headers: bool) -> list[Any]:
    state, _, chunk = one
    if state.has_failed:
        return []  # this comes after what is bad
    try:
        parts = _tables([one], with_headers)
    except (InvalidRecord, CorruptMessage) as error:
        state.drop_fetched()
        state.fail(CorruptMessage(f"{state.partition} at offset {state.position}: {error}"))
        return []
    state.position, state.epoch = chunk.next_offset, chunk.next_epoch
    return parts


def _tables(group: Sequence[Taken], with_headers: bool) -> list[Any]:
    """Return some partitions as record batches: one, unless they expand to more than that can hold."""
    try:
        return [_table(group, with_headers)]
    except ArrayTooLarge:
        return [part for half in _halves(group) for part in _tables(half, with_headers)]


def _halves(group: Sequence[Taken]) -> tuple[Sequence[Taken], Sequence[Taken]]:
    middle = len(group) // 2
    if middle:
        return group[:middle], group[middle:]
    state, batches, chunk = group[0]
    middle = len(batches) // 2
    return [(state, batches[:middle], chunk)], [(state, batches[middle:], chunk)]


def _table(group: Sequence[Taken], with_headers: bool) -> Any:
    """Return some partitions as one record batch: what it costs to set numpy to work, it costs once."""
    batches = [batch for _, some, _ in group for batch in some]
    records = batches_to_arrow(batches, with_headers=with_headers)
    counts = [sum(header.record_count for header, _ in some) for _, some, _ in group]
    places = [state.partition for state, _, _ in group]
    table = pa.RecordBatch.from_arrays(
        [*_place_columns(places, counts), *records.columns],
        schema=ARROW_SCHEMA_WITH_HEADERS if with_headers else ARROW_SCHEMA,
    )
    too_early = [bool(some) and some[0][0].base_offset < state.position for state, some, _ in group]
    if not any(too_early):
        return table
    starts = np.repeat([state.position for state, _, _ in group], counts)
    return table.filter(pa.array(np.asarray(records.column("offset")) >= starts))


def _place_columns(places: Sequence[TopicPartition], counts: Sequence[int]) -> tuple[Any, Any]:
    which = pa.array(np.repeat(np.arange(len(places), dtype=np.int32), counts))
    topics = pa.array([place.topic for place in places], pa.string()).take(which)
    return topics, pa.array(np.repeat(np.array([place.partition for place in places], np.int32), counts))
