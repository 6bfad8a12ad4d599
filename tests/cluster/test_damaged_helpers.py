"""Harm done to everything that is not the log itself: indexes, snapshots, epochs, checkpoints.

All of it can be made anew from the log, so nothing may be lost, whatever is done to it.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.cluster.damage import COUNT, PLACE, TOPIC, Damaged, append, flip
from tests.cluster.reading import problems_with_helpers

Harm = Callable[[Path], None]


def half_an_entry(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-3])


def garbage(path: Path) -> None:
    path.write_bytes(random.Random(3).randbytes(max(path.stat().st_size, 24) // 24 * 24))


def zeros(path: Path) -> None:
    path.write_bytes(bytes(max(path.stat().st_size, 24)))


def flipped(path: Path) -> None:
    size = path.stat().st_size
    if size:
        flip(path, size // 2, bit=6)


def flipped_at_the_end(path: Path) -> None:
    size = path.stat().st_size
    if size:
        flip(path, size - 2, bit=3)


def emptied(path: Path) -> None:
    path.write_bytes(b"")


def missing(path: Path) -> None:
    path.unlink()


def cut_in_half(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 24 // 2 * 24])


def name_of(harm: Harm) -> str:
    return harm.__name__.replace("_", "-")


HARMS = [half_an_entry, garbage, zeros, flipped, flipped_at_the_end, emptied, missing, cut_in_half]
harmed = pytest.mark.parametrize("harm", HARMS, ids=name_of)


@harmed
@pytest.mark.parametrize("kind", [".index", ".timeindex"])
def test_indexes_are_rebuilt(damaged: Damaged, kind: str, harm: Harm) -> None:
    for path in damaged.files(kind):
        harm(path)
    damaged.start()
    damaged.assert_whole()
    damaged.broker.stop()
    if damaged.state == "killed":  # after a clean stop, only what a lookup finds to be wrong is rebuilt
        assert problems_with_helpers(damaged.data, PLACE) == []
    assert "Traceback" not in damaged.said


@pytest.mark.parametrize("kind", [".index", ".timeindex"])
def test_an_index_of_another_segment_is_found_out(damaged: Damaged, kind: str) -> None:
    files = damaged.files(kind)
    contents = [path.read_bytes() for path in files]
    for path, other in zip(files, contents[1:] + contents[:1], strict=True):
        path.write_bytes(other)
    damaged.start()
    damaged.assert_whole()


def test_a_missing_index_is_named(damaged: Damaged) -> None:
    gone = damaged.files(".index")[1]
    gone.unlink()
    damaged.start()
    assert f"{gone.name} is missing" in damaged.said
    assert gone.exists()
    damaged.assert_whole()


@pytest.mark.parametrize("harm", [garbage, flipped, half_an_entry, emptied, missing], ids=name_of)
def test_producers_are_known_again_without_their_snapshots(damaged: Damaged, harm: Harm) -> None:
    for path in damaged.files(".snapshot"):
        harm(path)
    damaged.start()
    damaged.assert_whole()
    if harm in (garbage, flipped) and damaged.state == "stopped":
        assert str(damaged.files(".snapshot.corrupt")[-1]) in damaged.said
    damaged.broker.restart()
    assert "Traceback" not in damaged.said


@pytest.mark.parametrize("harm", [garbage, flipped, emptied, missing], ids=name_of)
def test_leader_epochs_are_known_again_without_their_checkpoint(damaged: Damaged, harm: Harm) -> None:
    path = damaged.partition / "leader-epoch-checkpoint"
    path.touch()
    harm(path)
    damaged.start()
    damaged.assert_whole()
    damaged.broker.restart()
    assert "Traceback" not in damaged.said


LOG_STARTS = "log-start-offset-checkpoint"
CHECKPOINTS = [
    "recovery-point-offset-checkpoint",
    LOG_STARTS,
    "replication-offset-checkpoint",
    "cleaner-offset-checkpoint",
]


@pytest.mark.parametrize("harm", [garbage, zeros, half_an_entry, emptied, missing], ids=name_of)
def test_checkpoints_that_cannot_be_read_only_mean_more_work(damaged: Damaged, harm: Harm) -> None:
    paths = [damaged.data / name for name in CHECKPOINTS]
    for path in paths:
        path.write_text(f"0\n1\n{TOPIC} 0 0\n")
        harm(path)
    damaged.start()
    damaged.assert_whole()
    for path in paths if harm is garbage else []:
        assert str(path) in damaged.said
        assert path.with_name(path.name + ".corrupt").exists()


@pytest.mark.parametrize("offset", [COUNT + 3, 2**63 - 1, 2**70])
def test_checkpoints_that_point_beyond_the_end_are_not_believed(damaged: Damaged, offset: int) -> None:
    """One flipped bit turns 1 into 9, and no checksum tells."""
    for name in CHECKPOINTS:
        if name != LOG_STARTS:
            (damaged.data / name).write_text(f"0\n1\n{TOPIC} 0 {offset}\n")
    damaged.start()
    damaged.assert_whole()


@pytest.mark.parametrize("offset", [COUNT + 3, 2**63 - 1, 2**70])
def test_a_log_start_beyond_the_end_destroys_nothing(damaged: Damaged, offset: int) -> None:
    """Records may have been deleted up to there, and a power failure taken the rest; or a bit was flipped."""
    (damaged.data / LOG_STARTS).write_text(f"0\n1\n{TOPIC} 0 {offset}\n")
    before = {path.read_bytes() for path in damaged.files(".log")}
    damaged.start()
    kept = {path.read_bytes() for path in damaged.data.rglob("*") if path.is_file()}
    assert before <= kept, "log files are gone, or changed"
    assert LOG_STARTS in damaged.said


@pytest.mark.parametrize("offset", [7, 250, COUNT - 2, COUNT])
def test_a_recovery_point_that_is_too_late_does_not_make_a_torn_tail_a_record(
    killed: Damaged, offset: int
) -> None:
    (killed.data / "recovery-point-offset-checkpoint").write_text(f"0\n1\n{TOPIC} 0 {offset}\n")
    append(killed.files(".log")[-1], b"\0\0\0\0\0\0\x02\x58torn")
    killed.start()
    killed.assert_whole()


def test_the_lock_file_holds_nothing_that_matters(stopped: Damaged) -> None:
    garbage(stopped.data / ".lock")
    stopped.start()
    stopped.assert_whole()


@pytest.mark.parametrize("harm", [garbage, zeros, emptied, missing], ids=name_of)
def test_records_are_served_without_the_topic_id_beside_them(damaged: Damaged, harm: Harm) -> None:
    harm(damaged.partition / "partition.metadata")
    damaged.start()
    damaged.assert_whole()
