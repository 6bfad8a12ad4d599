from __future__ import annotations

import gc
import os
import resource
from pathlib import Path

import pytest

from ottla.common.file_range import FileRange
from ottla.log.disk import RealDisk
from ottla.log.file_pool import FilePool, PooledFile, open_file_limit


def open_descriptors(folder: Path) -> int:
    links = (f"/proc/self/fd/{name}" for name in os.listdir("/proc/self/fd"))
    return sum(os.readlink(link).startswith(str(folder)) for link in links if os.path.lexists(link))


def make(pool: FilePool, folder: Path, count: int) -> list[PooledFile]:
    files = [PooledFile(pool, str(folder / str(number))) for number in range(count)]
    for number, file in enumerate(files):
        file.create().write_at(0, str(number).encode())
    return files


def test_no_more_files_are_open_than_allowed_and_all_can_be_used(tmp_path: Path) -> None:
    pool = FilePool(RealDisk(), 10)
    files = make(pool, tmp_path, 50)
    for _ in range(3):
        for number, file in enumerate(files):
            assert file.open().read_at(0, 10) == str(number).encode()
            assert open_descriptors(tmp_path) <= 10
    assert len(pool) == 10


def test_files_in_use_stay_open_and_idle_ones_are_closed(tmp_path: Path) -> None:
    pool = FilePool(RealDisk(), 10)
    files = make(pool, tmp_path, 30)
    busy = files[0].open()
    for file in files[1:]:
        assert files[0].open() is busy
        file.open()


def test_a_descriptor_lives_as_long_as_somebody_reads_from_it(tmp_path: Path) -> None:
    pool = FilePool(RealDisk(), 1)
    first, *_ = make(pool, tmp_path, 2)
    reading = FileRange(first.open(), 0, 1)
    first.close()
    os.unlink(tmp_path / "0")
    assert reading.read() == b"0"
    del reading
    gc.collect()
    assert open_descriptors(tmp_path) == 0


def test_a_closed_file_opens_again(tmp_path: Path) -> None:
    pool = FilePool(RealDisk())
    (file,) = make(pool, tmp_path, 1)
    file.close()
    assert len(pool) == 0
    assert file.open().read_at(0, 1) == b"0"
    with pytest.raises(FileNotFoundError):
        PooledFile(pool, str(tmp_path / "none")).open()


@pytest.mark.parametrize(
    ("limit", "files"), [(256, 64), (1024, 256), (65_536, 1000), (resource.RLIM_INFINITY, 1000), (1, 1)]
)
def test_a_quarter_of_the_descriptors_is_for_files(
    limit: int, files: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _kind: (limit, limit))
    assert open_file_limit() == files
