"""kill -9 in the middle of heavy produce, again and again, and what every client may rely on after it.

(kill -9 tests order and consistency, not durability: the page cache survives it. See test_power_cut.py.)
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from tests.cluster.history import Checker, History
from tests.cluster.load import LoadProducer, create_topic, send_for
from tests.cluster.reading import Reader, problems_in_files, problems_with_helpers, segment_files
from tests.cluster.seeds import seeded
from tests.cluster.wire import Produced, WirePeer, batch_of

from ottla.testing.broker_process import BrokerProcess

KILLS = 50
HEAVY = [("heavy", partition) for partition in range(4)]
FLUSHED = [("flushed", partition) for partition in range(2)]

SETTINGS = {
    # Recovery points move all the time, so that kills hit flushes and the writing of checkpoints too.
    "log.flush.interval.ms": "20",
    "log.flush.offset.checkpoint.interval.ms": "30",
    "log.flush.start.offset.checkpoint.interval.ms": "30",
    "offsets.topic.num.partitions": "1",
}
SMALL_SEGMENTS = {"segment.bytes": "131072", "index.interval.bytes": "512"}


def start_and_kill(broker: BrokerProcess, after_s: float) -> None:
    """Kill a broker while it starts: in the middle of recovery, or just after it."""
    with broker.stderr_path.open("ab") as stderr:
        process = subprocess.Popen(broker.command(), stdout=subprocess.DEVNULL, stderr=stderr)
        try:
            process.wait(after_s)
        except subprocess.TimeoutExpired:
            process.kill()
        assert process.wait() == -9, broker.stderr_tail()


def producers_for(address: str, history: History) -> list[LoadProducer]:
    everywhere = HEAVY + FLUSHED
    return [
        LoadProducer(address, history, "plain-batches", everywhere),
        LoadProducer(address, history, "lz4", everywhere, config={"compression.type": "lz4"}),
        LoadProducer(address, history, "zstd", HEAVY, config={"compression.type": "zstd"}),
        LoadProducer(
            address,
            history,
            "not-idempotent",
            everywhere,
            exactly_once=False,
            config={"acks": "1", "max.in.flight.requests.per.connection": 1},
        ),
    ]


def assert_all_is_there(broker: BrokerProcess, checker: Checker, when: str) -> None:
    """Read on from where the checker stopped, through a consumer and from the files."""
    with Reader(broker.address) as reader:
        found = reader.read(checker.positions)
    for place, records in found.items():
        assert checker.check(place, records) == [], f"{place} {when}"


@pytest.mark.slow
def test_after_each_of_50_kills_everything_acknowledged_is_there_once_and_in_order(tmp_path: Path) -> None:
    choose = seeded()
    history = History()
    with BrokerProcess(tmp_path / "data", settings=SETTINGS) as broker:
        create_topic(broker.address, "heavy", len(HEAVY), SMALL_SEGMENTS)
        create_topic(broker.address, "flushed", len(FLUSHED), {**SMALL_SEGMENTS, "flush.messages": "1"})
        producers = producers_for(broker.address, history)
        checker = Checker(history)
        checked_segments = dict.fromkeys(checker.positions, 0)
        for kill in range(1, KILLS + 1):
            send_for(producers, choose.uniform(0.01, 0.5), choose)
            broker.kill()
            if choose.random() < 0.2:
                start_and_kill(broker, choose.uniform(0.05, 0.8))
            broker.start()
            for producer in producers:
                producer.settle()
            assert_all_is_there(broker, checker, f"after kill {kill}")
            for place, known in checked_segments.items():
                assert problems_in_files(broker.data, place, from_segment=known) == []
                checked_segments[place] = len(segment_files(broker.data, place)) - 1
        print(f"{history.ack_count} records acknowledged, {sum(checked_segments.values())} segments rolled")
        assert min(checked_segments.values()) >= 5, "too few rolls: kills cannot have hit them"
        assert_all_is_there(broker, Checker(history), "read again from the beginning")
    for place in history.places:
        assert problems_in_files(broker.data, place) == []
        assert problems_with_helpers(broker.data, place) == []
    assert "Traceback" not in broker.stderr_path.read_text()


def test_the_end_that_clients_see_never_goes_back(tmp_path: Path) -> None:
    """What was acknowledged before the kill is committed after it, from the first answer on."""
    with BrokerProcess(tmp_path / "data", settings={"offsets.topic.num.partitions": "1"}) as broker:
        create_topic(broker.address, "t", 1, {"flush.messages": "1", "segment.bytes": "50000"})
        end = 0
        for _ in range(5):
            with WirePeer(broker.address) as peer:
                for _ in range(100):
                    assert peer.produce("t", 0, batch_of([bytes(1_000)])) == Produced(0, end)
                    end += 1
            broker.kill()
            broker.start()
            with Reader(broker.address) as reader:
                assert reader.ends(("t", 0)) == (0, end)
