"""A disk that runs full under a broker. First a write comes out short, then none is possible at all."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from tests.cluster.history import Checker, History
from tests.cluster.load import DEADLINE_S, LoadProducer, client_config, create_topic
from tests.cluster.mounts import CannotMount, small_tmpfs
from tests.cluster.reading import Reader, problems_in_files
from tests.cluster.seeds import seeded
from tests.cluster.wire import Produced, WirePeer, batch_of

from ottla.testing.broker_process import BrokerFailed, BrokerProcess

pytestmark = [pytest.mark.root]

STORAGE_ERROR = 56
PLACE = ("t", 0)
BALLAST_BYTES = 3 << 20
VALUE = bytes(3_000)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 8 MiB, 3 of which a file takes up that can be removed."""
    try:
        with small_tmpfs(tmp_path / "small", "8m") as path:
            (path / "ballast").write_bytes(bytes(BALLAST_BYTES))
            yield path
    except CannotMount as reason:
        pytest.skip(str(reason))


def broker_on(disk: Path) -> BrokerProcess:
    """A broker with its data there and its log elsewhere; readers make it create only a few files."""
    settings = {"offsets.topic.num.partitions": "1"}
    return BrokerProcess(disk / "data", settings=settings, stderr_path=disk.parent / "stderr")


def fill(peer: WirePeer, topic: str) -> int:
    """Append records, the last ones of them very small, until none fits; return how many did."""
    appended = 0
    for size in (len(VALUE) * 20, len(VALUE), 100, 1):
        while (answer := peer.produce(topic, 0, batch_of([bytes(size)]))).error_code == 0:
            assert answer.base_offset == appended
            appended += 1
        assert answer.error_code == STORAGE_ERROR
    return appended


def read_all(address: str, end: int) -> None:
    with Reader(address) as reader:
        assert reader.ends(PLACE) == (0, end)
        records = reader.read({PLACE: 0})[PLACE]
    assert [offset for offset, _ in records] == list(range(end))


@pytest.mark.parametrize("segment_bytes", ["1000000000", "200000"])
def test_a_full_disk_refuses_writes_keeps_reads_and_continues_when_there_is_room(
    disk: Path, segment_bytes: str
) -> None:
    with broker_on(disk) as broker:
        create_topic(broker.address, "t", 1, {"segment.bytes": segment_bytes})
        with WirePeer(broker.address) as peer:
            end = fill(peer, "t")
            assert end > 40
            assert problems_in_files(broker.data, PLACE) == [], "a torn write was left behind"
            read_all(broker.address, end)
            (disk / "ballast").unlink()
            assert peer.produce("t", 0, batch_of([VALUE])) == Produced(0, end)
        read_all(broker.address, end + 1)
        broker.restart()
        read_all(broker.address, end + 1)
        assert "No space left" in broker.stderr_path.read_text()
        assert "Traceback" not in broker.stderr_path.read_text()
        assert broker.stderr_path.read_text().count("after a clean shutdown") == 1


@pytest.mark.parametrize("how", ["stopped", "killed"])
def test_nothing_is_lost_if_the_broker_ends_while_the_disk_is_full(disk: Path, how: str) -> None:
    broker = broker_on(disk).start()
    create_topic(broker.address, "t", 1)
    with WirePeer(broker.address) as peer:
        end = fill(peer, "t")
    if how == "stopped":
        broker.stop()
    else:
        broker.kill()
    with pytest.raises(BrokerFailed, match="exit code 1 before it was ready"):
        broker.start()
    assert "disk is full" in broker.stderr_tail()
    (disk / "ballast").unlink()
    with broker:
        read_all(broker.address, end)
        with WirePeer(broker.address) as peer:
            assert peer.produce("t", 0, batch_of([VALUE])) == Produced(0, end)
    assert "Traceback" not in broker.stderr_path.read_text()


def test_an_idempotent_producer_gets_through_in_the_end_without_duplicates(disk: Path) -> None:
    choose = seeded()
    history = History()
    with broker_on(disk) as broker:
        create_topic(broker.address, "t", 1, {"segment.bytes": "500000"})
        producer = LoadProducer(broker.address, history, "patient", [PLACE])
        deadline = time.monotonic() + DEADLINE_S
        while "No space left" not in broker.stderr_path.read_text():
            assert time.monotonic() < deadline
            producer.send(20, choose)
        producer.send(20, choose)
        (disk / "ballast").unlink()
        producer.settle()
        with Reader(broker.address) as reader:
            found = reader.read({PLACE: 0})
        assert Checker(history).check(PLACE, found[PLACE]) == []


def test_topics_can_be_made_again_once_there_is_room(disk: Path) -> None:
    with broker_on(disk) as broker:
        create_topic(broker.address, "t", 1)
        with WirePeer(broker.address) as peer:
            end = fill(peer, "t")
        admin = AdminClient(client_config(broker.address))
        many = [NewTopic(f"more-{number}", 10, 1) for number in range(20)]
        refused = 0
        for future in admin.create_topics(many, request_timeout=DEADLINE_S).values():
            try:
                future.result(DEADLINE_S)
            except KafkaException:
                refused += 1
        (disk / "ballast").unlink()
        create_topic(broker.address, "again", 1)
        with WirePeer(broker.address) as peer:
            assert peer.produce("again", 0, batch_of([VALUE])) == Produced(0, 0)
        broker.restart()
        read_all(broker.address, end)
        known = admin.list_topics(timeout=DEADLINE_S).topics
        assert len([name for name in known if name.startswith("more-")]) >= 20 - refused
        assert "Traceback" not in broker.stderr_path.read_text()


def test_a_roll_that_fails_half_way_hides_no_record(tmp_path: Path) -> None:
    """There is an inode for the new .log file but none for its index; small records still fit the old one."""
    try:
        with small_tmpfs(tmp_path / "small", "64m", inodes=60) as path:
            fail_a_roll(path)
    except CannotMount as reason:
        pytest.skip(str(reason))


def fail_a_roll(disk: Path) -> None:
    with broker_on(disk) as broker:
        create_topic(broker.address, "t", 1, {"segment.bytes": "10000"})
        with WirePeer(broker.address) as peer:
            assert peer.produce("t", 0, batch_of([bytes(6_000)])) == Produced(0, 0)
            leave_one_inode(disk)
            assert peer.produce("t", 0, batch_of([bytes(6_000)])).error_code == STORAGE_ERROR
            assert peer.produce("t", 0, batch_of([bytes(600)])) == Produced(0, 1)
            assert peer.produce("t", 0, batch_of([bytes(600)])) == Produced(0, 2)
        read_all(broker.address, 3)
        for path in disk.glob("filler-*"):
            path.unlink()
        broker.restart()
        read_all(broker.address, 3)
        with WirePeer(broker.address) as peer:
            assert peer.produce("t", 0, batch_of([bytes(6_000)])) == Produced(0, 3)
        broker.kill()
        broker.start()
        read_all(broker.address, 4)


def leave_one_inode(disk: Path) -> None:
    number = 0
    try:
        while True:
            (disk / f"filler-{number}").touch()
            number += 1
    except OSError:
        (disk / f"filler-{number - 1}").unlink()
