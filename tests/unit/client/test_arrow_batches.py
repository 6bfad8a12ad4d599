"""Arrow batches hold exactly what decoding record by record finds."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.client.arrow_batches import RECORD_SCHEMA, RECORD_SCHEMA_WITH_HEADERS, batches_to_arrow
from ottla.protocol.errors import CorruptMessage, InvalidRecord
from ottla.protocol.records.batch import HEADER_BYTES, decode_header
from ottla.protocol.records.records import Record, decode_records, encode_batch

fields = st.none() | st.binary(max_size=300)
headers = st.lists(st.tuples(st.text(max_size=5), fields), max_size=3).map(tuple)


@st.composite
def records(draw: st.DrawFn) -> list[Record]:
    gaps = draw(st.lists(st.integers(1, 200), min_size=1, max_size=30))
    rows, offset = [], -gaps[0]
    for gap in gaps:
        offset += gap
        timestamp = draw(st.integers(-1, 2**45))
        rows.append(Record(offset, timestamp, draw(fields), draw(fields), draw(headers)))
    return rows


def as_rows(table: object) -> list[Record]:
    return [
        Record(
            row["offset"],
            round(row["timestamp"].timestamp() * 1000),
            row["key"],
            row["value"],
            tuple((each["key"], each["value"]) for each in row["headers"]),
        )
        for row in table.to_pylist()  # type: ignore[attr-defined]
    ]


@settings(max_examples=150, deadline=None)
@given(records(), st.integers(0, 4), st.integers(0, 2**40))
def test_every_batch_reads_the_same_as_record_by_record(
    rows: list[Record], codec: int, base_offset: int
) -> None:
    rows = [row._replace(offset=row.offset + base_offset) for row in rows]
    batch = encode_batch(rows, base_offset=base_offset, codec=codec)
    table = batches_to_arrow([(decode_header(batch), batch)], with_headers=True)
    assert table.schema == RECORD_SCHEMA_WITH_HEADERS
    assert as_rows(table) == decode_records(batch)


def test_log_append_time_counts_for_all_records_of_its_batch() -> None:
    rows = [Record(0, 5, None, b"a"), Record(1, 6, None, b"b")]
    batch = encode_batch(rows, max_timestamp=77, log_append_time=True)
    table = batches_to_arrow([(decode_header(batch), batch)])
    assert [round(each.as_py().timestamp() * 1000) for each in table.column("timestamp")] == [77, 77]
    assert table.column("timestamp_type").to_pylist() == [1, 1]


def test_a_batch_that_compaction_emptied_has_no_rows() -> None:
    batch = encode_batch([], base_offset=7, last_offset_delta=3)
    assert batches_to_arrow([(decode_header(batch), batch)]).schema == RECORD_SCHEMA


@settings(max_examples=300, deadline=None)
@given(records(), st.data())
def test_damaged_records_are_refused_or_read_but_never_crash(rows: list[Record], data: st.DataObject) -> None:
    batch = encode_batch(rows)
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(HEADER_BYTES, len(batch) - 1))
        batch[at] = data.draw(st.integers(0, 255))
    try:
        batches_to_arrow([(decode_header(batch), batch)], with_headers=True)
    except (InvalidRecord, CorruptMessage):
        pass


def test_a_record_count_that_the_bytes_cannot_hold_is_refused() -> None:
    batch = encode_batch([Record(0, 0, None, b"x")])
    batch[57:61] = (2**31 - 1).to_bytes(4, "big")
    with pytest.raises(InvalidRecord):
        batches_to_arrow([(decode_header(batch), batch)])


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(records(), st.integers(0, 4), st.booleans()), max_size=5))
def test_several_batches_become_one_table(parts: list[tuple[list[Record], int, bool]]) -> None:
    batches, base_offset = [], 0
    for rows, codec, log_append_time in parts:
        rows = [row._replace(offset=row.offset + base_offset) for row in rows]
        batches.append(
            encode_batch(rows, base_offset=base_offset, codec=codec, log_append_time=log_append_time)
        )
        base_offset = rows[-1].offset + 1
    table = batches_to_arrow([(decode_header(each), each) for each in batches], with_headers=True)
    assert as_rows(table) == [record for each in batches for record in decode_records(each)]
