"""One process at a time runs a query on a checkpoint."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from threading import Event

import pytest

from ottla.spark.checkpoint_lock import CheckpointInUse, CheckpointLock, QueryLocks, local_folder

HOLDER = """
import sys
from ottla.spark.checkpoint_lock import CheckpointLock

with CheckpointLock(sys.argv[1]):
    print("locked", flush=True)
    sys.stdin.read()
"""


class Query:
    """A query that ends when it is told to."""

    def __init__(self) -> None:
        self.ended = Event()

    def awaitTermination(self) -> None:  # noqa: N802
        self.ended.wait()
        raise RuntimeError("as a failed query does")


def test_a_second_process_is_refused_and_learns_which_one_holds_the_checkpoint(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"locked\n"
        with pytest.raises(CheckpointInUse, match=f"process {holder.pid} runs a query"):
            CheckpointLock(tmp_path).acquire()
        holder.kill()
    CheckpointLock(tmp_path).acquire()  # the kernel has released the lock of the dead process


def test_a_query_holds_the_lock_until_it_ends(tmp_path: Path) -> None:
    locks, query, other = QueryLocks(), Query(), CheckpointLock(tmp_path)
    assert locks.start(tmp_path, lambda: query) is query
    with pytest.raises(CheckpointInUse):
        other.acquire()
    query.ended.set()
    other.acquire(wait_s=10)


def test_a_new_run_in_the_same_process_takes_the_lock_over(tmp_path: Path) -> None:
    locks, first, second, other = QueryLocks(), Query(), Query(), CheckpointLock(tmp_path)
    locks.start(tmp_path, lambda: first)
    locks.start(tmp_path, lambda: second)
    first.ended.set()
    with pytest.raises(CheckpointInUse):
        other.acquire()
    second.ended.set()
    other.acquire(wait_s=10)


def test_a_query_that_cannot_start_leaves_no_lock(tmp_path: Path) -> None:
    locks = QueryLocks()
    with pytest.raises(ZeroDivisionError):
        locks.start(tmp_path, lambda: 1 / 0)
    CheckpointLock(tmp_path).acquire()


@pytest.mark.parametrize(
    ("location", "folder"),
    [
        ("/data/query", "/data/query"),
        ("file:/data/query", "/data/query"),
        ("file:///data/query", "/data/query"),
        ("hdfs://name/data/query", None),
        ("s3a://bucket/query", None),
    ],
)
def test_only_local_checkpoints_are_locked(location: str, folder: str | None) -> None:
    assert local_folder(location) == (Path(folder) if folder else None)
    assert local_folder("/data/query", "hdfs://name:8020") is None
