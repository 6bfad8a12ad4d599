"""Replicas are moved between log directories at the rate that is configured."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any, cast

import pytest
from tests.unit.log.bench import append, make_batch
from tests.waiting import until

from ottla.common.clock import ManualClock
from ottla.common.ids import TopicPartition, new_uuid
from ottla.log.directories import log_copy
from ottla.log.directories.log_copy import SMALL_SEGMENTS, LogCopy, SegmentPart
from ottla.log.directories.log_directories import LogDirectories
from ottla.log.directories.log_directory import LogDirectory
from ottla.log.log_config import LogConfig
from ottla.replication import directory_moves
from ottla.replication.directory_moves import DirectoryMoves
from ottla.replication.throttle import Rate
from ottla.testing.simulation.disk import SimDisk

PLACE = TopicPartition("orders", 0)
CONFIG = LogConfig(segment_bytes=10_000)


def two_directories(clock: ManualClock) -> LogDirectories:
    disk = SimDisk()
    found = LogDirectories(
        [LogDirectory(each, disk, clock, node_id=1, cluster_id="c") for each in ("/a", "/b")], clock
    )
    found.open(lambda _topic: CONFIG)
    return found


async def test_a_move_takes_no_more_than_its_rate(monkeypatch: pytest.MonkeyPatch) -> None:
    for module, name, value in (
        (directory_moves, "SMALL_BYTES", 1_000),
        (log_copy, "SMALL_BYTES", 1_000),
        (directory_moves, "RETRY_S", 0.001),
    ):
        monkeypatch.setattr(module, name, value)
    clock = ManualClock()
    found = two_directories(clock)
    log = found.create(PLACE, new_uuid(), CONFIG)
    for _ in range(30):
        append(log, make_batch("x" * 900))
    partition: Any = SimpleNamespace(topic_partition=PLACE, log=log)
    moves = DirectoryMoves(
        found, cast(Any, None), lambda _: False, lambda _: None, Rate(lambda: 5_000, clock)
    )
    moves.move(partition, "/b")
    copy = cast(LogCopy, moves.copies_in(found.directories[1])[0])
    for second in range(1, 6):  # of which the first second's bytes may be sent at once
        # Bytes are counted after they are copied: in this second, too.
        await until(lambda: copy.copied_bytes >= 5_000 * second and moves.rate.is_exhausted)  # noqa: B023
        assert copy.copied_bytes <= 5_000 * second + 1_000
        clock.advance(1_000)
    await until(lambda: partition.log is not log)
    assert partition.log.path == "/b/orders-0"


async def test_many_small_segments_are_not_copied_on_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = ManualClock()
    found = two_directories(clock)
    log = found.create(PLACE, new_uuid(), LogConfig(segment_bytes=150))
    for _ in range(120):
        append(log, make_batch("x" * 50))
    on_loop: list[SegmentPart] = []
    copy_pieces = LogCopy.copy

    def copy(self: LogCopy, pieces: Iterable[SegmentPart]) -> None:
        if threading.current_thread() is threading.main_thread():
            on_loop.extend(pieces)
        copy_pieces(self, pieces)

    monkeypatch.setattr(LogCopy, "copy", copy)
    partition: Any = SimpleNamespace(topic_partition=PLACE, log=log)
    moves = DirectoryMoves(
        found, cast(Any, None), lambda _: False, lambda _: None, Rate(lambda: 1 << 40, clock)
    )
    moves.move(partition, "/b")
    await until(lambda: partition.log is not log)
    assert len(partition.log.segments) == 120
    assert len(on_loop) <= SMALL_SEGMENTS
