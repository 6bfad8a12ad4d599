"""TLS listeners: large replies and slow readers, a limited number of handshakes, and new certificates."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
import struct
from collections.abc import AsyncIterator
from dataclasses import replace
from functools import cache, cached_property

import pytest
import trustme
from tests.unit.network.harness import (
    BIG,
    ECHO,
    FILE,
    SWALLOW,
    DiskFile,
    MemoryFile,
    ScriptedHandler,
    request,
)
from tests.waiting import until

from ottla.common.clock import ManualClock
from ottla.common.file_range import FileRange
from ottla.common.listeners import Listener
from ottla.network.limits import NetworkLimits, NetworkStats
from ottla.network.listener_security import ListenerSecurity
from ottla.network.peer_log import PeerLog
from ottla.network.server import Server
from ottla.network.tls_listener import TlsHandshakes
from ottla.security.address_quotas import AddressQuotas
from ottla.security.certificate_name import PrincipalMapper
from ottla.security.connection_rates import ConnectionRates
from ottla.security.quota_entities import IP, QuotaEntity
from ottla.security.quota_rates import QuotaWindows

MIB = 1 << 20
DEADLINE_S = 20


class TlsBench:
    """A server with one TLS listener, and an authority that clients trust."""

    def __init__(self) -> None:
        self.authority = trustme.CA()
        self.clock = ManualClock()
        self.handler = ScriptedHandler()
        self.security = ListenerSecurity(self.context("one"))
        self.writers: list[asyncio.StreamWriter] = []

    def context(self, name: str) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.authority.issue_cert("127.0.0.1", common_name=name).configure_cert(context)
        return context

    async def serve(self, **limits: int) -> None:
        limits = {"sweep_interval_ms": 10**9, **limits}
        self.server = Server(self.handler, NetworkLimits(**limits), self.clock)
        await self.server.bind(Listener("SSL", "127.0.0.1", 0), self.security)
        await self.server.serve()
        self.port = self.server.listeners[0].port

    async def connect(
        self, *, tls: bool = True, host: str = "127.0.0.1"
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        async with asyncio.timeout(DEADLINE_S):
            streams = await asyncio.open_connection(
                "127.0.0.1", self.port, ssl=self.client_context if tls else None, local_addr=(host, 0)
            )
        self.writers.append(streams[1])
        return streams

    @cached_property
    def client_context(self) -> ssl.SSLContext:
        """The context of clients: it takes long to make."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        self.authority.configure_trust(context)
        return context

    @staticmethod
    @cache
    def client_hello() -> bytes:
        """Return the first bytes of a TLS client."""
        sent = ssl.MemoryBIO()
        client = ssl.create_default_context().wrap_bio(ssl.MemoryBIO(), sent, server_hostname="127.0.0.1")
        with contextlib.suppress(ssl.SSLWantReadError):
            client.do_handshake()
        return sent.read()

    async def stall(self) -> None:
        """Begin a handshake, and never continue."""
        _, writer = await self.connect(tls=False)
        writer.write(self.client_hello())


@pytest.fixture
async def bench() -> AsyncIterator[TlsBench]:
    made = TlsBench()
    yield made
    for writer in made.writers:
        writer.transport.abort()
    await made.server.stop(0)


async def receive(reader: asyncio.StreamReader) -> tuple[int, bytes]:
    async with asyncio.timeout(DEADLINE_S):
        size, correlation_id = struct.unpack(">ii", await reader.readexactly(8))
        return correlation_id, await reader.readexactly(size - 4)


@pytest.mark.parametrize("kind", [DiskFile, MemoryFile])
async def test_files_reach_a_slow_reader_byte_for_byte(bench: TlsBench, kind: type[DiskFile]) -> None:
    await bench.serve(send_buffer_bytes=64 << 10)
    file = kind(6 * MIB)
    bench.handler.chunks = [b"head", FileRange(file, 3, 5 * MIB), b"tail", FileRange(file, 0, 100)]
    reader, writer = await bench.connect()
    writer.write(request(FILE, 1) + request(ECHO, 2, b"next"))
    expected = b"head" + file.content[3 : 5 * MIB + 3] + b"tail" + file.content[:100]
    assert await receive(reader) == (1, expected)
    assert await receive(reader) == (2, b"next")


async def test_requests_and_replies_of_any_size_alternate(bench: TlsBench) -> None:
    bench.handler.limit = 8 * MIB
    await bench.serve()
    reader, writer = await bench.connect()
    for number, size in enumerate((1, 100, 17_000, 100_000, 3 * MIB)):
        writer.write(request(SWALLOW, number, bytes(size)))
        assert await receive(reader) == (number, struct.pack(">i", 8 + size))
        bench.handler.kept.clear()
    writer.write(b"".join(request(BIG, number) for number in range(50)))
    for number in range(50):
        assert (await receive(reader))[0] == number


