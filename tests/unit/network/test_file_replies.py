"""File ranges reach the peer byte for byte, by sendfile where there is a descriptor."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import os
import socket
import struct
from collections.abc import Callable

import pytest
from tests.unit.network.harness import ECHO, FILE, DiskFile, Harness, MemoryFile, request, until

from ottla.common.file_range import FileRange
from ottla.network.reply_writer import GATHER_BYTES

MIB = 1 << 20
KINDS = pytest.mark.parametrize("kind", [DiskFile, MemoryFile])


@KINDS
async def test_a_large_range_reaches_a_slow_reader_byte_for_byte(
    net: Harness, kind: Callable[[int], DiskFile]
) -> None:
    await net.serve(send_buffer_bytes=64 << 10)
    file = kind(12 * MIB)
    net.handler.chunks = [
        b"a",
        FileRange(file, 0, 5 * MIB + 1),
        b"b" * 3000,
        FileRange(file, 7, 6 * MIB),
        b"c",
    ]
    expected = b"a" + file.content[: 5 * MIB + 1] + b"b" * 3000 + file.content[7 : 6 * MIB + 7] + b"c"
    client = await net.connect(receive_buffer_bytes=16 << 10)
    await client.send(request(FILE, 1) + request(ECHO, 2))
    assert struct.unpack(">ii", await client.receive(8)) == (4 + len(expected), 1)
    digest, left = hashlib.sha256(), len(expected)
    while left:
        piece = await client.receive(min(left, 150_000))
        digest.update(piece)
        left -= len(piece)
        for _ in range(3):  # the other side gets ahead, and has to wait
            await asyncio.sleep(0)
    assert digest.digest() == hashlib.sha256(expected).digest()
    assert await client.reply() == (2, b"")
    assert net.server.stats.bytes_out == len(expected) + 8 + 8


async def test_a_reader_that_keeps_up_gets_files_without_copies(net: Harness) -> None:
    await net.serve()
    file = DiskFile(MIB)
    net.handler.chunks = [FileRange(file, 0, 50_000)]
    client = await net.connect()
    for number in range(20):
        await client.send(request(FILE, number))
        assert await client.reply() == (number, file.content[:50_000])
    assert file.reads == 0


@pytest.mark.parametrize("size", [1_000, GATHER_BYTES + 1])
async def test_what_precedes_a_file_range_shares_its_packets(net: Harness, size: int) -> None:
    await net.serve()
    net.handler.chunks = [FileRange(DiskFile(size), 0, size)]
    client = await net.connect()
    for number in range(20):
        await client.send(request(FILE, number))
        assert (await client.reply())[0] == number
    info = client.sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256)
    (data_segments_in,) = struct.unpack_from("I", info, 152)
    assert data_segments_in == 20


async def test_most_of_a_large_range_is_not_copied_for_a_slow_reader(net: Harness) -> None:
    await net.serve(send_buffer_bytes=512 << 10)
    file = DiskFile(16 * MIB)
    net.handler.chunks = [FileRange(file, 0, 16 * MIB)]
    client = await net.connect()
    await client.send(request(FILE, 1))
    assert await client.reply() == (1, file.content)
    assert file.copied_bytes < 4 * MIB


async def test_many_readers_of_large_files_have_their_turns(net: Harness) -> None:
    await net.serve()
    file = DiskFile(6 * MIB)
    net.handler.chunks = [FileRange(file, 0, 6 * MIB)]
    clients = [await net.connect() for _ in range(8)]
    for client in clients:
        await client.send(request(FILE, 1) * 2)
    await net.check_echo()
    for client in clients:
        assert await client.reply() == (1, file.content)
        assert await client.reply() == (1, file.content)


@KINDS
async def test_a_file_that_ends_too_early_closes_the_connection(
    net: Harness, kind: Callable[[int], DiskFile], caplog: pytest.LogCaptureFixture
) -> None:
    await net.serve()
    net.handler.chunks = [FileRange(kind(1000), 0, 2000)]
    client = await net.connect()
    await client.send(request(FILE, 1))
    with pytest.raises((EOFError, ConnectionError)):
        await client.receive(2012)
    (record,) = [record for record in caplog.records if record.levelno == logging.WARNING]
    assert "1000 bytes too early" in record.getMessage()
    await net.check_echo()


async def test_a_file_that_cannot_be_read_closes_the_connection(
    net: Harness, caplog: pytest.LogCaptureFixture
) -> None:
    class BadFile(MemoryFile):
        def read_at(self, position: int, size: int) -> bytes:
            raise OSError(5, "Input/output error")

    await net.serve()
    net.handler.chunks = [FileRange(BadFile(10), 0, 10)]
    client = await net.connect()
    await client.send(request(FILE, 1))
    assert await client.is_closed()
    assert any("Input/output error" in record.getMessage() for record in caplog.records)


async def test_a_reader_that_goes_away_in_the_middle_leaves_no_descriptor_behind(net: Harness) -> None:
    server = await net.serve(send_buffer_bytes=64 << 10)
    file = DiskFile(8 * MIB)
    net.handler.chunks = [FileRange(file, 0, 8 * MIB)]
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(10):
        client = await net.connect(receive_buffer_bytes=16 << 10)
        await client.send(request(FILE, 1))
        await client.receive(100_000)
        client.close()
    await until(lambda: server.stats.connections == 0)
    await net.check_echo()
    await until(lambda: len(os.listdir("/proc/self/fd")) <= before)
    assert os.fstat(file.fileno()).st_size == 8 * MIB, "the file is still open"
