"""Power cuts: everything that was not flushed is gone, in the middle of heavy produce.

With flush.messages=1 a record is on the disk before it is acknowledged, so nothing that was may be missing.
Without, records may be; but whatever is left must be intact, at its offset, and stay.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from tests.cluster.history import Checker, History, Read
from tests.cluster.load import DEADLINE_S, LoadProducer, client_config, create_topic, send_for
from tests.cluster.mounts import CannotMount, CuttableDisk
from tests.cluster.reading import Reader, problems_in_files
from tests.cluster.seeds import seeded
from tests.cluster.wire import Produced, WirePeer, batch_of

from ottla.testing.broker_process import BrokerProcess

pytestmark = [pytest.mark.root, pytest.mark.slow]

CUTS = 8
FLUSHED = [("flushed", partition) for partition in range(3)]
SMALL_SEGMENTS = {"segment.bytes": "131072", "index.interval.bytes": "512"}
SETTINGS = {
    "log.flush.offset.checkpoint.interval.ms": "20",
    "log.flush.start.offset.checkpoint.interval.ms": "20",
    "offsets.topic.num.partitions": "1",
}


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[CuttableDisk]:
    """A disk whose power can be cut."""
    try:
        made = CuttableDisk(tmp_path)
    except CannotMount as reason:
        pytest.skip(f"no loop mounts: {reason}")
    yield made
    made.close()


def broker_on(disk: CuttableDisk) -> BrokerProcess:
    log = disk.path.with_name("stderr")
    return BrokerProcess(disk.path / "data", settings=SETTINGS, stderr_path=log)


def cut_power(disk: CuttableDisk, broker: BrokerProcess) -> None:
    """Cut the power of disk and broker at once, and give it back to the disk."""
    os.kill(
        broker.pid, signal.SIGSTOP
    )  # acknowledgements that are on their way are no proof of anything else
    disk.cut_power()
    broker.kill()
    disk.restore_power()


def test_with_flush_on_ack_every_acknowledged_record_survives(disk: CuttableDisk) -> None:
    choose = seeded()
    history = History()
    broker = broker_on(disk).start()
    try:
        create_topic(broker.address, "flushed", len(FLUSHED), {**SMALL_SEGMENTS, "flush.messages": "1"})
        producers = [
            LoadProducer(broker.address, history, "one", FLUSHED),
            LoadProducer(broker.address, history, "two", FLUSHED, config={"compression.type": "lz4"}),
        ]
        checker = Checker(history)
        for cut in range(1, CUTS + 1):
            send_for(producers, choose.uniform(0.05, 0.7), choose)
            cut_power(disk, broker)
            broker.start()
            for producer in producers:
                producer.settle()
            with Reader(broker.address) as reader:
                found = reader.read(checker.positions)
            for place, records in found.items():
                assert checker.check(place, records) == [], f"{place} after power cut {cut}"
                assert problems_in_files(broker.data, place) == []
        print(f"{history.ack_count} records acknowledged")
        assert history.ack_count > 500
    finally:
        broker.kill()


def test_without_flushing_what_is_left_is_intact_and_stays(disk: CuttableDisk) -> None:
    choose = seeded()
    broker = broker_on(disk).start()
    try:
        create_topic(broker.address, "t", 1, {**SMALL_SEGMENTS, "flush.ms": "20"})
        known: list[Read] = []
        for cut in range(1, CUTS + 1):
            acknowledged = append_for(broker.address, choose.uniform(0.1, 1.8))
            cut_power(disk, broker)
            broker.start()
            with Reader(broker.address) as reader:
                start, end = reader.ends(("t", 0))
                records = reader.read({("t", 0): start})[("t", 0)]
            assert end <= acknowledged, f"after power cut {cut}"
            assert records == sorted(records)
            assert all(value == b"%d " % offset * 20 for offset, value in records)
            assert set(known) <= set(records), "what had survived before is gone"
            known = records
        print(f"{len(known)} records of {acknowledged} survived")
    finally:
        broker.kill()


def append_for(address: str, seconds: float) -> int:
    """Append records whose values follow from their offsets; return where the log ends."""
    with Reader(address) as reader:
        _, end = reader.ends(("t", 0))
    deadline = time.monotonic() + seconds
    with WirePeer(address) as peer:
        while time.monotonic() < deadline:
            values = [b"%d " % offset * 20 for offset in range(end, end + 20)]
            assert peer.produce("t", 0, batch_of(values)) == Produced(0, end)
            end += 20
    return end


def test_a_clean_stop_is_complete_when_the_process_is_gone(disk: CuttableDisk) -> None:
    broker = broker_on(disk).start()
    create_topic(broker.address, "t", 1, SMALL_SEGMENTS)
    end = append_for(broker.address, 0.5)
    broker.stop()
    disk.cut_power()
    disk.restore_power()
    with broker:
        assert "logs opened without a scan" in broker.stderr_tail(3)
        with Reader(broker.address) as reader:
            assert reader.ends(("t", 0)) == (0, end)
            assert len(reader.read({("t", 0): 0})[("t", 0)]) == end


def test_topics_and_deleted_records_are_as_acknowledged(disk: CuttableDisk) -> None:
    broker = broker_on(disk).start()
    try:
        admin = AdminClient(client_config(broker.address))
        for name in ("kept", "deleted", "trimmed"):
            create_topic(broker.address, name, 2, {"retention.ms": "123456789", "flush.messages": "1"})
        producer = Producer(client_config(broker.address))
        told: list[KafkaError | None] = []

        def delivered(error: KafkaError | None, _message: Message) -> None:
            told.append(error)

        for number in range(50):
            producer.produce("trimmed", b"%d" % number, partition=0, on_delivery=delivered)
        assert producer.flush(DEADLINE_S) == 0
        assert told == [None] * 50
        admin.delete_topics(["deleted"])["deleted"].result(DEADLINE_S)
        for future in admin.delete_records([TopicPartition("trimmed", 0, 30)]).values():
            assert future.result(DEADLINE_S).low_watermark == 30
        cut_power(disk, broker)
        broker.start()
        topics = admin.list_topics(timeout=DEADLINE_S).topics
        assert {name for name in topics if not name.startswith("__")} == {"kept", "trimmed"}
        assert len(topics["kept"].partitions) == 2
        with Reader(broker.address) as reader:
            assert reader.ends(("trimmed", 0)) == (30, 50)
    finally:
        broker.kill()
