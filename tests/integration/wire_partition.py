"""What is in a partition, read as bytes: every batch, every marker, both ends."""

from __future__ import annotations

import time
from typing import Any, NamedTuple

from tests.integration.clients import Place, wait_until
from tests.integration.wire import Wire, batch, fetch_fields

from ottla.protocol.api_keys import ApiKey
from ottla.protocol.records.batch import iter_batches
from ottla.protocol.records.records import Record, decode_records

TRANSACTIONAL, CONTROL = 0x10, 0x20
LATEST = -1


def fetch(wire: Wire, place: Place, offset: int = 0, isolation_level: int = 1) -> Any:
    """Return a partition's answer to a fetch that does not wait."""
    fields = fetch_fields(place[0], (place[1], offset), isolation_level=isolation_level)
    return wire.call(ApiKey.FETCH, 12, **fields).responses[0].partitions[0]


class Batch(NamedTuple):
    """What a test wants to know of a batch."""

    attributes: int
    producer_id: int
    producer_epoch: int
    records: list[Record]


def batches(wire: Wire, place: Place) -> list[Batch]:
    """Return every batch of a partition, committed or not."""
    data = bytes(fetch(wire, place, isolation_level=0).records or b"")
    return [
        Batch(header.attributes, header.producer_id, header.producer_epoch, decode_records(found))
        for header, found in iter_batches(data)
    ]


def wait_for_markers(wire: Wire, place: Place, count: int) -> list[Batch]:
    """Wait until there are so many markers in a partition, and return them."""

    def markers() -> list[Batch]:
        return [each for each in batches(wire, place) if each.attributes & CONTROL]

    wait_until(lambda: len(markers()) == count, f"{count} markers")
    return markers()


def end_offset(wire: Wire, place: Place, isolation_level: int) -> int:
    asked = {"partition_index": place[1], "current_leader_epoch": -1, "timestamp": LATEST}
    topics = [{"name": place[0], "partitions": [asked]}]
    answer = wire.call(ApiKey.LIST_OFFSETS, 7, replica_id=-1, isolation_level=isolation_level, topics=topics)
    return answer.topics[0].partitions[0].offset  # -1 with an error


def wait_for_leaders(wire: Wire, topic: str, partitions: int) -> None:
    """Wait until a new topic can be used."""
    for index in range(partitions):
        wait_until(lambda at=(topic, index): end_offset(wire, at, 0) >= 0, f"a leader of {topic}-{index}")


def plain(value: bytes, **options: Any) -> bytes:
    """Return a batch of now with one record."""
    return batch(value, timestamp=time.time_ns() // 1_000_000, **options)
