"""Fetched batches as whatever the caller makes of each record: no ConsumerRecord in between.

A row is the tuple of a ConsumerRecord's fields. `make` gets it straight from the decoder, so that a program
which only wants a part of each record, such as `ottla consume`, pays for that part.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from operator import itemgetter
from typing import Any, NamedTuple

from ottla.client.consumer.fetching.partition_state import Chunk, PartitionState
from ottla.client.consumer.fetching.record import MAX_DECOMPRESSED_BYTES, ROWS, Batch
from ottla.common.ids import TopicPartition
from ottla.protocol.errors import CorruptMessage, InvalidRecord
from ottla.protocol.records.records import record_data

Row = tuple[Any, ...]
Make = Callable[[Row], Any]
Taken = tuple[PartitionState, list[Batch], Chunk]

_offset = itemgetter(2)


class Rows(NamedTuple):
    """What was made of the records of a partition, and its position behind them."""

    partition: TopicPartition
    made: list[Any]
    next_offset: int


def to_rows(taken: Sequence[Taken], make: Make, until: Mapping[TopicPartition, int]) -> list[Rows]:
    """Return what `make` makes of each record, up to the offsets of `until`; move the positions behind them.

    A partition whose batches do not add up stays behind the last good one, with the error to be raised next.
    """
    found: list[Rows] = []
    for state, batches, chunk in taken:
        if state.has_failed:
            continue  # this comes after what is bad
        made: list[Any] = []
        stop = until.get(state.partition)
        next_offset, epoch = state.position, state.epoch
        try:
            for batch in batches:
                made += _rows(state, batch, make, stop)
                next_offset, epoch = batch[0].next_offset, batch[0].leader_epoch
            next_offset, epoch = chunk.next_offset, chunk.next_epoch
        except (InvalidRecord, CorruptMessage) as error:
            state.drop_fetched()
            state.fail(CorruptMessage(f"{state.partition} at offset {next_offset}: {error}"))
        state.position, state.epoch = next_offset, epoch
        found.append(Rows(state.partition, made, next_offset if stop is None else min(next_offset, stop)))
    return found


def _rows(state: PartitionState, batch: Batch, make: Make, stop: int | None) -> list[Any]:
    header, data = batch
    if not header.record_count or (stop is not None and header.base_offset >= stop):
        return []
    is_cut = stop is not None and header.next_offset > stop
    made: list[Any] = ROWS.decode_rows(
        record_data(header, data, MAX_DECOMPRESSED_BYTES),
        header.record_count,
        state.partition,
        (header.base_offset, header.base_timestamp, header.last_offset_delta),
        header.max_timestamp if header.is_log_append_time else None,
        int(header.is_log_append_time),
        header.leader_epoch,
        state.position,
        tuple if is_cut else make,
    )
    if is_cut and stop is not None:
        return [make(row) for row in made if _offset(row) < stop]
    return made
