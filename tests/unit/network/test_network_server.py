"""Listeners, limits on connections, idle connections, and stopping."""

from __future__ import annotations

import asyncio
import logging
import resource
import socket

import pytest
from tests.unit.network.harness import (
    BIG,
    ECHO,
    FILE,
    PARKED,
    PRODUCE,
    DiskFile,
    Harness,
    request,
    until,
)

from ottla.common.file_range import FileRange
from ottla.common.listeners import Address, Listener
from ottla.network.limits import NetworkLimits
from ottla.network.listener_security import ListenerSecurity
from ottla.network.server import Server
from ottla.security.plain import PlainServer
from ottla.security.sasl import SaslSession
from ottla.testing.broker_process import free_port

MIB = 1 << 20


async def test_a_server_listens_on_several_listeners_and_says_where(net: Harness) -> None:
    server = Server(net.handler, NetworkLimits(), net.clock)
    one = Listener("INTERNAL", "127.0.0.1", 0)
    two = Listener("EXTERNAL", "", 0, Address("broker.example", 9094))
    await server.start([one, two])
    try:
        assert [listener.name for listener in server.listeners] == ["INTERNAL", "EXTERNAL"]
        assert server.listeners[1].advertised == Address("broker.example", 9094)
        for number, listener in enumerate(server.listeners):
            assert listener.port > 0
            reader, writer = await asyncio.open_connection("127.0.0.1", listener.port)
            writer.write(request(ECHO, number))
            assert (await reader.readexactly(8))[-1] == number
            assert net.handler.connections[number].listener_name == listener.name
            assert net.handler.connections[number].host == "127.0.0.1"
            writer.close()
    finally:
        await server.stop(1)


async def test_a_bound_port_is_known_before_it_is_served_and_taken_once_it_is(net: Harness) -> None:
    server, rival = (Server(net.handler, NetworkLimits(), net.clock) for _ in range(2))
    await server.bind(Listener("PLAINTEXT", "127.0.0.1", 0))
    (listener,) = server.listeners
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection("127.0.0.1", listener.port)
    await server.serve()
    with pytest.raises(OSError, match=r"(?i)in use"):
        await rival.bind(listener)
    _, writer = await asyncio.open_connection("127.0.0.1", listener.port)
    await until(lambda: net.handler.connections)
    writer.close()
    await server.stop(1)
    await rival.stop(0)


async def test_a_server_that_cannot_have_all_its_listeners_has_none(net: Harness) -> None:
    taken = socket.create_server(("127.0.0.1", 0))
    port = free_port()
    server = Server(net.handler, NetworkLimits(), net.clock)
    with pytest.raises(OSError, match=r"(?i)in use"):
        await server.start(
            [Listener("A", "127.0.0.1", port), Listener("B", "127.0.0.1", taken.getsockname()[1])]
        )
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection("127.0.0.1", port)
    assert server.listeners == ()
    taken.close()
    await server.stop(0)


@pytest.mark.parametrize("limit", ["max_connections", "max_connections_per_ip"])
async def test_connections_over_the_limit_are_turned_away(
    net: Harness, limit: str, caplog: pytest.LogCaptureFixture
) -> None:
    server = await net.serve(**{limit: 3})
    clients = [await net.connect() for _ in range(3)]
    await until(lambda: server.stats.connections == 3)
    refused = await net.connect()
    assert await refused.is_closed()
    assert (server.stats.accepted, server.stats.rejected, server.stats.connections) == (3, 1, 3)
    (record,) = caplog.records
    assert limit.replace("_", ".") in record.getMessage()
    clients[0].close()
    await until(lambda: server.stats.connections == 2)
    await net.check_echo()
    assert len(net.handler.connections) == 4, "the handler never hears of those turned away"


async def test_accepted_sockets_are_kept_alive_and_send_at_once(net: Harness) -> None:
    await net.serve(send_buffer_bytes=100_000, receive_buffer_bytes=100_000)
    await net.connect()
    await until(lambda: net.handler.connections)
    sock = net.handler.connections[0]._transport.get_extra_info("socket")
    assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
    assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) == 60
    assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) != 0
    assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF) == 200_000, "Linux doubles it"


