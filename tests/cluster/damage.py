"""A data directory whose every byte is known, and the ways to do harm to it.

Topic `t` has one partition with BATCHES batches of RECORDS records each, in small segments, from one
idempotent producer; record n has timestamp FIRST_MS + n * STEP_MS. In the middle the broker was killed
once, so there are two leader epochs. The directory comes in two states:

    stopped    left by a clean stop
    killed     left by kill -9, nothing of it ever flushed
"""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path

from confluent_kafka import Consumer, TopicPartition
from tests.cluster.broker_thread import BrokerThread
from tests.cluster.history import Read
from tests.cluster.load import DEADLINE_S, client_config, create_topic
from tests.cluster.reading import Reader, segment_files
from tests.cluster.wire import Produced, WirePeer, batch_of

from ottla.log import dump
from ottla.testing.broker_process import BrokerProcess

TOPIC = "t"
PLACE = (TOPIC, 0)
BATCHES, RECORDS = 120, 5
COUNT = BATCHES * RECORDS
FIRST_MS, STEP_MS = 1_700_000_000_000, 1_000
PRODUCER_ID = 4242
SETTINGS = {"offsets.topic.num.partitions": "1"}  # readers ask for their group's coordinator
CONFIGS = {
    "segment.bytes": "20000",
    "index.interval.bytes": "1500",
    "retention.ms": "-1",
    "message.timestamp.type": "CreateTime",
}


@cache
def value(number: int) -> bytes:
    """Return the value of record `number`; all of different lengths around 150 bytes."""
    return b"record %d " % number + random.Random(number).randbytes(100 + number % 97)


def batch(number: int) -> bytes:
    """Return batch `number` as the producer sends it."""
    first = number * RECORDS
    numbers = range(first, first + RECORDS)
    return batch_of(
        [value(each) for each in numbers],
        timestamps=[FIRST_MS + each * STEP_MS for each in numbers],
        producer_id=PRODUCER_ID,
        base_sequence=first,
    )


def build(data: Path, state: str) -> None:
    """Make the directory."""
    broker = BrokerProcess(data, settings=SETTINGS)
    broker.start()
    create_topic(broker.address, TOPIC, 1, CONFIGS)
    send(broker.address, range(BATCHES // 2))
    broker.kill()
    broker.start()
    send(broker.address, range(BATCHES // 2, BATCHES))
    if state == "stopped":
        broker.stop()
    else:
        broker.kill()
    assert len(segment_files(data, PLACE)) >= 5


def send(address: str, numbers: Iterable[int]) -> None:
    with WirePeer(address) as peer:
        for number in numbers:
            assert peer.produce(TOPIC, 0, batch(number)) == Produced(0, number * RECORDS)


class Damaged:
    """A copy of the directory for one test to do harm to, and the broker that then has to cope with it."""

    def __init__(self, original: Path, data: Path, state: str) -> None:
        shutil.copytree(original, data)
        self.data = data
        self.partition = data / f"{TOPIC}-0"
        self.state = state
        self.broker: BrokerThread | BrokerProcess = BrokerThread(data, settings=SETTINGS)

    def as_process(self) -> BrokerProcess:
        """Run the broker as a user would, from the command line, in a process that can be killed."""
        self.broker = BrokerProcess(self.data, settings=SETTINGS)
        return self.broker

    def close(self) -> None:
        """End the broker, however the test left it."""
        if isinstance(self.broker, BrokerProcess):
            self.broker.kill()
        else:
            self.broker.close()

    def files(self, kind: str) -> list[Path]:
        """Return the partition's files of a kind, oldest first."""
        return segment_files(self.data, PLACE, kind)

    @property
    def said(self) -> str:
        """Everything that the broker logged, and its error if it did not start."""
        return self.broker.stderr_path.read_text()

    def batches_of(self, log: Path) -> list[tuple[int, int, int]]:
        """Return (position, size, base offset) of every batch of a log file."""
        reports = [report for report in dump.dump(log) if isinstance(report, dump.BatchReport)]
        return [(each.position, each.header.size_bytes, each.header.base_offset) for each in reports]

    def start(self) -> str:
        """Start the broker; return its address."""
        return self.broker.start().address

    def assert_served(self, lost: Sequence[int] = ()) -> None:
        """Assert that every record but the lost ones is found: in order, by offset, and by time."""
        address = self.broker.address
        left = [number for number in range(COUNT) if number not in lost]
        expected: list[Read] = [(number, value(number)) for number in left]
        with Reader(address) as reader:
            start, end = reader.ends(PLACE)
            assert (start, end) == (0, COUNT)
            assert reader.read({PLACE: 0})[PLACE] == expected
            for at in [0, *range(7, COUNT, COUNT // 7), COUNT - 1]:
                following = next((each for each in left if each >= at), None)
                if following is not None:
                    assert reader.read_one(PLACE, at) == (following, value(following))
        self._assert_found_by_time(left)

    def _assert_found_by_time(self, left: Sequence[int]) -> None:
        consumer = Consumer(client_config(self.broker.address, {"group.id": "none"}))
        for at in [0, *range(11, COUNT, COUNT // 5), COUNT - 1]:
            asked = TopicPartition(TOPIC, 0, FIRST_MS + at * STEP_MS - STEP_MS // 2)
            (found,) = consumer.offsets_for_times([asked], DEADLINE_S)
            following = next((each for each in left if each >= at), -1)
            assert found.offset == following, f"the first record from {at} on, by time"
        consumer.close()

    def assert_producer_goes_on(self) -> None:
        """Assert that what the producer sends again is recognised, and what comes next is appended."""
        with WirePeer(self.broker.address) as peer:
            for number in range(BATCHES - 3, BATCHES):
                assert peer.produce(TOPIC, 0, batch(number)) == Produced(0, number * RECORDS)
            skipped = peer.produce(TOPIC, 0, batch(BATCHES + 1))
            assert skipped.error_code == 45  # OUT_OF_ORDER_SEQUENCE_NUMBER
            assert peer.produce(TOPIC, 0, batch(BATCHES)) == Produced(0, COUNT)

    def assert_whole(self) -> None:
        """Assert that nothing at all was lost."""
        self.assert_served()
        self.assert_producer_goes_on()


def overwrite(path: Path, at: int, data: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(at)
        file.write(data)


def flip(path: Path, at: int, bit: int = 0) -> None:
    """Turn over one bit."""
    byte = path.read_bytes()[at]
    overwrite(path, at, bytes([byte ^ (1 << bit)]))


def append(path: Path, data: bytes) -> None:
    with path.open("ab") as file:
        file.write(data)
