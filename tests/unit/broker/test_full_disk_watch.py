"""When a broker steps aside for want of room, and when it comes back."""

from __future__ import annotations

import asyncio
import errno

import pytest

from ottla.broker import full_disk
from ottla.broker.full_disk import PROBE, ROOM_BYTES, FullDisk
from ottla.log.storage import Storage
from ottla.testing.simulation.disk import SimDisk
from ottla.testing.simulation.loop import SimLoop

PATH = "/data"


class Watched:
    """A disk, its watcher, and what that asked for."""

    def __init__(self) -> None:
        self.disk = SimDisk()
        self.disk.make_dir(PATH)
        self.asked: list[bool] = []
        self.storage = Storage(self.disk, PATH)
        self.watch = FullDisk(self.disk, self.storage, self._publish)
        self.storage.on_disk_full = self.watch.notice

    def fail(self) -> None:
        """Let an append find no space."""
        self.storage.append_failed("appending", OSError(errno.ENOSPC, "full"))

    async def _publish(self) -> None:
        self.asked.append(self.storage.is_full)


def test_a_broker_stands_aside_until_there_is_room() -> None:
    scene = Watched()

    async def main() -> None:
        await scene.watch.start()
        await asyncio.sleep(5)
        assert scene.asked == []
        scene.disk.capacity_bytes = ROOM_BYTES - 1
        scene.fail()
        await asyncio.sleep(5)
        assert scene.asked[0]
        assert False not in scene.asked
        scene.disk.capacity_bytes = ROOM_BYTES
        await asyncio.sleep(full_disk.PROBE_EVERY_S + 1)
        assert scene.asked[-1] is False
        assert not scene.disk.exists(f"{PATH}/{PROBE}")
        await scene.watch.stop()

    SimLoop(1).run(main())


def test_a_disk_that_is_full_again_is_noticed_again() -> None:
    scene = Watched()

    async def main() -> None:
        await scene.watch.start()
        for _ in range(2):
            scene.fail()
            await asyncio.sleep(1)
        assert scene.asked == [True, False, True, False]
        await scene.watch.stop()

    SimLoop(1).run(main())


def test_what_a_killed_process_left_is_cleared_up() -> None:
    scene = Watched()
    scene.disk.write_file(f"{PATH}/{PROBE}", b"0", sync=False)

    async def main() -> None:
        await scene.watch.start()
        await scene.watch.stop()

    SimLoop(1).run(main())
    assert scene.disk.list_dir(PATH) == []


def test_a_directory_that_fails_while_it_is_full_is_not_written_any_more() -> None:
    scene = Watched()

    async def main() -> None:
        await scene.watch.start()
        scene.disk.capacity_bytes = 0
        scene.fail()
        await asyncio.sleep(2)
        scene.storage.take_offline("writing: Input/output error")
        await asyncio.sleep(1)
        scene.disk.heal()
        await asyncio.sleep(3)
        assert False not in scene.asked
        await scene.watch.stop()

    SimLoop(1).run(main())


@pytest.mark.parametrize(
    ("code", "is_full"),
    [(errno.ENOSPC, True), (errno.EDQUOT, True), (errno.EMFILE, False), (errno.EIO, False)],
)
def test_only_want_of_room_counts_as_a_full_disk(code: int, is_full: bool) -> None:
    noticed: list[bool] = []
    storage = Storage(SimDisk(), PATH)
    storage.on_disk_full = lambda: noticed.append(True)
    storage.append_failed("appending", OSError(code, "no"))
    assert bool(noticed) is is_full
    assert (storage.offline_reason is not None) is (code == errno.EIO)