async def test_idle_connections_are_closed_after_their_time_and_busy_ones_are_not(net: Harness) -> None:
    server = await net.serve()
    idle, polling, active = await net.connect(), await net.connect(), await net.connect()
    await idle.send(request(ECHO, 1))
    await idle.reply()
    await polling.send(request(PARKED, 2))
    await until(lambda: 2 in net.handler.parked)
    server.sweep()
    for _ in range(2):
        net.clock.advance(300_000)
        await active.send(request(ECHO, 3))
        await active.reply()
        server.sweep()
    assert await idle.is_closed()
    net.handler.answer(2)
    assert await polling.replies(1) == [2]
    await active.send(request(ECHO, 4))
    assert await active.replies(1) == [4]


def _new_session() -> SaslSession:
    return SaslSession(["PLAIN"], lambda _: PlainServer({"alice": "secret"}), lambda _: 0)


async def test_who_does_not_authenticate_is_closed_soon(net: Harness) -> None:
    server = await net.serve(security=ListenerSecurity(new_sasl=_new_session))
    stranger, talker, alice = await net.connect(), await net.connect(), await net.connect()
    await until(lambda: len(net.handler.connections) == 3)
    session = next(each.sasl for each in net.handler.connections if each.peer == alice.name)
    assert session is not None
    session.handshake("PLAIN", 0)
    session.authenticate(b"\0alice\0secret", 0, 0)
    for _ in range(2):
        net.clock.advance(4_900)
        await talker.send(request(ECHO, 1))
        await talker.reply()
        server.sweep()
    await stranger.send(request(ECHO, 2))
    assert await stranger.replies(1) == [2]
    net.clock.advance(300)
    server.sweep()
    assert await stranger.is_closed()
    assert await talker.is_closed(), "who asks for versions again and again does not authenticate either"
    net.clock.advance(60_000)
    server.sweep()
    await alice.send(request(ECHO, 3))
    assert await alice.replies(1) == [3]


async def test_the_time_to_authenticate_begins_when_a_connection_is_served(net: Harness) -> None:
    server = await net.serve(security=ListenerSecurity(new_sasl=_new_session))
    client = await net.connect()
    await until(lambda: net.handler.connections)
    net.handler.connections[0].mute(3_600_000)
    net.clock.advance(60_000)
    server.sweep()
    net.handler.connections[0]._unmute()
    net.clock.advance(9_000)
    server.sweep()
    await client.send(request(ECHO, 1))
    assert await client.replies(1) == [1]


async def test_many_silent_strangers_are_closed_sooner(net: Harness) -> None:
    server = await net.serve(security=ListenerSecurity(new_sasl=_new_session), unauthenticated=3)
    clients = [await net.connect() for _ in range(3)]
    await until(lambda: len(net.handler.connections) == 3)
    net.clock.advance(5_000)
    server.sweep()
    assert server.stats.connections == 3, "three are no crowd"
    late = await net.connect()
    await until(lambda: server.stats.connections == 4)
    await clients[0].send(request(ECHO, 1))
    assert await clients[0].replies(1) == [1]
    server.sweep()
    assert await clients[1].is_closed()
    assert await clients[2].is_closed()
    for each in (clients[0], late):
        await each.send(request(ECHO, 2))
        assert await each.replies(1) == [2]


async def test_no_idle_limit_means_no_idle_limit(net: Harness) -> None:
    server = await net.serve(max_idle_ms=-1)
    client = await net.connect()
    await until(lambda: net.handler.connections)
    server.sweep()
    net.clock.advance(10**9)
    server.sweep()
    await client.send(request(ECHO, 1))
    assert await client.replies(1) == [1]


async def test_the_sweep_runs_by_itself(net: Harness) -> None:
    await net.serve(sweep_interval_ms=5, max_idle_ms=1000)
    client = await net.connect()
    await until(lambda: net.handler.connections)
    net.clock.advance(2000)
    assert await client.is_closed()


def _resident_bytes() -> int:
    with open("/proc/self/statm", "rb") as statm:
        return int(statm.read().split()[1]) * resource.getpagesize()


async def test_a_thousand_idle_connections_cost_little(net: Harness) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < 2500:
        pytest.skip(f"needs 2,500 descriptors, the limit is {hard}")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 2500), hard))
    server = await net.serve(max_connections_per_ip=2000)
    for _ in range(50):
        await net.check_echo()
    before = _resident_bytes()
    clients = [await net.connect() for _ in range(1000)]
    for client in clients:
        await client.send(request(ECHO, 1))
    for client in clients:
        assert await client.replies(1) == [1]
    assert server.stats.connections >= 1000
    assert (_resident_bytes() - before) / 1000 < 8 << 10, "both ends of each, together"
    server.sweep()
    await net.check_echo()


