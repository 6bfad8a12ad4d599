"""What is wrong with the files of replicas is found, whichever of them it is in."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ottla.common.clock import ManualClock
from ottla.common.ids import TopicPartition
from ottla.log.directories.log_directory import LogDirectory
from ottla.log.file_names import EPOCH_CHECKPOINT
from ottla.log.log_config import LogConfig
from ottla.protocol.records.batch import decode_header
from ottla.protocol.records.records import Record, encode_batch
from ottla.testing.replica_check import check_replicas, read_replica
from ottla.testing.simulation.disk import SimDisk

HERE = TopicPartition("t", 0)
FOLDER = f"/data/{HERE}"
LOG = f"{FOLDER}/{0:020d}.log"
SNAPSHOT = f"{FOLDER}/{6:020d}.snapshot"


def new_replica() -> SimDisk:
    """Six records in two leader epochs, of one idempotent producer; stopped cleanly."""
    disk = SimDisk()
    directory = LogDirectory("/data", disk, ManualClock(), node_id=1, cluster_id="c")
    directory.open(lambda _topic: LogConfig())
    log = directory.create(HERE, None, LogConfig())
    for number in range(6):
        batch = encode_batch(
            [Record(0, 1, None, f"v{number}".encode())], producer_id=7, producer_epoch=0, base_sequence=number
        )
        log.append(memoryview(batch), decode_header(batch), number // 3, 1)
    assert directory.close()
    return disk


def verdict(*disks: SimDisk) -> set[str]:
    replicas = [read_replica(disk, FOLDER, f"b{number}") for number, disk in enumerate(disks)]
    return {each.name for each in check_replicas(HERE, replicas)}


def test_replicas_that_are_the_same_are_fine_and_can_be_read() -> None:
    disk = new_replica()
    assert verdict(disk, new_replica()) == set()
    records = read_replica(disk, FOLDER, "b").records()
    assert records == [(number, f"v{number}".encode()) for number in range(6)]


def lose_the_end(disk: SimDisk) -> None:
    contents = disk.contents(LOG)
    del contents[len(contents) * 5 // 6 :]


def flip_a_bit(disk: SimDisk) -> None:
    disk.contents(LOG)[-1] ^= 1


def leave_half_a_batch(disk: SimDisk) -> None:
    disk.contents(LOG).extend(b"half")


def write_another_epoch(disk: SimDisk) -> None:
    disk.contents(LOG)[15] ^= 2  # of the first batch; not under its checksum


def forget_an_epoch(disk: SimDisk) -> None:
    disk.write_file(f"{FOLDER}/{EPOCH_CHECKPOINT}", b"0\n1\n0 0\n", sync=True)


def damage_the_snapshot(disk: SimDisk) -> None:
    disk.contents(SNAPSHOT)[-1] ^= 1


PLANTED: list[tuple[str, Callable[[SimDisk], None]]] = [
    ("replicas-differ", lose_the_end),
    ("damaged-log", flip_a_bit),
    ("damaged-log", leave_half_a_batch),
    ("damaged-log", write_another_epoch),
    ("wrong-epochs", forget_an_epoch),
    ("wrong-producers", damage_the_snapshot),
]


@pytest.mark.parametrize(("name", "plant"), PLANTED, ids=[plant.__name__ for _, plant in PLANTED])
def test_a_planted_difference_is_found(name: str, plant: Callable[[SimDisk], None]) -> None:
    disk = new_replica()
    plant(disk)
    assert name in verdict(disk, new_replica())
    assert name in verdict(new_replica(), disk)
