"""Disks that fail: the operations of a running broker are made to fail by a library slipped under it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import KafkaException
from tests.cluster.faulty_broker import FaultyBroker, compile_library
from tests.cluster.load import create_topic
from tests.cluster.reading import Reader, problems_in_files, read_one
from tests.cluster.wire import Produced, WirePeer, batch_of

from ottla.testing.broker_process import BrokerProcess

STORAGE_ERROR = 56
PLACE = ("t", 0)


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The library that makes operations fail, compiled."""
    return compile_library(tmp_path_factory.mktemp("library"))


Started = Callable[..., FaultyBroker]


@pytest.fixture
def started(library: Path, tmp_path: Path) -> Iterator[Started]:
    """Start a broker with topic `t`, which holds ten records."""
    brokers: list[FaultyBroker] = []

    def start(configs: dict[str, str] | None = None, settings: dict[str, str] | None = None) -> FaultyBroker:
        broker = FaultyBroker(tmp_path / "data", library, settings)
        brokers.append(broker)
        broker.start()
        create_topic(broker.address, "t", 1, configs)
        with WirePeer(broker.address) as peer:
            for offset in range(10):
                assert peer.produce("t", 0, batch_of([value(offset)])) == Produced(0, offset)
        return broker

    yield start
    for broker in brokers:
        broker.kill()
        assert "Traceback" not in broker.stderr_path.read_text()


def value(offset: int) -> bytes:
    return b"value %d " % offset * 50


def append(broker: BrokerProcess, offset: int) -> Produced:
    with WirePeer(broker.address) as peer:
        return peer.produce("t", 0, batch_of([value(offset)]))


def assert_readable(broker: BrokerProcess, count: int) -> None:
    with Reader(broker.address) as reader:
        assert reader.ends(PLACE) == (0, count)
        assert reader.read({PLACE: 0})[PLACE] == [(offset, value(offset)) for offset in range(count)]


def assert_recovers(broker: BrokerProcess, count: int) -> None:
    """Restart it as an operator would after reading its log; the disk is repaired."""
    broker.stop()
    broker.start()
    with Reader(broker.address) as reader:
        _, end = reader.ends(PLACE)
        records = reader.read({PLACE: 0})[PLACE]
    # What was not acknowledged may be there or not; but nothing may be wrong with what is.
    assert end >= count
    assert records == [(offset, value(offset)) for offset in range(end)]
    assert append(broker, end) == Produced(0, end)
    assert problems_in_files(broker.data, PLACE) == []


@pytest.mark.parametrize("sealed", [False, True])
def test_after_a_failed_fsync_writes_are_refused_for_good_and_reads_continue(
    started: Started, sealed: bool
) -> None:
    """Trying again would succeed, and lie: the kernel drops what it could not write, and forgets it."""
    broker = started({"flush.messages": "1", "segment.bytes": "2000" if sealed else "1000000"})
    with broker.failing("fsync EIO /t-0/"):
        assert append(broker, 10).error_code == STORAGE_ERROR
    assert append(broker, 10).error_code == STORAGE_ERROR
    assert append(broker, 10).error_code == STORAGE_ERROR
    assert_readable(broker, 10)
    said = broker.stderr_path.read_text()
    assert "offline for writes until the broker restarts" in said
    assert str(broker.data / "t-0") in said
    assert_recovers(broker, 10)


def test_a_failed_fsync_in_the_background_refuses_writes_too(started: Started) -> None:
    broker = started({"flush.ms": "10"})
    with broker.failing("fsync EIO /t-0/"), WirePeer(broker.address) as peer:
        acknowledged = 10
        for _ in range(100_000):
            if peer.produce("t", 0, batch_of([value(acknowledged)])).error_code:
                break
            acknowledged += 1
        else:
            pytest.fail("writes succeed although every fsync fails")
    assert append(broker, acknowledged).error_code == STORAGE_ERROR
    assert_readable(broker, acknowledged)
    assert_recovers(broker, acknowledged)


