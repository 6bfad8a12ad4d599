"""The HTTP server against peers that are slow, large, many or odd."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import trustme

from ottla.http.app import HttpApp, Request, Response, json_response
from ottla.http.limits import HttpLimits
from ottla.http.routing import Routes
from ottla.http.server import HttpServer

LIMITS = HttpLimits(
    max_head_bytes=2_000,
    max_body_bytes=1_000,
    head_timeout_s=0.3,
    body_timeout_s=0.3,
    request_timeout_s=1.0,
    write_timeout_s=0.5,
    max_connections=4,
    graceful_stop_s=2,
)


async def echo(request: Request) -> Response:
    return json_response({"bytes": len(request.body), **request.params})


async def slow(request: Request) -> Response:
    await asyncio.sleep(30)
    return Response()


async def large(request: Request) -> Response:
    return Response(b"x" * 50_000_000)


async def broken(request: Request) -> Response:
    raise RuntimeError("a bug")


@asynccontextmanager
async def serving() -> AsyncIterator[HttpServer]:
    routes = Routes()
    routes.add("POST", "/echo/{name}", echo)
    for path, handler in (("/slow", slow), ("/large", large), ("/broken", broken)):
        routes.add("GET", path, handler)
    server = HttpServer("127.0.0.1", 0, LIMITS)
    await server.serve(HttpApp(routes, LIMITS))
    try:
        yield server
    finally:
        await server.stop()


async def talk(server: HttpServer, *parts: bytes, pause_s: float = 0.0) -> bytes:
    """Send parts with pauses, and return everything that comes until the connection is closed."""
    reader, writer = await asyncio.open_connection(*server.address)
    try:
        for part in parts:
            writer.write(part)
            await asyncio.sleep(pause_s)
        async with asyncio.timeout(10):
            return await reader.read()
    except ConnectionError:
        return b""
    finally:
        writer.close()


def status(answer: bytes) -> int:
    return int(answer.split(b" ", 2)[1]) if answer else 0


async def test_a_request_is_answered_and_its_path_is_decoded_by_segment() -> None:
    async with serving() as server:
        answer = await talk(
            server,
            b"POST /echo/a%2Fb HTTP/1.1\r\nhost: x\r\ncontent-length: 3\r\nconnection: close\r\n\r\nabc",
        )
        assert status(answer) == 200
        assert answer.endswith(b'{"bytes":3,"name":"a/b"}')


async def test_an_answer_in_two_parts_does_not_wait_for_an_acknowledgement() -> None:
    async with serving() as server:
        assert server._socket is not None
        assert server._socket.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) == 1
        assert server._socket.proto == socket.IPPROTO_TCP, "or asyncio does not set it"


async def test_what_exceeds_a_limit_is_refused() -> None:
    head = b"POST /echo/a HTTP/1.1\r\nhost: x\r\nconnection: close\r\n"
    async with serving() as server:
        assert status(await talk(server, head + b"content-length: 1001\r\n\r\n")) == 413
        chunked = b"transfer-encoding: chunked\r\n\r\n" + b"400\r\n" + b"x" * 1024 + b"\r\n0\r\n\r\n"
        assert status(await talk(server, head + chunked)) == 413
        assert status(await talk(server, head + b"content-length: 9\r\n\r\n" + b"abc")) == 408
        assert status(await talk(server, b"POST /echo/a HTTP/1.1\r\nx: " + b"y" * 3_000)) == 431
        assert status(await talk(server, b"GET /sl", b"ow HT", pause_s=0.4)) == 408
        assert await talk(server) == b"", "a connection without a request is closed"
        assert status(await talk(server, b"nonsense\r\n\r\n")) == 400


async def test_slow_handlers_bugs_and_wrong_paths_are_answered() -> None:
    async with serving() as server:
        line = b" HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n"
        assert status(await talk(server, b"GET /slow" + line)) == 408
        answer = await talk(server, b"GET /broken" + line)
        assert status(answer) == 500
        assert b"a bug" not in answer
        assert status(await talk(server, b"GET /none" + line)) == 404
        assert status(await talk(server, b"PUT /slow" + line)) == 405


async def test_who_does_not_take_its_answer_is_cut_off() -> None:
    async with serving() as server:
        reader, writer = await asyncio.open_connection(*server.address, limit=1024)
        writer.write(b"GET /large HTTP/1.1\r\nhost: x\r\n\r\n")
        await asyncio.sleep(1.5)
        taken = 0
        try:
            async with asyncio.timeout(10):
                while part := await reader.read(1_000_000):
                    taken += len(part)
        except ConnectionError:
            pass
        assert taken < 50_000_000
        writer.close()


async def test_connections_beyond_the_limit_are_refused_and_others_served() -> None:
    async with serving() as server:
        opened = [await asyncio.open_connection(*server.address) for _ in range(LIMITS.max_connections)]
        assert status(await talk(server, b"GET / HTTP/1.1\r\n\r\n")) in (503, 0)
        for _, writer in opened:
            writer.close()
            await writer.wait_closed()
        async with asyncio.timeout(5):
            while status(await talk(server, b"GET /none HTTP/1.0\r\n\r\n")) != 404:
                pass


async def test_a_tls_handshake_that_does_not_come_ends() -> None:
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    trustme.CA().issue_cert("localhost").configure_cert(tls)
    server = HttpServer("127.0.0.1", 0, LIMITS, tls)
    await server.serve(HttpApp(Routes(), LIMITS))
    try:
        reader, writer = await asyncio.open_connection(*server.address)
        async with asyncio.timeout(20):  # asyncio's own limit is 60 seconds
            assert await reader.read() == b""
        writer.close()
    finally:
        await server.stop()
