"""Replicas are moved between log directories at the rate that is configured."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest
from tests.unit.log.bench import append, make_batch
from tests.waiting import until

from ottla.common.clock import ManualClock
from ottla.common.ids import TopicPartition, new_uuid
from ottla.log.log_config import LogConfig
from ottla.log.log_copy import LogCopy
from ottla.log.log_directories import LogDirectories
from ottla.log.log_directory import LogDirectory
from ottla.replication import directory_moves
from ottla.replication.directory_moves import DirectoryMoves
from ottla.replication.throttle import Rate
from ottla.testing.simulation.disk import SimDisk

PLACE = TopicPartition("orders", 0)
CONFIG = LogConfig(segment_bytes=10_000)


async def test_a_move_takes_no_more_than_its_rate(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("SMALL_BYTES", 1_000), ("RETRY_S", 0.001)):
        monkeypatch.setattr(directory_moves, name, value)
    clock, disk = ManualClock(), SimDisk()
    found = LogDirectories(
        [LogDirectory(each, disk, clock, node_id=1, cluster_id="c") for each in ("/a", "/b")], clock
    )
    found.open(lambda _topic: CONFIG)
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
        await until(lambda: copy.copied_bytes >= 5_000 * second)  # noqa: B023
        assert copy.copied_bytes <= 5_000 * second + 1_000
        clock.advance(1_000)
    await until(lambda: partition.log is not log)
    assert partition.log.path == "/b/orders-0"