async def test_log_lines_about_peers_are_limited(net: Harness, caplog: pytest.LogCaptureFixture) -> None:
    await net.serve(max_connections=0)
    for _ in range(50):
        assert await (await net.connect()).is_closed()
    assert len(caplog.records) == 20
    net.clock.advance(10_000)
    assert await (await net.connect()).is_closed()
    assert [record.getMessage()[:20] for record in caplog.records[20:]] == [
        "30 more lines about ",
        caplog.records[21].getMessage()[:20],
    ]


async def test_a_stopping_server_answers_what_is_in_flight(net: Harness) -> None:
    server = await net.serve()
    client, idle = await net.connect(), await net.connect()
    await client.send(request(PRODUCE, 1) + request(PRODUCE, 2) + request(ECHO, 3))
    await until(lambda: 2 in net.handler.parked and len(net.handler.connections) == 2)
    stopping = asyncio.create_task(server.stop(10))
    assert await idle.is_closed()
    await client.send(request(ECHO, 4) * 10_000)  # unread bytes must not cost the client its replies
    net.handler.answer(2)
    net.handler.answer(1)
    assert await client.replies(2) == [1, 2]
    assert await client.is_closed()
    client.close()
    await stopping
    assert net.handler.seen == [1, 2], "nothing new is started"
    assert server.stats.connections == 0
    with pytest.raises(ConnectionRefusedError):
        await net.connect()


async def test_replies_on_their_way_are_not_lost_in_a_reset_when_requests_are_left_unread(
    net: Harness,
) -> None:
    server = await net.serve()
    client = await net.connect(receive_buffer_bytes=8 << 10)
    await client.send(request(PRODUCE, 1))
    await until(lambda: 1 in net.handler.parked)
    stopping = asyncio.create_task(server.stop(10))
    await until(lambda: net.handler.connections[0].is_closing)
    await client.send(request(ECHO, 2) * 100)
    net.handler.answer(1, bytes(100_000))
    for _ in range(10):  # the server is done with it; the reply waits in its socket
        await asyncio.sleep(0)
    assert await client.reply() == (1, bytes(100_000))
    assert await client.is_closed()
    client.close()
    await stopping


async def test_a_stopping_server_flushes_what_a_slow_reader_has_not_read(net: Harness) -> None:
    server = await net.serve(send_buffer_bytes=32 << 10)
    file = DiskFile(4 * MIB)
    net.handler.chunks = [FileRange(file, 0, 4 * MIB)]
    client = await net.connect(receive_buffer_bytes=32 << 10)
    await client.send(request(FILE, 1))
    await until(lambda: net.handler.seen)
    stopping = asyncio.create_task(server.stop(10))
    assert await client.reply() == (1, file.content)
    client.close()
    await stopping


async def test_a_stop_without_grace_cuts_off_and_cancels(net: Harness) -> None:
    server = await net.serve(send_buffer_bytes=32 << 10)
    waiting, deaf = await net.connect(), await net.connect(receive_buffer_bytes=32 << 10)
    await waiting.send(request(PRODUCE, 1))
    await deaf.send(request(BIG, 2) * 1000)
    await until(lambda: 1 in net.handler.parked and net.server.stats.waits)
    await server.stop(0.01)
    assert await waiting.is_closed()
    assert net.handler.parked[1].cancelled()
    assert server.stats.connections == 0
    assert len(net.handler.lost) == 2
    await server.stop(0.01)


async def test_a_server_under_load_stops_without_losing_a_reply_it_has_sent(net: Harness) -> None:
    """Every request that the handler saw is answered: the last bytes are not lost in a reset."""
    server = await net.serve()
    client = await net.connect()
    sent = client.flood(request(ECHO, 9) * 1000)
    await until(lambda: net.handler.seen)
    stopping = asyncio.create_task(server.stop(10))
    answered = 0
    try:
        while True:
            await client.reply()
            answered += 1
    except (EOFError, ConnectionError):
        pass
    client.close()
    await stopping
    assert answered == len(net.handler.seen) < sent // 12


async def test_no_error_is_logged_when_clients_come_and_go(
    net: Harness, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG):
        server = await net.serve()
        for number in range(20):
            client = await net.connect()
            await client.send(request(ECHO, number) * 5)
            if number % 2:
                await client.replies(5)
            client.close()
        await until(lambda: server.stats.accepted == 20 and server.stats.connections == 0)
    assert [record for record in caplog.records if record.levelno > logging.INFO] == []
