"""Idempotent producers are remembered as long as promised: at the bound new ones are refused."""

from __future__ import annotations

import pytest
from tests.unit.log.bench import append, idempotent, make_batch, read_values

from ottla.common.clock import ManualClock
from ottla.common.ids import TopicPartition, new_uuid
from ottla.log.directories.log_directory import LogDirectory
from ottla.log.log import Log
from ottla.log.log_config import LogConfig
from ottla.log.producers.producer_limit import LOG_INTERVAL_MS, RECOUNT_MS
from ottla.protocol.errors import KafkaStorageError
from ottla.protocol.records.batch import decode_header
from ottla.protocol.records.control import Marker
from ottla.testing.simulation.disk import SimDisk

HOUR_MS = 3_600_000


class Place:
    """A log directory with two logs."""

    def __init__(self, max_producers: int) -> None:
        self.clock = ManualClock()
        self.directory = LogDirectory("/data", SimDisk(), self.clock, node_id=1, cluster_id="c")
        self.directory.open(lambda _topic: LogConfig())
        self.directory.producer_limit.max_producers = max_producers
        self.logs = [
            self.directory.create(TopicPartition("t", index), new_uuid(), LogConfig()) for index in (0, 1)
        ]

    def send(self, producer_id: int, sequence: int = 0, log: Log | None = None) -> bool:
        """Return whether a batch was accepted, or was there already."""
        batch = idempotent("v", sequence=sequence, producer_id=producer_id, timestamp=self.clock.now_ms)
        try:
            append(log or self.logs[producer_id % 2], batch)
        except KafkaStorageError:
            return False
        return True


def test_a_retry_is_recognised_however_many_producers_came_after_it() -> None:
    place = Place(1_000_000)
    log = place.logs[0]
    count = 10_100
    for producer_id in range(count):
        append(log, idempotent("v", sequence=0, producer_id=producer_id))
    assert append(log, idempotent("v", sequence=0, producer_id=0)).is_duplicate
    assert log.log_end_offset == len(log.producers) == count


def test_at_the_bound_new_producers_are_refused_and_known_ones_continue() -> None:
    place = Place(10)
    assert [place.send(each) for each in range(14)] == [True] * 10 + [False] * 4
    assert all(place.send(each, sequence) for each in range(10) for sequence in (0, 1))
    assert sum(len(read_values(log)) for log in place.logs) == 20
    assert place.send(3, log=place.logs[0]) is False, "every partition counts"


def test_there_is_room_again_when_others_have_expired_or_their_log_is_gone() -> None:
    place = Place(10)
    for producer_id in range(10):
        place.send(producer_id)
    place.clock.advance(HOUR_MS)
    assert place.send(1, sequence=1)
    assert not place.send(100)
    for log in place.logs:
        log.expire_producers(place.clock.now_ms, HOUR_MS)
    assert not place.send(100), "logs are not counted all the time"
    place.clock.advance(RECOUNT_MS)
    assert sum(place.send(producer_id) for producer_id in range(100, 120)) == 9
    place.directory.delete(place.logs[1].topic_partition)
    place.clock.advance(RECOUNT_MS)
    assert place.send(200)


def test_what_followers_copy_and_coordinators_write_is_never_refused() -> None:
    place, full = Place(10), Place(1)
    place.send(0)
    place.send(2)
    copied = place.logs[0].read(0, 1 << 20, 2).records
    data = copied if isinstance(copied, bytes) else copied.read()
    full.logs[0].append_as_follower(memoryview(data))
    assert len(full.logs[0].producers) == 2
    assert not full.send(4)
    full.logs[0].append_marker(Marker(9, 0, True, 0), 0, full.clock.now_ms)
    offsets = make_batch("v", producer_id=11, producer_epoch=0)
    full.logs[0].append(offsets, decode_header(offsets), 0, full.clock.now_ms, True)
    assert {9, 11} <= full.logs[0].producers.producers.keys()


def test_refusals_are_logged_once_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    place = Place(1)
    for producer_id in range(20):
        place.send(producer_id)
    assert caplog.text.count("ottla.producer.ids.max is 1") == 1
    place.clock.advance(LOG_INTERVAL_MS)
    place.send(30)
    assert caplog.text.count("ottla.producer.ids.max is 1") == 2
    assert "(20 batches rejected so far)" in caplog.text
