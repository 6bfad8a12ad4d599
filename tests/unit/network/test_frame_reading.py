"""Frames arrive in any pieces; lengths that lie cost nothing; slow senders are let go."""

from __future__ import annotations

import gc
import logging
import os
import struct
import tracemalloc
from itertools import pairwise

import pytest
from tests.unit.network.harness import ECHO, PARKED, PRODUCE, SWALLOW, Client, Harness, request, until

from ottla.network.connection import SCRATCH_BYTES, SMALL_FRAME_BYTES

MIB = 1 << 20


async def test_frames_may_come_byte_by_byte(net: Harness) -> None:
    await net.serve()
    client = await net.connect()
    for byte in request(ECHO, 1, b"slowly") + request(ECHO, 2):
        before = net.server.stats.bytes_in
        await client.send(bytes([byte]))
        await until(lambda before=before: net.server.stats.bytes_in > before)  # type: ignore[misc]
    assert await client.reply() == (1, b"slowly")
    assert await client.reply() == (2, b"")


@pytest.mark.parametrize("size", [0, 1, SMALL_FRAME_BYTES - 8, SMALL_FRAME_BYTES, SCRATCH_BYTES, 3 * MIB])
@pytest.mark.parametrize("piece", [5, 4096, SMALL_FRAME_BYTES + 1, MIB])
async def test_a_frame_of_any_size_comes_through_in_pieces_of_any_size(
    net: Harness, size: int, piece: int
) -> None:
    if size > 400 * piece:
        piece = size // 400
    await net.serve()
    client = await net.connect()
    payload = os.urandom(size)
    data = request(ECHO, 1) + request(SWALLOW, 2, payload) + request(ECHO, 3)
    for start, stop in pairwise([*range(0, len(data), piece), len(data)]):
        await client.send(memoryview(data)[start:stop])
    assert await client.replies(3) == [1, 2, 3]
    (frame,) = net.handler.kept
    assert frame[8:] == payload
    frame[:] = bytes(len(frame))  # it is the handler's own, to write to
    assert not frame.readonly


async def test_large_frames_pipelined_with_small_ones_stay_in_order(net: Harness) -> None:
    await net.serve()
    client = await net.connect()
    sizes = [10, 200_000, 0, SMALL_FRAME_BYTES, 40_000, 2 * MIB, 1, 131_000, 131_072, 9]
    payloads = [os.urandom(size) for size in sizes]
    await client.send(b"".join(request(SWALLOW, number, data) for number, data in enumerate(payloads)))
    assert await client.replies(len(sizes)) == list(range(len(sizes)))
    assert [bytes(frame[8:]) for frame in net.handler.kept] == payloads


async def test_a_large_frame_waits_for_its_turn(net: Harness) -> None:
    await net.serve()
    client = await net.connect()
    payload = os.urandom(MIB)
    await client.send(request(PARKED, 1) + request(SWALLOW, 2, payload) + request(ECHO, 3))
    await until(lambda: net.server.stats.waits)
    assert net.handler.seen == [1]
    net.handler.answer(1)
    assert await client.replies(3) == [1, 2, 3]
    assert net.handler.kept[0][8:] == payload


@pytest.mark.parametrize("size", [100 * MIB, 16 * MIB + 1, -1, 0, 7, -(2**31), 2**31 - 1])
async def test_a_length_that_is_not_allowed_closes_the_connection_before_any_memory_is_given(
    net: Harness, size: int, caplog: pytest.LogCaptureFixture
) -> None:
    await net.serve()
    client = await net.connect()
    tracemalloc.start()
    try:
        await client.send(struct.pack(">ihhi", size, PRODUCE, 0, 0))
        assert await client.is_closed()
        assert tracemalloc.get_traced_memory()[1] < MIB
    finally:
        tracemalloc.stop()
    assert net.server.stats.refused_frames == 1
    (record,) = [record for record in caplog.records if record.levelno == logging.WARNING]
    assert str(size) in record.getMessage()
    assert client.sock.getsockname()[0] in record.getMessage()
    await net.check_echo()


