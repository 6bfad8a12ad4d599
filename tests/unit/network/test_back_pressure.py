"""Peers that do not read, and budgets that are used up, stop the reading and nothing else."""

from __future__ import annotations

import struct
import tracemalloc

import pytest
from tests.unit.network.harness import (
    BIG,
    ECHO,
    FILE,
    PARKED,
    PRODUCE,
    SWALLOW,
    DiskFile,
    Harness,
    request,
    until,
)

from ottla.common.file_range import FileRange

MIB = 1 << 20
SMALL_SOCKETS = {"send_buffer_bytes": 32 << 10, "receive_buffer_bytes": 32 << 10}


async def _flood(net: Harness, api_key: int) -> int:
    """Be a peer that sends requests for as long as they are taken, and reads nothing; return bytes sent."""
    client = await net.connect(receive_buffer_bytes=32 << 10)
    requests = request(api_key, 5) * 1000
    sent, before = client.flood(requests), 0
    while sent > before or not net.server.stats.waits:
        for _ in range(10):  # the loop turns, and the server reads what it wants to
            await net.check_echo()
        sent, before = client.flood(requests, sent), sent
    return sent


@pytest.mark.parametrize("api_key", [BIG, FILE])
async def test_a_peer_that_never_reads_is_not_read_from_either(net: Harness, api_key: int) -> None:
    server = await net.serve(**SMALL_SOCKETS)
    file = DiskFile(MIB)
    net.handler.chunks = [FileRange(file, 0, MIB)]
    tracemalloc.start()
    try:
        sent = await _flood(net, api_key)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 2 * MIB
    assert server.stats.bytes_in < sent, "the rest waits in the sockets"
    dispatched = net.handler.seen.count(5)
    await net.check_echo()
    assert net.handler.seen.count(5) == dispatched
    assert net.handler.connections[0] not in net.handler.lost


async def test_a_peer_that_reads_at_last_gets_every_reply(net: Harness) -> None:
    await net.serve(**SMALL_SOCKETS)
    client = await net.connect(receive_buffer_bytes=32 << 10)
    await client.send(b"".join(request(BIG, number) for number in range(500)))
    await until(lambda: net.server.stats.waits)
    assert len(net.handler.seen) < 500
    assert await client.replies(500) == list(range(500))


async def test_replies_that_come_late_to_a_peer_that_does_not_read_are_kept_in_order(net: Harness) -> None:
    await net.serve(**SMALL_SOCKETS)
    client = await net.connect(receive_buffer_bytes=32 << 10)
    await client.send(b"".join(request(PRODUCE, number) for number in range(40)))
    await until(lambda: len(net.handler.parked) == 40)
    for number in reversed(range(40)):
        net.handler.answer(number, struct.pack(">i", number) * 10_000)
    await net.check_echo()
    for number in range(40):
        assert await client.reply() == (number, struct.pack(">i", number) * 10_000)


async def test_a_peer_that_has_read_nothing_for_the_idle_time_is_cut_off(net: Harness) -> None:
    server = await net.serve(**SMALL_SOCKETS)
    await _flood(net, BIG)
    server.sweep()
    net.clock.advance(599_000)
    server.sweep()
    await net.check_echo()
    assert net.handler.connections[0] not in net.handler.lost
    net.clock.advance(1_000)
    server.sweep()
    await until(lambda: net.handler.connections[0] in net.handler.lost)


async def test_when_the_memory_for_frames_is_used_up_only_large_frames_wait(net: Harness) -> None:
    server = await net.serve(queued_request_bytes=MIB)
    holder, waiter = await net.connect(), await net.connect()
    await holder.send(request(SWALLOW, 1, bytes(MIB)))
    assert await holder.replies(1) == [1]
    await waiter.send(request(SWALLOW, 2, bytes(MIB)))
    await until(lambda: server.frame_bytes.waiting == 1)
    await net.check_echo()
    assert 2 not in net.handler.seen
    assert server.frame_bytes.used < MIB + 100
    net.handler.kept.clear()
    assert await waiter.replies(1) == [2]


async def test_frames_are_let_in_first_come_first_served(net: Harness) -> None:
    server = await net.serve(queued_request_bytes=MIB)
    holder = await net.connect()
    await holder.send(request(SWALLOW, 0, bytes(MIB)))
    assert await holder.replies(1) == [0]
    clients = [await net.connect() for _ in range(6)]
    for number, client in enumerate(clients, start=1):
        client.sock.send(request(SWALLOW, number, bytes(MIB))[: 70 << 10])
        await until(lambda number=number: server.frame_bytes.waiting == number)  # type: ignore[misc]
    for number, client in enumerate(clients, start=1):
        net.handler.kept.clear()
        await client.send(request(SWALLOW, number, bytes(MIB))[70 << 10 :])
        assert await client.replies(1) == [number]
        assert server.frame_bytes.used < MIB + 100, "one frame at a time"
    assert net.handler.seen == list(range(7))


