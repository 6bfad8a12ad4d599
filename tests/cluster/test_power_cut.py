"""Power failures: everything that was not flushed is gone, in the middle of heavy produce.

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
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient
from tests.cluster import keyed_load
from tests.cluster.history import Checker, History, Read
from tests.cluster.keyed_load import KeyedLoad, assert_newest_of_each_key_is_there
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
                assert checker.check(place, records) == [], f"{place} after power failure {cut}"
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
            assert end <= acknowledged, f"after power failure {cut}"
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


def test_compaction_that_is_cut_short_loses_no_key(disk: CuttableDisk) -> None:
    choose = seeded()
    broker = broker_on(disk)
    broker.settings["log.cleaner.backoff.ms"] = "5"
    broker.start()
    try:
        configs = {**keyed_load.CONFIGS, "flush.messages": "1"}
        create_topic(broker.address, keyed_load.PLACE[0], 1, configs)
        load = KeyedLoad(broker.address)
        for cut in range(1, CUTS + 1):
            load.send(choose.randrange(300, 1500), choose)
            load.send_until_the_cleaner_writes(broker.data / "compacted-0", choose)
            load.send(choose.choice([0, 10, 50]), choose)
            cut_power(disk, broker)
            broker.start()
            load.settle()
            assert_newest_of_each_key_is_there(broker.address, load, f"after power failure {cut}")
    finally:
        broker.kill()


def test_a_clean_stop_is_complete_when_the_process_is_gone(disk: CuttableDisk) -> None:
    broker = broker_on(disk).start()
    create_topic(broker.address, "t", 1, SMALL_SEGMENTS)
    end = append_for(broker.address, 0.5)
    broker.stop()
    disk.cut_power()
    disk.restore_power()
    with broker:
        assert "logs opened after a clean shutdown" in broker.stderr_tail(20)
        with Reader(broker.address) as reader:
            assert reader.ends(("t", 0)) == (0, end)
            assert len(reader.read({("t", 0): 0})[("t", 0)]) == end


def test_topics_are_there_or_gone_as_acknowledged(disk: CuttableDisk) -> None:
    broker = broker_on(disk).start()
    try:
        admin = AdminClient(client_config(broker.address))
        expected: set[str] = set()
        for cut in range(CUTS):
            create_topic(broker.address, f"t{cut}", 2, {"retention.ms": "123456789"})
            expected.add(f"t{cut}")
            if cut % 2:
                admin.delete_topics([f"t{cut - 1}"])[f"t{cut - 1}"].result(DEADLINE_S)
                expected.discard(f"t{cut - 1}")
            cut_power(disk, broker)
            broker.start()
            known = admin.list_topics(timeout=DEADLINE_S).topics
            assert {name for name in known if not name.startswith("__")} == expected
            assert all(len(known[name].partitions) == 2 for name in expected)
    finally:
        broker.kill()


def test_deleted_records_stay_deleted_and_the_others_stay(disk: CuttableDisk) -> None:
    broker = broker_on(disk).start()
    try:
        create_topic(broker.address, "t", 1, {"flush.messages": "1"})
        with WirePeer(broker.address) as peer:
            for offset in range(50):
                assert peer.produce("t", 0, batch_of([b"x"])) == Produced(0, offset)
        admin = AdminClient(client_config(broker.address))
        for future in admin.delete_records([TopicPartition("t", 0, 30)]).values():
            assert future.result(DEADLINE_S).low_watermark == 30
        cut_power(disk, broker)
        broker.start()
        with Reader(broker.address) as reader:
            assert reader.ends(("t", 0)) == (30, 50)
            assert len(reader.read({("t", 0): 30})[("t", 0)]) == 20
    finally:
        broker.kill()
