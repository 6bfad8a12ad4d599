"""Filters the batches of a response: no control batches, and no aborted transactions.

With isolation level read_committed the broker lists the aborted transactions, each by its producer id and
first offset; the abort marker shows where it ends.

    marker key   int16 version, int16 type: 0 the transaction was aborted, 1 committed
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from struct import Struct, error

from ottla.client.consumer.fetching.record import Batch
from ottla.common.ids import TopicPartition
from ottla.protocol.errors import CorruptMessage, KafkaError
from ottla.protocol.records.batch import Buffer, check_crc
from ottla.protocol.records.records import iter_records

ABORT = 0
_MARKER = Struct(">hh")


def visible_batches(
    partition: TopicPartition,
    batches: Iterable[Batch],
    position: int,
    aborted: Iterable[tuple[int, int]],
    *,
    check_crcs: bool = True,
) -> Iterator[Batch]:
    """Yield the data batches from `position` on, without aborted ones.

    Raise CorruptMessage, with the offset, at a corrupt batch.
    """
    to_come = sorted(((first, producer) for producer, first in aborted), reverse=True)
    hidden: set[int] = set()
    for header, batch in batches:
        if header.next_offset <= position:
            continue
        if check_crcs:
            try:
                check_crc(batch, header)
            except CorruptMessage as damage:
                raise CorruptMessage(f"{partition} at offset {header.base_offset}: {damage}") from None
        while to_come and to_come[-1][0] <= header.last_offset:
            hidden.add(to_come.pop()[1])
        if header.is_control:
            if header.producer_id in hidden and _is_abort(batch):
                hidden.discard(header.producer_id)
        elif not (header.is_transactional and header.producer_id in hidden):
            yield header, batch


def _is_abort(batch: Buffer) -> bool:
    try:
        for record in iter_records(batch):
            return bool(_MARKER.unpack_from(record.key or b"")[1] == ABORT)
    except (KafkaError, error):
        pass
    return False
