"""What has to be looked into before it is appended, and what that may cost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from ottla.common.config.broker import BrokerConfig
from ottla.common.config.topic import TopicConfig
from ottla.log.log_config import LogConfig
from ottla.log.validator import (
    MAX_INLINE_RECORDS,
    is_expensive_to_validate,
    validate_batch,
    validate_records,
)
from ottla.protocol.errors import InvalidRecord, InvalidTimestamp
from ottla.protocol.records.batch import decode_header
from ottla.protocol.records.records import Record, encode_batch, iter_records

NOW_MS = 1_700_000_000_000
FEW, MANY = MAX_INLINE_RECORDS, MAX_INLINE_RECORDS + 1
GZIP, ZSTD = 1, 4


def config(**overrides: str) -> LogConfig:
    broker = BrokerConfig({"node.id": "1"})
    return LogConfig.from_topic_config(
        TopicConfig({key.replace("_", "."): value for key, value in overrides.items()}, broker)
    )


def batch_of(count: int, codec: int = 0, key: bytes | None = b"key") -> memoryview:
    records: Sequence[Record] = [Record(offset, NOW_MS, key, b"value") for offset in range(count)]
    return memoryview(encode_batch(records, codec=codec))


@pytest.mark.parametrize(
    ("overrides", "count", "codec", "expected"),
    [
        ({}, MANY, GZIP, False),
        ({"message_timestamp_type": "LogAppendTime"}, MANY, GZIP, False),
        ({"cleanup_policy": "compact"}, FEW, 0, False),
        ({"cleanup_policy": "compact"}, MANY, 0, True),
        ({"cleanup_policy": "compact"}, 1, GZIP, True),
        ({"message_timestamp_before_max_ms": "1000"}, FEW, 0, False),
        ({"message_timestamp_before_max_ms": "1000"}, MANY, 0, True),
        ({"compression_type": "zstd"}, 1, GZIP, True),
        ({"compression_type": "zstd"}, MANY, ZSTD, False),
        ({"compression_type": "uncompressed"}, 1, 0, False),
    ],
)
def test_only_reading_many_or_compressed_records_is_costly(
    overrides: dict[str, str], count: int, codec: int, expected: bool
) -> None:
    assert is_expensive_to_validate(decode_header(batch_of(count, codec)), config(**overrides)) is expected


@pytest.mark.parametrize("overrides", [{"cleanup_policy": "compact"}, {"compression_type": "zstd"}])
def test_looking_inside_first_changes_nothing_about_the_result(overrides: dict[str, str]) -> None:
    topic = config(**overrides)
    at_once = validate_batch(batch_of(MANY, GZIP), decode_header(batch_of(MANY, GZIP)), topic, NOW_MS)
    batch, header = validate_records(batch_of(MANY, GZIP), decode_header(batch_of(MANY, GZIP)), topic, NOW_MS)
    in_two_steps = validate_batch(batch, header, topic, NOW_MS, is_validated=True)
    assert in_two_steps == at_once
    assert len(list(iter_records(in_two_steps.batch))) == MANY


def test_what_was_inspected_is_not_read_again() -> None:
    keyless: Any = batch_of(1, key=None)
    topic = replace(config(cleanup_policy="compact"))
    with pytest.raises(InvalidRecord):
        validate_batch(keyless, decode_header(keyless), topic, NOW_MS)
    assert validate_batch(keyless, decode_header(keyless), topic, NOW_MS, is_validated=True).batch == keyless


def test_a_thread_that_reads_many_records_pauses_now_and_then() -> None:
    naps: list[None] = []
    batch = batch_of(5000)
    validate_records(
        batch, decode_header(batch), config(cleanup_policy="compact"), NOW_MS, lambda: naps.append(None)
    )
    assert len(naps) == 10


@pytest.mark.parametrize("codec", [0, GZIP])
def test_the_records_at_fault_are_named(codec: int) -> None:
    bad = set(range(3, 100, 10))
    records = [Record(at, NOW_MS, None if at in bad else b"key", b"value") for at in range(100)]
    batch = memoryview(encode_batch(records, codec=codec))
    with pytest.raises(InvalidRecord, match="10 records were refused: a compacted topic") as caught:
        validate_batch(batch, decode_header(batch), config(cleanup_policy="compact"), NOW_MS)
    assert {number for number, _ in caught.value.record_errors} == bad
    old = batch_of(2)
    limited = config(cleanup_policy="compact", message_timestamp_before_max_ms="1000")
    with pytest.raises(InvalidTimestamp, match="2 records") as late:
        validate_batch(old, decode_header(old), limited, NOW_MS + 5_000)
    assert [number for number, _ in late.value.record_errors] == [0, 1]


@pytest.mark.parametrize("codec", ["gzip", "lz4", "zstd"])
def test_batches_are_compressed_anew_at_the_topics_level(codec: str) -> None:
    words = [b"%d" % (number * 7919 % 1000) for number in range(5000)]
    batch = memoryview(encode_batch([Record(at, NOW_MS, None, word) for at, word in enumerate(words)]))
    sizes = []
    for level in ("9", "12") if codec == "lz4" else ("1", "9"):
        topic = config(compression_type=codec, **{f"compression_{codec}_level": level})
        stored = validate_batch(batch, decode_header(batch), topic, NOW_MS).batch
        assert [record.value for record in iter_records(stored)] == words
        sizes.append(len(stored))
    assert sizes[1] < sizes[0]
