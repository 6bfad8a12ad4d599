"""What a scan looks at, and what it holds of it."""

from __future__ import annotations

import pytest
from tests.unit.console.messages.making import TOPIC

from ottla.common.ids import TopicPartition
from ottla.console.messages import search
from ottla.console.messages.decoding import MessageDecoder, TruncatedBytes
from ottla.console.messages.expression import everything, parse
from ottla.console.messages.message import Message, Reading
from ottla.console.messages.reader import Chunk, records_of, shortened
from ottla.console.messages.tail import SHOWN, TailUpdate
from ottla.protocol.records.batch import iter_batches
from ottla.protocol.records.records import Record, encode_batch

GZIP, PER_BATCH = 1, 3


def chunk_of(batches: int, value: bytes = b"{}", *, codec: int = 0) -> Chunk:
    """Return a chunk of batches of three records each."""
    data = b"".join(
        encode_batch(
            [Record(base + each, base, b"k", value, ()) for each in range(PER_BATCH)],
            base_offset=base,
            codec=codec,
        )
        for base in range(0, batches * PER_BATCH, PER_BATCH)
    )
    end = batches * PER_BATCH
    return Chunk(TopicPartition(TOPIC, 0), list(iter_batches(data)), 0, end, end)


def test_large_hits_are_handed_out_before_more_is_unpacked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "HELD_BYTES", 5_000_000)
    chunk: Chunk | None = chunk_of(7, b"x" * 1_000_000, codec=GZIP)  # 21 MB in 21 KB
    parts = []
    while chunk is not None:
        found = search.matches(chunk, Reading(TOPIC), everything())
        parts.append([each.record.offset for each in found.hits])
        chunk = found.left
    assert [len(each) for each in parts] == [6, 6, 6, 3]
    assert [offset for each in parts for offset in each] == list(range(21))


@pytest.mark.parametrize("where", ["offset >= 4", "value CONTAINS 'abcd'", "key = 'k' AND value LIKE '%bc%'"])
def test_each_record_is_looked_at_once(where: str) -> None:
    chunk = chunk_of(4, b"abcd")._replace(end=10)
    found = search.matches(chunk, Reading(TOPIC), parse(where))
    assert [each.record.offset for each in found.hits] == list(range(4 if "offset" in where else 0, 10))
    assert found.left is None


def test_of_large_values_a_list_keeps_the_beginning() -> None:
    records = records_of(chunk_of(1, b"x" * 1_000_000, codec=GZIP), keep=5_000)
    assert {len(each.value) for each in records} == {5_000}
    found = MessageDecoder().decode(records[0].value)
    assert (found.is_cut, found.size, len(found.text)) == (True, 1_000_000, 5_000)
    assert shortened(records[0], 10_000) is records[0]
    assert not isinstance(shortened(records_of(chunk_of(1))[0], 10).value, TruncatedBytes)


def test_an_update_has_the_newest_messages() -> None:
    update = TailUpdate(skipped=3)
    records = records_of(chunk_of(30))
    for begin in (0, 45):
        update.add([Message(each, Reading(TOPIC)) for each in records[begin : begin + 45]])
    assert [each.record.offset for each in update.messages] == list(range(90 - SHOWN, 90))
    assert update.skipped == 3 + 90 - SHOWN
