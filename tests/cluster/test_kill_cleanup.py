"""kill -9 in the middle of compaction and of retention."""

from __future__ import annotations

import contextlib
import time
from pathlib import Path

import pytest
from tests.cluster import keyed_load
from tests.cluster.history import History
from tests.cluster.keyed_load import PLACE as COMPACTED
from tests.cluster.keyed_load import KeyedLoad, assert_newest_of_each_key_is_there
from tests.cluster.load import DEADLINE_S, LoadProducer, create_topic, send_for
from tests.cluster.reading import Reader, problems_in_files, segment_files
from tests.cluster.seeds import seeded

from ottla.testing.broker_process import BrokerProcess

KILLS = 12
SETTINGS = {"log.flush.interval.ms": "10", "offsets.topic.num.partitions": "1"}
SHORT = ("short", 0)


@pytest.mark.slow
def test_kills_in_the_middle_of_compaction_lose_no_key_and_bring_back_no_deleted_one(tmp_path: Path) -> None:
    choose = seeded()
    settings = {"log.cleaner.backoff.ms": "5", **SETTINGS}
    with BrokerProcess(tmp_path / "data", settings=settings) as broker:
        create_topic(broker.address, COMPACTED[0], 1, keyed_load.CONFIGS)
        load = KeyedLoad(broker.address)
        for kill in range(1, KILLS + 1):
            load.send(choose.randrange(500, 3000), choose)
            if choose.random() < 0.8:
                load.send_until_the_cleaner_writes(broker.data / "compacted-0", choose)
                load.send(choose.choice([0, 0, 20, 100]), choose)
            broker.kill()
            broker.start()
            load.settle()
            left = assert_newest_of_each_key_is_there(broker.address, load, f"after kill {kill}")
            assert_no_swap_stays(broker.data)
        deadline = time.monotonic() + DEADLINE_S
        while left > load.sent / 2:
            assert time.monotonic() < deadline, f"{load.sent} records sent, {left} left: compaction hangs"
            left = assert_newest_of_each_key_is_there(broker.address, load, "in the end")
        print(f"{load.sent} records sent, {left} left")
    assert "Traceback" not in broker.stderr_path.read_text()


def assert_no_swap_stays(data: Path) -> None:
    """The cleaner continues after a start, so a swap may be seen unfinished; each has to end."""
    deadline = time.monotonic() + DEADLINE_S
    seen = inodes(data)
    while seen:
        assert time.monotonic() < deadline, f"unfinished swaps: {segment_files(data, COMPACTED, '.swap')}"
        time.sleep(0.005)
        seen &= inodes(data)


def inodes(data: Path) -> set[int]:
    """Return which files are swaps at this moment; a name comes again, an inode does not so soon."""
    found = set()
    for path in segment_files(data, COMPACTED, ".swap"):
        with contextlib.suppress(FileNotFoundError):
            found.add(path.stat().st_ino)
    return found


@pytest.mark.slow
def test_kills_in_the_middle_of_retention_take_nothing_that_retention_keeps(tmp_path: Path) -> None:
    choose = seeded()
    kept_bytes = 100_000
    settings = {"log.retention.check.interval.ms": "5", **SETTINGS}
    configs = {
        "segment.bytes": "20000",
        "retention.bytes": str(kept_bytes),
        "file.delete.delay.ms": "20",
        "index.interval.bytes": "1000",
    }
    history = History()
    with BrokerProcess(tmp_path / "data", settings=settings) as broker:
        create_topic(broker.address, SHORT[0], 1, configs)
        producer = LoadProducer(broker.address, history, "only", [SHORT], config={"batch.size": 12_000})
        checker = SuffixChecker(history)
        for kill in range(1, KILLS + 1):
            send_for([producer], choose.uniform(0.05, 0.4), choose)
            broker.kill()
            broker.start()
            producer.settle()
            with Reader(broker.address) as reader:
                start, end = reader.ends(SHORT)
            checker.check_from(broker.address, start, end, f"after kill {kill}")
            assert problems_in_files(broker.data, SHORT) == []
        assert checker.start > 0, "retention never ran, so the kills cannot have hit it"
        assert sum(path.stat().st_size for path in segment_files(broker.data, SHORT)) > kept_bytes * 0.7
    assert "Traceback" not in broker.stderr_path.read_text()


class SuffixChecker:
    """Checks a log whose beginning goes away: it only ever moves up, and all from there on is right."""

    def __init__(self, history: History) -> None:
        self.start = 0
        self._history = history

    def check_from(self, address: str, start: int, end: int, when: str) -> None:
        assert start >= self.start, f"the log start went back {when}"
        self.start = start
        acks = self._history.acknowledged(SHORT)
        expected = {acks[at]: (acks[at + 1], acks[at + 2]) for at in range(0, len(acks), 3)}
        assert max(expected) == end - 1, when
        with Reader(address, {"auto.offset.reset": "earliest"}) as reader:
            records = reader.read({SHORT: start})[SHORT]
        # Retention continues while we read: what was skipped is below the log start by now.
        assert [offset for offset, _ in records] == list(range(records[0][0], end)), when
        for offset, value in records:
            assert self._history.identify(value) == expected[offset], f"offset {offset} {when}"
