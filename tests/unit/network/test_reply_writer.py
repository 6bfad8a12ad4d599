"""The reply writer by itself, on a transport that takes whatever it is given."""

from __future__ import annotations

import asyncio
import errno
import os
import socket
from collections.abc import Callable
from typing import Any

import pytest
from tests.unit.network.harness import DiskFile, MemoryFile

from ottla.common.file_range import FileRange
from ottla.network.limits import NetworkStats
from ottla.network.reply_writer import GATHER_BYTES, MAX_BYTES_PER_ITERATION, ReplyWriter

MIB = 1 << 20
FILES = pytest.mark.parametrize("kind", [DiskFile, MemoryFile])


class GreedyTransport(asyncio.Transport):
    """Keeps what it is given; has a socket only if it gets one, and TLS if told so."""

    def __init__(self, **extra: Any) -> None:
        super().__init__(extra)
        self.written = bytearray()
        self.writes = 0

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written += data
        self.writes += 1

    def get_write_buffer_size(self) -> int:
        return 0

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        assert high == 0


class Owner:
    """Notes what the writer tells its connection."""

    def __init__(self, transport: GreedyTransport) -> None:
        self.drained = 0
        self.broken: list[str] = []
        self.stats = NetworkStats()
        self.writer = ReplyWriter(transport, self.stats, self._drain, self.broken.append)

    def _drain(self) -> None:
        self.drained += 1


async def test_a_large_file_leaves_turns_to_the_rest_of_the_loop() -> None:
    transport = GreedyTransport()
    owner = Owner(transport)
    file = MemoryFile(3 * MIB)
    owner.writer.send([b"before", [b"head", FileRange(file, 0, 3 * MIB), b"tail"], b"after"])
    assert owner.writer.busy
    turns = 0
    while owner.writer.busy:
        assert len(transport.written) <= (turns + 1) * MAX_BYTES_PER_ITERATION + 20
        await asyncio.sleep(0)
        turns += 1
    assert turns >= 2
    assert transport.written == b"beforehead" + file.content + b"tailafter"
    assert owner.drained == 1
    assert owner.stats.bytes_out == len(transport.written)


async def test_what_is_sent_at_once_needs_no_telling() -> None:
    transport = GreedyTransport()
    owner = Owner(transport)
    owner.writer.send([b"one", b"two"])
    owner.writer.send([[b"three", memoryview(b"four")]])
    assert not owner.writer.busy
    assert owner.drained == 0
    assert transport.written == b"onetwothreefour"


async def test_a_blocked_writer_keeps_everything_in_order() -> None:
    transport = GreedyTransport()
    owner = Owner(transport)
    owner.writer.pause()
    owner.writer.send([b"a"])
    owner.writer.send([[b"b", FileRange(MemoryFile(10), 0, 0), b"c"], b"d"])
    assert not transport.written
    owner.writer.resume()
    assert transport.written == b"abcd"
    assert owner.drained == 1
    assert not owner.writer.busy


async def test_the_descriptor_stays_the_transports_own() -> None:
    ours, peer = socket.socketpair()
    file = DiskFile(GATHER_BYTES)
    owner = Owner(GreedyTransport(socket=ours))
    owner.writer.send([[b"head", FileRange(file, 0, GATHER_BYTES)]])
    assert peer.recv(2 * GATHER_BYTES, socket.MSG_WAITALL | socket.MSG_DONTWAIT) == b"head" + file.content
    assert file.reads == 0
    owner.writer.close()
    assert os.fstat(ours.fileno()), "still open"
    ours.close()
    peer.close()


@FILES
async def test_a_small_reply_leaves_in_one_piece(kind: Callable[[int], DiskFile]) -> None:
    transport = GreedyTransport()
    owner = Owner(transport)
    file = kind(1000)
    owner.writer.send([[b"head", FileRange(file, 10, 100), memoryview(b"more"), FileRange(file, 500, 200)]])
    assert transport.written == b"head" + file.content[10:110] + b"more" + file.content[500:700]
    assert (transport.writes, file.reads) == (1, 2)
    assert owner.writer.accepted == owner.stats.bytes_out == len(transport.written)


async def test_what_is_gathered_ends_before_it_is_large() -> None:
    transport = GreedyTransport()
    owner = Owner(transport)
    file = MemoryFile(GATHER_BYTES)
    rest = GATHER_BYTES - len("head")
    for size, writes in ((rest, 1), (rest + 1, 2)):
        transport.writes, transport.written = 0, bytearray()
        owner.writer.send([[b"head", FileRange(file, 0, size)]])
        assert transport.written == b"head" + file.content[:size]
        assert transport.writes == writes
        assert not owner.writer.busy


@FILES
@pytest.mark.parametrize("size", [100, GATHER_BYTES])
async def test_of_a_file_that_became_shorter_the_rest_is_missed(
    kind: Callable[[int], DiskFile], size: int
) -> None:
    transport = GreedyTransport()
    owner = Owner(transport)
    file = kind(60)
    owner.writer.send([[b"head", FileRange(file, 0, size), b"tail"], b"next"])
    assert transport.written == b"head" + file.content
    assert owner.broken == [
        f"closed: cannot read the log file being sent: the file ends at 60, {size - 60} bytes too early"
    ]
    assert owner.stats.bytes_out == len(transport.written)


async def test_a_disk_that_cannot_be_read_ends_the_connection() -> None:
    class BrokenFile(MemoryFile):
        def read_at(self, position: int, size: int) -> bytes:
            raise OSError(errno.EIO, "broken")

    transport = GreedyTransport()
    owner = Owner(transport)
    owner.writer.send([[b"head", FileRange(MemoryFile(10), 0, 10), FileRange(BrokenFile(10), 0, 10)]])
    assert owner.broken == ["closed: cannot read the log file being sent: [Errno 5] broken"]
    assert not transport.written


async def test_over_tls_files_go_through_the_transport() -> None:
    ours, peer = socket.socketpair()
    file = DiskFile(1000)
    transport = GreedyTransport(socket=ours, sslcontext=object())
    owner = Owner(transport)
    owner.writer.send([[b"head", FileRange(file, 0, 1000)]])
    assert transport.written == b"head" + file.content
    ours.close()
    peer.close()


async def test_a_closed_writer_sends_nothing_more() -> None:
    transport = GreedyTransport()
    owner = Owner(transport)
    owner.writer.send([[FileRange(MemoryFile(3 * MIB), 0, 3 * MIB)]])
    before = len(transport.written)
    owner.writer.close()
    for _ in range(5):
        await asyncio.sleep(0)
    assert len(transport.written) == before
