"""Stopping a busy broker: what was accepted is answered, the exit code is 0, the next start is a fast one.

That the next start scans nothing is known from its log ("opened after a clean shutdown"), and from what it
reads: a byte turned over in the middle of a log goes unnoticed by it.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient
from tests.cluster.damage import flip
from tests.cluster.history import Checker, History
from tests.cluster.load import DEADLINE_S, LoadProducer, client_config, create_topic, send_for
from tests.cluster.reading import Reader, problems_in_files, problems_with_helpers, segment_files
from tests.cluster.seeds import seeded
from tests.cluster.wire import Produced, WirePeer, batch_of, fetch_frame, produce_frame

from ottla.testing.broker_process import BrokerFailed, BrokerProcess

STOPS = 5
PLACES = [("t", partition) for partition in range(3)]
SETTINGS = {"offsets.topic.num.partitions": "1"}


def stop_by(number: signal.Signals, broker: BrokerProcess) -> None:
    """Send a signal, and wait for the clean end that it must bring about."""
    process = broker._process
    assert process is not None
    process.send_signal(number)
    assert process.wait(20) == 0, broker.stderr_tail()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_busy_broker_stops_with_exit_code_0_and_loses_nothing(
    number: signal.Signals, tmp_path: Path
) -> None:
    choose = seeded()
    history = History()
    with BrokerProcess(tmp_path / "data", settings=SETTINGS) as broker:
        create_topic(broker.address, "t", len(PLACES), {"segment.bytes": "200000"})
        producers = [
            LoadProducer(broker.address, history, "careful", PLACES),
            LoadProducer(
                broker.address, history, "plain", PLACES, exactly_once=False,
                config={"acks": "1", "max.in.flight.requests.per.connection": 1},
            ),
        ]  # fmt: skip
        checker = Checker(history)
        for stop in range(1, STOPS + 1):
            with Reader(broker.address, {"fetch.wait.max.ms": 10_000}) as waiting:
                waiting.read(checker.positions)
                send_for(producers, choose.uniform(0.1, 0.5), choose)
                stop_by(number, broker)
            said = broker.stderr_path.read_text()
            assert "Traceback" not in said
            assert "ERROR" not in said
            broker.kill()
            broker.start()
            assert "after a clean shutdown" in broker.stderr_tail(5), f"start {stop} was not a fast one"
            for producer in producers:
                producer.settle()
            with Reader(broker.address) as reader:
                found = reader.read(checker.positions)
            for place, records in found.items():
                assert checker.check(place, records) == [], f"after stop {stop}"
    for place in PLACES:
        assert problems_in_files(broker.data, place) == []
        assert problems_with_helpers(broker.data, place) == []


def test_what_was_sent_before_the_stop_is_answered_before_the_end(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path / "data") as broker:
        create_topic(broker.address, "t", 1, {"flush.messages": "1"})
        with WirePeer(broker.address) as producer, WirePeer(broker.address) as consumer:
            consumer.send(fetch_frame("t", 0, 0, max_wait_ms=60_000, min_bytes=1 << 20))
            frames = b"".join(produce_frame("t", 0, batch_of([b"%d" % number])) for number in range(200))
            producer.send(frames)
            assert producer.produced("t") == Produced(0, 0)  # it is reading them
            began = time.monotonic()
            stop_by(signal.SIGTERM, broker)
            assert time.monotonic() - began < 10, "a fetch that waits a minute must not hold up the stop"
            answered = 1
            try:
                while True:
                    assert producer.produced("t") == Produced(0, answered)
                    answered += 1
            except (EOFError, ConnectionError):
                pass
            assert consumer.receive_frame(), "the waiting fetch was not answered"
        broker.kill()
        broker.start()
        with Reader(broker.address) as reader:
            _, end = reader.ends(("t", 0))
            assert end >= answered
        print(f"{answered} of 200 answered, {end} appended")
        assert end == answered, "requests were carried out and not answered"


def test_a_start_after_a_clean_stop_scans_nothing(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path / "data", settings=SETTINGS) as broker:
        create_topic(broker.address, "t", 1, {"segment.bytes": "10000"})
        with WirePeer(broker.address) as peer:
            for offset in range(50):
                assert peer.produce("t", 0, batch_of([bytes(1000)])) == Produced(0, offset)
        broker.stop()
        flip(segment_files(broker.data, ("t", 0))[-1], 100)
        flip(segment_files(broker.data, ("t", 0))[1], 100)
        broker.start()
        assert "logs opened after a clean shutdown" in broker.stderr_tail(20)
        assert segment_files(broker.data, ("t", 0), ".quarantine") == []
        broker.kill()
        broker.start()
        assert "logs opened with recovery, after an unclean shutdown" in broker.stderr_tail(6)


def test_the_marker_of_a_clean_stop_is_gone_while_the_broker_runs(tmp_path: Path) -> None:
    marker = tmp_path / "data" / ".kafka_cleanshutdown"
    with BrokerProcess(tmp_path / "data") as broker:
        assert not marker.exists()
        broker.stop()
        assert marker.exists()
        broker.start()
        assert not marker.exists()


def test_a_second_signal_changes_nothing(tmp_path: Path) -> None:
    broker = BrokerProcess(tmp_path / "data").start()
    process = broker._process
    assert process is not None
    for _ in range(3):
        os.kill(process.pid, signal.SIGTERM)
    assert process.wait(20) == 0, broker.stderr_tail()
    broker.kill()
    assert "Traceback" not in broker.stderr_path.read_text()


def test_a_signal_during_the_start_leaves_a_directory_that_starts_again(tmp_path: Path) -> None:
    choose = seeded()
    broker = BrokerProcess(tmp_path / "data").start()
    create_topic(broker.address, "t", 5)
    with WirePeer(broker.address) as peer:
        assert peer.produce("t", 0, batch_of([b"x"])) == Produced(0, 0)
    broker.kill()
    for _ in range(6):
        process = subprocess.Popen(
            broker.command(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
        )
        try:
            process.wait(choose.uniform(0.05, 0.8))
        except subprocess.TimeoutExpired:
            process.terminate()
        assert process.wait(20) in (0, -signal.SIGTERM)
    with broker, Reader(broker.address) as reader:
        assert reader.read({("t", 0): 0})[("t", 0)] == [(0, b"x")]


def refusal(broker: BrokerProcess) -> str:
    """Start a broker that must refuse with exit code 1, and return its last words."""
    with pytest.raises(BrokerFailed, match="exit code 1 before it was ready"):
        broker.start()
    said = broker.stderr_tail()
    assert "Traceback" not in said
    return said


def test_a_second_broker_on_the_same_data_is_refused_and_does_the_first_no_harm(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path / "data") as first:
        create_topic(first.address, "before", 1)
        for attempt in range(3):
            second = BrokerProcess(first.data, stderr_path=tmp_path / f"second-{attempt}")
            assert str(first.data) in refusal(second)
        create_topic(first.address, "after", 1)
        with WirePeer(first.address) as peer:
            for offset in range(3):
                assert peer.produce("before", 0, batch_of([b"x"])) == Produced(0, offset)
            assert peer.produce("after", 0, batch_of([b"x"])) == Produced(0, 0)
        first.restart()
        assert "after a clean shutdown" in first.stderr_tail(20)
        topics = AdminClient(client_config(first.address)).list_topics(timeout=DEADLINE_S).topics
        assert {"before", "after"} <= set(topics)


def test_a_second_broker_on_the_same_port_is_refused_and_its_data_stays_clean(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path / "two") as other:
        create_topic(other.address, "t", 1)
        with WirePeer(other.address) as peer:
            assert peer.produce("t", 0, batch_of([b"x"])) == Produced(0, 0)
    with BrokerProcess(tmp_path / "one") as first:
        second = BrokerProcess(tmp_path / "two", listen=first.listen)
        assert first.listen in refusal(second)
        assert first.is_running
    with BrokerProcess(tmp_path / "two") as other, Reader(other.address) as reader:
        assert reader.read({("t", 0): 0})[("t", 0)] == [(0, b"x")]