async def test_a_higher_limit_of_handshakes_is_used_at_once(bench: TlsBench) -> None:
    await bench.serve(handshakes=1)
    await bench.stall()
    await until(lambda: bench.server.handshakes.in_flight == 1)
    second = asyncio.ensure_future(bench.connect())
    await asyncio.sleep(0.05)
    assert not second.done()
    bench.server.change_limits(replace(bench.server.limits, handshakes=2))
    reader, writer = await second
    writer.write(request(ECHO, 1, b"in"))
    assert await receive(reader) == (1, b"in")


async def test_a_connection_over_the_rate_is_served_later_and_not_closed(bench: TlsBench) -> None:
    await bench.serve()
    rates = bench.server.connection_rates = ConnectionRates(QuotaWindows(1, 1_000))
    rates.change_rates(20, {}, None, bench.clock.mono_ms())
    for _ in range(20):
        rates.connected("SSL", bench.clock.mono_ms())
    streams = await asyncio.gather(*(bench.connect() for _ in range(3)))
    assert bench.server.stats.delayed == 3
    for number, (reader, writer) in enumerate(streams):
        writer.write(request(ECHO, number, b"in"))
        assert await receive(reader) == (number, b"in")
    assert bench.server.stats.rejected == 0


async def test_an_address_over_its_quota_gets_no_handshake(bench: TlsBench) -> None:
    await bench.serve()
    entity: QuotaEntity = ((IP, "127.0.0.1"),)
    quotas = {entity: {"connection_creation_rate": 1.0}}
    bench.server.address_quotas = AddressQuotas(quotas, QuotaWindows(40, 50))
    for _ in range(2):
        await bench.connect()
    with pytest.raises(ConnectionError):
        await bench.connect()
    assert bench.server.stats.throttled == 1
    assert bench.server.stats.handshakes == 2
    assert bench.server.handshakes.in_flight == bench.server.handshakes.waiting == 0
    await bench.connect(host="127.0.0.2")


async def test_what_waits_for_its_turn_is_closed_with_the_listener(bench: TlsBench) -> None:
    await bench.serve()
    rates = bench.server.connection_rates = ConnectionRates(QuotaWindows(1, 1_000))
    rates.change_rates(1, {}, None, bench.clock.mono_ms())
    rates.connected("SSL", bench.clock.mono_ms())
    reader, _ = await bench.connect(tls=False)
    await until(lambda: bench.server.stats.delayed == 1)
    await bench.server.stop(0)
    async with asyncio.timeout(DEADLINE_S):
        assert await reader.read() == b""


@pytest.mark.parametrize("first_bytes", [b"", b"\x16\x03", b"\x16\x03\x01\x02\x00\x01"])
async def test_peers_without_a_whole_client_hello_do_not_delay_others(
    bench: TlsBench, first_bytes: bytes
) -> None:
    await bench.serve(handshakes=2, handshake_ms=10_000)
    for _ in range(5):
        _, writer = await bench.connect(tls=False)
        writer.write(first_bytes)
    await until(lambda: bench.server.handshakes.waiting == 5)
    reader, writer = await bench.connect()
    writer.write(request(ECHO, 1, b"in"))
    assert await receive(reader) == (1, b"in")
    assert bench.server.handshakes.in_flight == 0
    bench.clock.advance(10_000)
    bench.server.sweep()
    assert bench.server.handshakes.waiting == 0
    assert bench.server.stats.failed_handshakes == 5


async def test_a_client_hello_in_parts_is_completed(bench: TlsBench) -> None:
    await bench.serve()
    hello = bench.client_hello()
    reader, writer = await bench.connect(tls=False)
    for end in (1, 4, 5, 100, len(hello)):
        writer.write(hello[:end])
        hello = hello[end:]
        await asyncio.sleep(0.01)
    async with asyncio.timeout(DEADLINE_S):
        assert (await reader.readexactly(1))[0] == 22, "the server's part of the handshake"


async def test_handshakes_that_stall_make_room_after_a_time(bench: TlsBench) -> None:
    await bench.serve(handshakes=2, crowded_handshake_ms=2_000)
    for _ in range(2):
        await bench.stall()
    await until(lambda: bench.server.handshakes.in_flight == 2)
    third = asyncio.ensure_future(bench.connect())
    await until(lambda: bench.server.handshakes.waiting == 1)
    assert not third.done()
    bench.clock.advance(2_001)
    bench.server.sweep()
    reader, writer = await third
    writer.write(request(ECHO, 1, b"in"))
    assert await receive(reader) == (1, b"in")
    await until(lambda: bench.server.stats.failed_handshakes == 2)


