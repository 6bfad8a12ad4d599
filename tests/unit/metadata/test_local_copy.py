"""The copy of the metadata beside the logs of a broker."""

import asyncio
import stat
import threading
from pathlib import Path

import pytest

from ottla.common.clock import SystemClock
from ottla.log.disk import RealDisk
from ottla.metadata import local_copy
from ottla.metadata.history import Term
from ottla.metadata.image import EMPTY, ClusterImage
from ottla.metadata.local_copy import COPY_FILE, MetadataCopy, read_copy
from ottla.metadata.records import ClusterCreated, ProducerIdsAllocated

FIRST = EMPTY.apply([ClusterCreated("c")])


def changed(image: ClusterImage, number: int) -> ClusterImage:
    return image.apply([ProducerIdsAllocated(number)])


async def test_the_newest_image_is_written_when_the_broker_stops(tmp_path: Path) -> None:
    copy = MetadataCopy(RealDisk(), tmp_path, SystemClock(), lambda version: Term(version - 1, "id"))
    copy.start()
    copy.note(EMPTY, FIRST)
    copy.note(FIRST, newest := changed(FIRST, 5))
    await copy.stop()
    found = read_copy(RealDisk(), tmp_path)
    assert found is not None
    assert found.image == newest
    assert found.term == Term(newest.version - 1, "id")
    assert stat.S_IMODE((tmp_path / COPY_FILE).stat().st_mode) == 0o600


async def test_a_change_is_written_while_the_broker_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local_copy, "DELAY_S", 0.0)
    written = asyncio.Event()
    replace = MetadataCopy._replace
    loop = asyncio.get_running_loop()

    def told(copy: MetadataCopy, backup: local_copy.Backup) -> None:
        replace(copy, backup)
        loop.call_soon_threadsafe(written.set)

    monkeypatch.setattr(MetadataCopy, "_replace", told)
    copy = MetadataCopy(RealDisk(), tmp_path, SystemClock())
    copy.start()
    copy.note(EMPTY, FIRST)
    async with asyncio.timeout(10):
        await written.wait()
    found = read_copy(RealDisk(), tmp_path)
    assert found is not None
    assert found.image.version == FIRST.version
    await copy.stop()


async def test_a_stop_waits_for_the_write_in_progress(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(local_copy, "DELAY_S", 0.0)
    loop = asyncio.get_running_loop()
    has_begun, may_end = asyncio.Event(), threading.Event()
    writing: list[int] = []
    replace = MetadataCopy._replace

    def slow(copy: MetadataCopy, backup: local_copy.Backup) -> None:
        writing.append(backup.image.version)
        assert len(writing) == 1, "two writes at once"
        loop.call_soon_threadsafe(has_begun.set)
        may_end.wait(10)
        replace(copy, backup)
        writing.clear()

    monkeypatch.setattr(MetadataCopy, "_replace", slow)
    copy = MetadataCopy(RealDisk(), tmp_path, SystemClock())
    copy.start()
    copy.note(EMPTY, FIRST)
    async with asyncio.timeout(10):
        await has_begun.wait()
        copy.note(FIRST, newest := changed(FIRST, 5))
        loop.call_later(0.05, may_end.set)
        await copy.stop()
    found = read_copy(RealDisk(), tmp_path)
    assert found is not None
    assert found.image == newest
    assert not caplog.records


async def test_a_disk_that_takes_nothing_does_not_stop_the_broker(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    copy = MetadataCopy(RealDisk(), tmp_path / "missing", SystemClock())
    copy.start()
    copy.note(EMPTY, FIRST)
    await copy.stop()
    assert "cannot be written" in caplog.text


def test_a_damaged_copy_is_none(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    assert read_copy(RealDisk(), tmp_path) is None
    (tmp_path / COPY_FILE).write_bytes(b"{}\n")
    assert read_copy(RealDisk(), tmp_path) is None
    assert "cannot be used" in caplog.text
