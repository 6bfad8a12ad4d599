"""Which schemas the records of a batch name."""

from __future__ import annotations

from ottla.api.schema_validation.named_records import find_names
from ottla.log.log_config import LogConfig
from ottla.protocol.records.records import Record, encode_batch

VALUES = LogConfig(confluent_value_schema_validation=True)
BOTH = LogConfig(confluent_value_schema_validation=True, confluent_key_schema_validation=True)
SEVEN, EIGHT = b"\0\0\0\0\7", b"\0\0\0\0\x08"
GUID = b"\1" + bytes(range(16))
GUID_TEXT = "00010203-0405-0607-0809-0a0b0c0d0e0f"


def batch(*records: Record) -> bytearray:
    return encode_batch(list(records))


def test_records_are_grouped_by_schema() -> None:
    named, refusals = find_names(
        batch(
            Record(0, 1, b"k", SEVEN + b"a"),
            Record(1, 1, b"k", EIGHT + b"b"),
            Record(2, 1, b"k", SEVEN + b"c"),
            Record(3, 1, b"k", None),
            Record(4, 1, b"k", SEVEN[:4]),
        ),
        VALUES,
    )
    assert {name: (each.numbers, each.rests) for name, each in named.items()} == {
        ("value", 7): ([0, 2], [b"a", b"c"]),
        ("value", 8): ([1], [b"b"]),
    }
    assert list(refusals) == [4]


def test_a_header_goes_before_the_prefix() -> None:
    headers = (("other", b"\0\0\0\0\1"), ("__value_schema_id", GUID + b"\2\4"))
    named, refusals = find_names(batch(Record(0, 1, SEVEN, SEVEN + b"x", headers)), BOTH)
    assert not refusals
    assert named["value", GUID_TEXT].rests == [b"\2\4" + SEVEN + b"x"]
    assert named["key", 7].rests == [b""]
