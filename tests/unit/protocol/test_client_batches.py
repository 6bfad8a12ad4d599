"""Batches made by the clients' own code are read, and ours are read by theirs.

The files in batches/ were written by librdkafka 2.x (confluent-kafka): 20 records per codec, the
lz4 ones by an idempotent producer.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from aiokafka.record.default_records import DefaultRecordBatch as AiokafkaBatch
from aiokafka.record.default_records import DefaultRecordBatchBuilder as AiokafkaBuilder
from kafka.record.default_records import DefaultRecordBatch as KafkaPythonBatch
from kafka.record.default_records import DefaultRecordBatchBuilder as KafkaPythonBuilder

from ottla.protocol.records.batch import check_batch
from ottla.protocol.records.compression import CODEC_NAMES
from ottla.protocol.records.records import Record, decode_records, encode_batch

T0 = 1_700_000_000_000
RECORDS = [
    Record(
        i,
        T0 + i * 1_000,
        None if i % 4 == 0 else b"key%d" % i,
        None if i % 5 == 0 else b"value-%d-" % i + b"x" * 60,
        ((f"h{i}", b"hv"), ("n", None)) if i % 3 == 0 else (),
    )
    for i in range(20)
]
KAFKA_PYTHON_CODECS = ["none", "gzip"]  # its others need libraries that are not installed


def build(builder: Any) -> bytes:
    for offset, timestamp, key, value, headers in RECORDS:
        assert builder.append(offset, timestamp=timestamp, key=key, value=value, headers=list(headers))
    return bytes(builder.build())


def seen_by(batch: Any) -> list[Record]:
    """Return what another client's reader makes of a batch."""
    assert batch.validate_crc()
    return [Record(r.offset, r.timestamp, r.key, r.value, tuple(r.headers)) for r in batch]


@pytest.mark.parametrize("codec", CODEC_NAMES)
def test_batches_of_librdkafka_are_accepted_and_read(codec: str) -> None:
    raw = (Path(__file__).parent / "batches" / f"librdkafka-{codec}.bin").read_bytes()
    header = check_batch(memoryview(raw))
    assert CODEC_NAMES[header.codec] == codec
    assert (header.record_count, header.max_timestamp) == (20, T0 + 19_000)
    assert (header.base_sequence == 0) == (codec == "lz4")
    assert decode_records(raw) == RECORDS


@pytest.mark.parametrize("codec", CODEC_NAMES)
def test_batches_of_aiokafka_are_accepted_and_read(codec: str) -> None:
    builder = AiokafkaBuilder(
        magic=2,
        compression_type=CODEC_NAMES.index(codec),
        is_transactional=0,
        producer_id=5,
        producer_epoch=1,
        base_sequence=7,
        batch_size=1 << 20,
    )
    raw = build(builder)
    header = check_batch(memoryview(raw))
    assert (header.producer_id, header.producer_epoch, header.last_sequence) == (5, 1, 26)
    assert decode_records(raw) == RECORDS


@pytest.mark.parametrize("codec", KAFKA_PYTHON_CODECS)
def test_batches_of_kafka_python_are_accepted_and_read(codec: str) -> None:
    raw = build(KafkaPythonBuilder(2, CODEC_NAMES.index(codec), False, -1, -1, -1, 1 << 20))
    check_batch(memoryview(raw))
    assert decode_records(raw) == RECORDS


@pytest.mark.parametrize("codec", CODEC_NAMES)
def test_aiokafka_reads_our_batches(codec: str) -> None:
    batch = encode_batch(RECORDS, codec=CODEC_NAMES.index(codec))
    assert seen_by(AiokafkaBatch(bytes(batch))) == RECORDS


@pytest.mark.parametrize("codec", KAFKA_PYTHON_CODECS)
def test_kafka_python_reads_our_batches(codec: str) -> None:
    batch = encode_batch(RECORDS, codec=CODEC_NAMES.index(codec))
    assert seen_by(KafkaPythonBatch(bytes(batch))) == RECORDS


def test_an_uncompressed_batch_is_byte_for_byte_what_the_clients_write() -> None:
    ours = encode_batch(RECORDS, leader_epoch=-1)
    theirs = build(KafkaPythonBuilder(2, 0, False, -1, -1, -1, 1 << 20))
    assert ours[21:] == theirs[21:]
