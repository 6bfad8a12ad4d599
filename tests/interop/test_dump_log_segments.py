"""Kafka's own DumpLogSegments reads our files: segments, indexes, transactions, producer snapshots."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from confluent_kafka import Producer
from tests.integration.clients import Client, HasAddress, NewName, Outgoing
from tests.interop.conftest import Tool

DUMP = "org.apache.kafka.tools.DumpLogSegments"
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
TROUBLE = re.compile(r"mismatch|out.of.order|not found|corrupt|exception", re.IGNORECASE)


def dump(java: Tool, files: list[Path], *options: str) -> str:
    """Dump files and return what was said; complaints are failures."""
    done = java(DUMP, *options, "--files", ",".join(map(str, files)))
    assert not TROUBLE.search(done.stdout), done.stdout
    assert not TROUBLE.search(done.stderr), done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def rolled(client: Client, broker: HasAddress) -> Path:
    """The folder of a partition with several sealed segments, written by an idempotent producer."""
    topic = "interop.rolled"
    if client.partition_count(topic) == 0:
        client.create_topic(topic, configs={"segment.bytes": "1048576", "index.interval.bytes": "4096"})
    with client.producer(idempotent=True, batch_bytes=8_000) as producer:
        producer.send(topic, [Outgoing(b"%06d" % index + b"." * 994, b"key") for index in range(3_000)])
    return broker.data / f"{topic}-0"


def sealed(folder: Path, suffix: str) -> list[Path]:
    return sorted(folder.glob(f"*{suffix}"))[:-1]


def test_it_reads_every_codec_record_by_record(
    java: Tool, client: Client, new_name: NewName, broker: HasAddress
) -> None:
    topic = client.create_topic(new_name())
    for codec in CODECS:
        with client.producer(codec=codec) as producer:
            producer.send(topic, [Outgoing(codec.encode() * 50, b"key", (("h", b"x"),))] * 2)
    segment = broker.data / f"{topic}-0" / f"{0:020}.log"
    out = dump(java, [segment], "--deep-iteration", "--print-data-log")
    batches = re.findall(
        r"^baseOffset: .*magic: (\d) compresscodec: (\w+) crc: \d+ isvalid: (\w+)$", out, re.M
    )
    assert {magic for magic, _, _ in batches} == {"2"}
    assert {valid for _, _, valid in batches} == {"true"}
    assert list(dict.fromkeys(codec for _, codec, _ in batches)) == list(CODECS)
    records = re.findall(r"^\| offset: (\d+) .*headerKeys: \[h\] key: key payload: (\w+)$", out, re.M)
    assert records == [(str(offset), CODECS[offset // 2] * 50) for offset in range(10)]


def test_segments_follow_each_other_without_a_gap(java: Tool, rolled: Path) -> None:
    segments = sorted(rolled.glob("*.log"))
    assert len(segments) >= 3
    out = dump(java, segments, "--deep-iteration")
    assert "isvalid: false" not in out
    starts = [int(start) for start in re.findall(r"^Log starting offset: (\d+)$", out, re.M)]
    assert starts == [int(segment.stem) for segment in segments]
    offsets = [int(offset) for offset in re.findall(r"^\| offset: (\d+) ", out, re.M)]
    assert offsets == list(range(len(offsets)))
    assert len(offsets) >= 3_000


def test_indexes_agree_with_their_segments(java: Tool, rolled: Path) -> None:
    indexes = sealed(rolled, ".index")
    out = dump(java, indexes, "--index-sanity-check")
    assert out.count("passed sanity check") == len(indexes)
    entries = re.findall(r"^offset: (\d+) position: (\d+)$", dump(java, indexes), re.M)
    assert len(entries) > 50 * len(indexes)  # one every 4 KiB or so, batches being twice that


def test_time_indexes_agree_with_their_segments(java: Tool, rolled: Path) -> None:
    out = dump(java, sealed(rolled, ".timeindex"))
    entries = re.findall(r"^timestamp: (\d+) offset: (\d+)$", out, re.M)
    assert entries
    assert [int(offset) for _, offset in entries] == sorted(int(offset) for _, offset in entries)


def test_producer_snapshots_tell_where_the_producer_was(java: Tool, rolled: Path) -> None:
    snapshots = sorted(rolled.glob("*.snapshot"))
    assert len(snapshots) >= 2
    # One paragraph per file, one line in it per producer.
    _, *paragraphs = dump(java, snapshots).split("Dumping ")
    for snapshot, paragraph in zip(snapshots, paragraphs, strict=True):
        assert paragraph.startswith(str(snapshot))
        producers = re.findall(r"^producerId: \d+ producerEpoch: 0 .*lastOffset: (\d+)", paragraph, re.M)
        assert max(map(int, producers)) == int(snapshot.stem) - 1


def test_markers_and_aborted_transactions_are_read(
    java: Tool, client: Client, new_name: NewName, broker: HasAddress
) -> None:
    topic = client.create_topic(new_name())
    producer = Producer({"bootstrap.servers": broker.address, "transactional.id": topic})
    producer.init_transactions(30)
    for is_commit in (True, False, False, True):
        producer.begin_transaction()
        producer.produce(topic, b"value")
        producer.flush(30)
        (producer.commit_transaction if is_commit else producer.abort_transaction)(30)
    folder = broker.data / f"{topic}-0"
    out = dump(java, [folder / f"{0:020}.log"], "--deep-iteration")
    markers = re.findall(r"^\| offset: (\d+) .*endTxnMarker: (\w+) coordinatorEpoch: \d+$", out, re.M)
    assert markers == [("1", "COMMIT"), ("3", "ABORT"), ("5", "ABORT"), ("7", "COMMIT")]
    aborted = re.findall(
        r"^version: 0 producerId: \d+ firstOffset: (\d+) lastOffset: (\d+) lastStableOffset: (\d+)$",
        dump(java, [folder / f"{0:020}.txnindex"]),
        re.M,
    )
    assert aborted == [("2", "3", "4"), ("4", "5", "6")]