async def test_when_too_many_requests_are_unanswered_overlapping_ones_wait(net: Harness) -> None:
    server = await net.serve(queued_requests=3)
    first, second = await net.connect(), await net.connect()
    await first.send(request(PRODUCE, 1) + request(PRODUCE, 2) + request(PRODUCE, 3) + request(PRODUCE, 4))
    await until(lambda: server.requests.waiting == 1)
    await second.send(request(PRODUCE, 5))
    await until(lambda: server.requests.waiting == 2)
    await net.check_echo()
    assert list(net.handler.parked) == [1, 2, 3]
    net.handler.answer(1)
    await until(lambda: 4 in net.handler.parked)
    net.handler.answer(3)
    assert 5 not in net.handler.parked
    net.handler.answer(2)
    await until(lambda: 5 in net.handler.parked)
    net.handler.answer(4)
    net.handler.answer(5)
    assert await first.replies(4) == [1, 2, 3, 4]
    assert await second.replies(1) == [5]
    assert server.requests.used == 0
    assert not server.requests.is_full


async def test_parked_requests_that_do_not_overlap_use_up_no_places(net: Harness) -> None:
    """Hundreds of consumers may be long-polling, and nobody has to wait for them."""
    server = await net.serve(queued_requests=2)
    consumers = [await net.connect() for _ in range(20)]
    for number, consumer in enumerate(consumers):
        await consumer.send(request(PARKED, number))
    await until(lambda: len(net.handler.parked) == 20)
    await net.check_echo()
    assert not server.requests.is_full
    for number, consumer in enumerate(consumers):
        net.handler.answer(number)
        assert await consumer.replies(1) == [number]


async def test_a_waiting_connection_that_goes_away_leaves_the_line(net: Harness) -> None:
    server = await net.serve(queued_requests=1)
    holder, leaver, stayer = await net.connect(), await net.connect(), await net.connect()
    await holder.send(request(PRODUCE, 1))
    await until(lambda: 1 in net.handler.parked)
    await leaver.send(request(PRODUCE, 2))
    await until(lambda: server.requests.waiting == 1)
    await stayer.send(request(PRODUCE, 3))
    await until(lambda: server.requests.waiting == 2)
    net.handler.connections[1].abort("for the test")
    await until(lambda: server.requests.waiting == 1)
    net.handler.answer(1)
    await until(lambda: 3 in net.handler.parked)
    net.handler.answer(3)
    assert await stayer.replies(1) == [3]


async def test_a_raised_limit_lets_waiting_connections_in(net: Harness) -> None:
    server = await net.serve(queued_requests=1)
    client = await net.connect()
    await client.send(request(PRODUCE, 1) + request(PRODUCE, 2))
    await until(lambda: server.requests.waiting == 1)
    server.change_limits(type(server.limits)(queued_requests=2, sweep_interval_ms=10**9))
    await until(lambda: 2 in net.handler.parked)
    net.handler.answer(1)
    net.handler.answer(2)
    assert await client.replies(2) == [1, 2]


async def test_echo_under_a_full_request_budget_is_served(net: Harness) -> None:
    await net.serve(queued_requests=1)
    client = await net.connect()
    await client.send(request(PRODUCE, 1))
    await until(lambda: 1 in net.handler.parked)
    other = await net.connect()
    await other.send(request(ECHO, 2) * 100)
    assert await other.replies(100) == [2] * 100
    net.handler.answer(1)
    assert await client.replies(1) == [1]


async def test_a_connection_that_is_held_is_not_read_until_it_is_released(net: Harness) -> None:
    await net.serve()
    client = await net.connect()
    await client.send(request(PRODUCE, 1))
    await until(lambda: 1 in net.handler.parked)
    held = net.handler.connections[0]
    held.hold()
    await client.send(request(PRODUCE, 2) + request(PRODUCE, 3))
    await net.check_echo()
    assert net.server.stats.waits == 1
    assert net.handler.seen == [1, 77], "though Produce may overlap, and others are served"
    held.release()
    await until(lambda: 3 in net.handler.parked)
    for number in (1, 2, 3):
        net.handler.answer(number)
    assert await client.replies(3) == [1, 2, 3]