async def test_an_address_with_many_handshakes_gives_way_to_another(bench: TlsBench) -> None:
    await bench.serve(handshakes=4, crowded_handshake_ms=2_000)
    for _ in range(50):
        await bench.stall()
    await until(lambda: bench.server.handshakes.in_flight == 4 and bench.server.handshakes.waiting == 46)
    other = asyncio.ensure_future(bench.connect(host="127.0.0.2"))
    await until(lambda: bench.server.handshakes.waiting == 47)
    bench.clock.advance(250)
    bench.server.sweep()
    reader, writer = await other
    writer.write(request(ECHO, 1, b"in"))
    assert await receive(reader) == (1, b"in")
    await until(lambda: bench.server.stats.failed_handshakes == 1)


async def test_only_so_many_connections_wait_for_a_handshake(bench: TlsBench) -> None:
    await bench.serve(waiting_handshakes=3)
    silent = [await bench.connect(tls=False) for _ in range(3)]
    await until(lambda: bench.server.handshakes.waiting == 3)
    await bench.connect(tls=False, host="127.0.0.2")
    async with asyncio.timeout(DEADLINE_S):
        assert await silent[0][0].read() == b"", "the first of the address with the most"
    assert bench.server.handshakes.waiting == 3


async def test_the_addresses_of_one_ipv6_network_count_as_one() -> None:
    """A stranger has 2^64 of them: as many clients, they would keep another waiting."""
    clock = ManualClock()
    limits = NetworkLimits(waiting_handshakes=3)
    handshakes = TlsHandshakes(clock, PeerLog(clock), NetworkStats(), limits)
    ours: list[socket.socket] = []
    for host in ("2001:db8:2::1", "2001:db8:1::1", "2001:db8:1::2", "2001:db8:1:0:ffff::"):
        accepted, peer = socket.socketpair()
        accepted.setblocking(False)
        ours.append(peer)
        handshakes.start(accepted, (host, 50_000, 0, 0), asyncio.Protocol, ListenerSecurity())
    try:
        assert handshakes.waiting == 3
        ours[1].settimeout(DEADLINE_S)
        assert ours[1].recv(1) == b"", "the first of the network with the most"
    finally:
        handshakes.stop()
        for each in ours:
            each.close()


async def test_a_new_context_serves_new_connections_and_open_ones_stay(bench: TlsBench) -> None:
    await bench.serve()
    reader, writer = await bench.connect()
    before = writer.get_extra_info("peercert")["serialNumber"]
    bench.security.tls = bench.context("two")
    _, other = await bench.connect()
    assert other.get_extra_info("peercert")["serialNumber"] != before
    writer.write(request(ECHO, 1, b"still"))
    assert await receive(reader) == (1, b"still")


async def test_a_client_that_speaks_no_tls_is_closed_with_the_reason(
    bench: TlsBench, caplog: pytest.LogCaptureFixture
) -> None:
    await bench.serve()
    reader, writer = await bench.connect(tls=False)
    writer.write(request(ECHO, 1))
    async with asyncio.timeout(DEADLINE_S):
        await reader.read()
    await until(lambda: "does not speak TLS" in caplog.text)
    assert bench.server.stats.connections == 0


async def test_an_idle_tls_connection_is_closed(bench: TlsBench) -> None:
    await bench.serve(max_idle_ms=1_000)
    reader, _ = await bench.connect()
    await until(lambda: bench.server.stats.connections == 1)
    bench.server.sweep()
    bench.clock.advance(1_001)
    bench.server.sweep()
    async with asyncio.timeout(DEADLINE_S):
        assert await reader.read() == b""


async def test_a_certificate_that_no_rule_is_for_is_refused(bench: TlsBench) -> None:
    assert bench.security.tls is not None
    bench.authority.configure_trust(bench.security.tls)
    bench.security.tls.verify_mode = ssl.CERT_REQUIRED
    bench.security.mapper = PrincipalMapper("RULE:^CN=(known),.*$/$1/")
    await bench.serve()

    async def answer(name: str) -> bytes:
        context = ssl.create_default_context()
        bench.authority.configure_trust(context)
        bench.authority.issue_cert("client.example", common_name=name).configure_cert(context)
        async with asyncio.timeout(DEADLINE_S):
            reader, writer = await asyncio.open_connection("127.0.0.1", bench.port, ssl=context)
            bench.writers.append(writer)
            writer.write(request(ECHO, 1, b"in"))
            try:
                return await reader.read(100)
            except ConnectionError:
                return b""

    assert (await answer("known")).endswith(b"in")
    assert bench.handler.connections[-1].principal == "User:known"
    assert await answer("stranger") == b""
    assert bench.handler.seen == [1], "the stranger's request was not looked at"
    await until(lambda: len(bench.handler.lost) >= 1)