async def test_the_handler_says_how_large_a_frame_may_be(net: Harness) -> None:
    net.handler.limit = 64 << 10
    await net.serve()
    client, greedy = await net.connect(), await net.connect()
    await client.send(request(SWALLOW, 1, bytes((64 << 10) - 8)))
    assert await client.replies(1) == [1]
    await greedy.send(request(SWALLOW, 2, bytes((64 << 10) - 7))[: SMALL_FRAME_BYTES // 2])
    assert await greedy.is_closed()


async def test_lengths_that_are_promised_and_never_sent_cost_no_memory(net: Harness) -> None:
    await net.serve()
    clients = [await net.connect() for _ in range(50)]
    tracemalloc.start()
    try:
        for client in clients:
            await client.send(struct.pack(">ihhi", 16 * MIB, PRODUCE, 0, 0) + bytes(1000))
        await until(lambda: net.server.stats.bytes_in >= 50 * 1000)
        assert tracemalloc.get_traced_memory()[1] < MIB
    finally:
        tracemalloc.stop()
    assert net.server.frame_bytes.used == 0
    await net.check_echo()


async def test_a_frame_is_charged_to_the_budget_for_as_long_as_it_is_kept(net: Harness) -> None:
    server = await net.serve()
    client = await net.connect()
    await client.send(request(SWALLOW, 1, bytes(MIB)) + request(SWALLOW, 2, bytes(40_000)))
    assert await client.replies(2) == [1, 2]
    assert MIB + 40_000 < server.frame_bytes.used < MIB + 40_100
    part = net.handler.kept.pop(0)[100:200]
    assert server.frame_bytes.used > MIB, "a slice keeps all of it"
    del part
    assert server.frame_bytes.used < 40_100
    net.handler.kept.clear()
    assert server.frame_bytes.used == 0


async def test_a_large_frame_cut_off_by_its_sender_gives_its_memory_back(net: Harness) -> None:
    server = await net.serve()
    client = await net.connect()
    await client.send(request(SWALLOW, 1, bytes(MIB))[: 100 << 10])
    await until(lambda: server.frame_bytes.used)
    client.close()
    await until(lambda: net.handler.lost)
    gc.collect()
    assert server.frame_bytes.used == 0


async def _check_stalled(net: Harness, client: Client) -> None:
    """After 29.9 s without a byte the connection is open, after 30 s it is closed."""
    net.server.sweep()
    net.clock.advance(29_900)
    net.server.sweep()
    await net.check_echo()
    assert net.handler.connections[0] not in net.handler.lost
    net.clock.advance(100)
    net.server.sweep()
    assert await client.is_closed()


@pytest.mark.parametrize("sent", [1, 5, 50, 100 << 10])
async def test_a_started_frame_without_progress_is_not_waited_for_forever(net: Harness, sent: int) -> None:
    server = await net.serve()
    client = await net.connect()
    await client.send(request(SWALLOW, 1, bytes(MIB))[:sent])
    await until(lambda: server.stats.bytes_in == sent)
    await _check_stalled(net, client)


async def test_a_slow_sender_that_makes_progress_is_waited_for(net: Harness) -> None:
    server = await net.serve()
    client = await net.connect()
    for sent, byte in enumerate(request(ECHO, 1), start=1):
        await client.send(bytes([byte]))
        await until(lambda sent=sent: server.stats.bytes_in == sent)  # type: ignore[misc]
        net.clock.advance(25_000)
        server.sweep()
    assert await client.replies(1) == [1]


async def test_a_trickle_is_not_progress_while_others_wait_for_the_memory(net: Harness) -> None:
    server = await net.serve(queued_request_bytes=MIB)
    trickler, waiter = await net.connect(), await net.connect()
    await trickler.send(request(SWALLOW, 1, bytes(2 * MIB))[: 100 << 10])
    await until(lambda: server.frame_bytes.is_full)
    await waiter.send(request(SWALLOW, 2, bytes(MIB)))
    await until(lambda: server.frame_bytes.waiting)
    for _ in range(2):
        before = server.stats.bytes_in
        trickler.sock.send(b"x")
        await until(lambda before=before: server.stats.bytes_in > before)  # type: ignore[misc]
        server.sweep()
        net.clock.advance(server.limits.scarce_memory_ms)
    server.sweep()
    assert await trickler.is_closed()
    assert await waiter.replies(1) == [2]
