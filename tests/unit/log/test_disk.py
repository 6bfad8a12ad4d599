"""The real disk and the simulated one are held to the same behaviour."""

from __future__ import annotations

import os
import resource
import signal
from pathlib import Path
from random import Random

import pytest

from ottla.log.disk import DirEntry, Disk, RealDisk
from ottla.testing.simulation.disk import SimDisk


@pytest.fixture(params=["real", "simulated"])
def disk_and_root(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Disk, str]:
    disk: Disk = RealDisk() if request.param == "real" else SimDisk()
    root = str(tmp_path / "root")
    disk.make_dir(root)
    disk.make_dir(root)
    return disk, root


def test_files_are_written_and_read_at_positions(disk_and_root: tuple[Disk, str]) -> None:
    disk, root = disk_and_root
    with pytest.raises(FileNotFoundError):
        disk.open(f"{root}/a")
    file = disk.open(f"{root}/a", create=True)
    file.write_at(0, b"hello world")
    file.write_at(6, memoryview(b"there"))
    assert file.read_at(0, 100) == b"hello there"
    assert file.read_at(6, 2) == b"th"
    assert file.read_at(50, 2) == b""
    file.truncate(5)
    file.fsync()
    assert (file.size(), disk.read_file(f"{root}/a")) == (5, b"hello")
    reader = disk.open_read(f"{root}/a")
    assert reader.read_at(0, 9) == b"hello"
    with pytest.raises(OSError):
        reader.write_at(0, b"x")
    assert file.modified_ms() >= 0


def test_directories_list_rename_and_remove(disk_and_root: tuple[Disk, str]) -> None:
    disk, root = disk_and_root
    disk.write_file(f"{root}/a", b"12345", sync=True)
    disk.write_file(f"{root}/a", b"123", sync=False)
    disk.make_dir(f"{root}/sub")
    assert sorted(disk.list_dir(root)) == [DirEntry("a", False, 3), DirEntry("sub", True, 0)]
    disk.write_file(f"{root}/b", b"old", sync=False)
    disk.rename(f"{root}/a", f"{root}/b")
    assert not disk.exists(f"{root}/a")
    assert disk.read_file(f"{root}/b") == b"123"
    with pytest.raises(FileNotFoundError):
        disk.rename(f"{root}/a", f"{root}/c")
    disk.rename(f"{root}/sub", f"{root}/sub2")
    disk.write_file(f"{root}/sub2/x", b"", sync=False)
    with pytest.raises(OSError):
        disk.remove_dir(f"{root}/sub2")
    disk.remove(f"{root}/sub2/x")
    disk.remove(f"{root}/sub2/x")
    disk.remove_dir(f"{root}/sub2")
    disk.remove_dir(f"{root}/sub2")
    disk.fsync_dir(root)
    disk.sync_all(root)
    assert [entry.name for entry in disk.list_dir(root)] == ["b"]


def test_an_open_file_outlives_its_name(disk_and_root: tuple[Disk, str]) -> None:
    disk, root = disk_and_root
    file = disk.open(f"{root}/a", create=True)
    file.write_at(0, b"still here")
    disk.remove(f"{root}/a")
    assert file.read_at(0, 5) == b"still"


def test_a_lock_is_held_once(disk_and_root: tuple[Disk, str]) -> None:
    disk, root = disk_and_root
    release = disk.lock(f"{root}/.lock")
    assert release is not None
    assert disk.lock(f"{root}/.lock") is None
    release()
    assert disk.lock(f"{root}/.lock") is not None


def test_a_real_write_that_comes_up_short_is_an_error(tmp_path: Path) -> None:
    """RLIMIT_FSIZE is a full disk for one process: first a short write, then EFBIG."""
    file = RealDisk().open(str(tmp_path / "a"), create=True)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, hard))
        with pytest.raises(OSError, match="too large"):
            file.write_at(0, bytes(1500))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, handler)
    assert file.size() == 1000


def test_descriptors_are_not_inherited(tmp_path: Path) -> None:
    file = RealDisk().open(str(tmp_path / "a"), create=True)
    assert not os.get_inheritable(file.fileno())


def crashed(seed: int) -> SimDisk:
    disk = SimDisk()
    disk.make_dir("/d")
    disk.fsync_dir("/")
    file = disk.open("/d/kept", create=True)
    file.write_at(0, b"A" * 10_000)
    file.fsync()
    disk.fsync_dir("/d")
    file.write_at(10_000, b"B" * 10_000)
    disk.write_file("/d/unnamed", b"x", sync=True)
    disk.rename("/d/kept", "/d/renamed")
    disk.crash(Random(seed))
    return disk


def test_a_power_failure_keeps_what_was_synced_and_loses_or_tears_the_rest() -> None:
    outcomes = set()
    for seed in range(60):
        disk = crashed(seed)
        names = {entry.name for entry in disk.list_dir("/d")}
        assert names in ({"kept"}, {"kept", "unnamed"}, {"renamed", "unnamed"})
        data = bytes(disk.contents("/d/kept" if "kept" in names else "/d/renamed"))
        assert data[:8192] == b"A" * 8192
        assert len(data) >= 10_000
        outcomes.add((frozenset(names), len(data), b"\0" in data))
    assert len({names for names, _, _ in outcomes}) == 3
    assert len({size for _, size, _ in outcomes}) > 5
    assert {torn for _, _, torn in outcomes} == {True, False}


def test_the_same_seed_gives_the_same_power_failure() -> None:
    for seed in range(10):
        first, second = crashed(seed), crashed(seed)
        for entry in first.list_dir("/d"):
            assert first.contents(f"/d/{entry.name}") == second.contents(f"/d/{entry.name}")
        assert first.list_dir("/d") == second.list_dir("/d")


def test_files_opened_before_a_crash_cannot_be_used_after_it() -> None:
    disk = SimDisk()
    file = disk.open("/a", create=True)
    assert disk.lock("/lock") is not None
    disk.kill()
    with pytest.raises(OSError, match="before the last crash"):
        file.write_at(0, b"late")
    assert disk.lock("/lock") is not None
    assert disk.exists("/a")