def test_an_offline_directory_says_so_in_the_answer_to_every_topic(started: Started) -> None:
    broker = started({"flush.messages": "1"})
    create_topic(broker.address, "other", 1)
    with broker.failing("fsync EIO /t-0/"):
        assert append(broker, 10).error_code == STORAGE_ERROR
    with WirePeer(broker.address) as peer:
        assert peer.produce("other", 0, batch_of([b"x"])).error_code == STORAGE_ERROR
        assert peer.fetch_error("t", 0, 0) == 0
    assert_recovers(broker, 10)


def test_short_writes_are_continued(started: Started) -> None:
    broker = started()
    with broker.failing("write SHORT .log"):
        for offset in range(10, 20):
            assert append(broker, offset) == Produced(0, offset)
    assert_readable(broker, 20)
    assert problems_in_files(broker.data, PLACE) == []


@pytest.mark.parametrize("how", ["EIO", "TORN"])
def test_a_failed_write_leaves_no_torn_batch_and_refuses_further_ones(started: Started, how: str) -> None:
    broker = started()
    with broker.failing(f"write {how} .log"):
        assert append(broker, 10).error_code == STORAGE_ERROR
    assert append(broker, 10).error_code == STORAGE_ERROR
    assert problems_in_files(broker.data, PLACE) == []
    assert_readable(broker, 10)
    assert_recovers(broker, 10)


def test_indexes_that_cannot_be_written_do_not_stop_the_log(started: Started) -> None:
    broker = started({"index.interval.bytes": "1", "segment.bytes": "5000"})
    with broker.failing("write EIO .index", "write TORN .timeindex"):
        for offset in range(10, 40):
            if append(broker, offset) != Produced(0, offset):
                break
    with Reader(broker.address) as reader:
        _, end = reader.ends(PLACE)
    assert_readable(broker, end)
    broker.kill()
    broker.start()
    assert_readable(broker, end)


def test_a_failed_read_costs_one_answer_and_nothing_else(started: Started) -> None:
    broker = started()
    with broker.failing("read EIO .log"), pytest.raises((KafkaException, AssertionError)):
        read_one(broker.address, PLACE, 3, within_s=2)
    assert read_one(broker.address, PLACE, 3) == (3, value(3))
    assert append(broker, 10) == Produced(0, 10)
    assert_readable(broker, 11)


def test_metadata_that_cannot_be_written_refuses_the_change_and_serves_the_rest(started: Started) -> None:
    broker = started()
    with broker.failing("fsync EIO metadata.db", "write EIO metadata.db"), pytest.raises(KafkaException):
        create_topic(broker.address, "refused", 1)
    assert append(broker, 10) == Produced(0, 10)
    assert_readable(broker, 11)
    create_topic(broker.address, "accepted", 1)
    broker.kill()
    broker.start()
    assert_readable(broker, 11)
    with WirePeer(broker.address) as peer:
        assert peer.produce("accepted", 0, batch_of([b"x"])) == Produced(0, 0)


def test_a_clean_stop_that_cannot_flush_is_not_called_clean(started: Started) -> None:
    broker = started()
    with broker.failing("fsync EIO data"):
        broker.stop()
    assert not (broker.data / ".kafka_cleanshutdown").exists()
    broker.start()
    assert_readable(broker, 10)
    assert "after an unclean shutdown" in broker.stderr_tail()


def test_checkpoints_that_cannot_be_written_do_not_move_the_recovery_point(started: Started) -> None:
    settings = {"log.flush.offset.checkpoint.interval.ms": "10"}
    broker = started({"flush.messages": "1"}, settings)
    with broker.failing("fsync EIO checkpoint", "write EIO checkpoint"):
        for offset in range(10, 30):
            answer = append(broker, offset)
            if answer != Produced(0, offset):
                break
    with Reader(broker.address) as reader:
        _, end = reader.ends(PLACE)
    broker.kill()
    broker.start()
    assert_readable(broker, end)
