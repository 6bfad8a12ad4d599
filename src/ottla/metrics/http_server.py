"""A small HTTP/1.1 server: GET and HEAD of a few paths, for Prometheus, load balancers and people.

h11 implements the protocol; this module adds the socket and the limits: number of connections, size of a
request, time to send it and to read the response. An invalid request is answered with its status, and the
connection is closed.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING

from ottla.common.listeners import Address

if TYPE_CHECKING:
    import h11

logger = logging.getLogger(__name__)

MAX_CONNECTIONS = 32
MAX_HEAD_BYTES = 16 << 10
MAX_BODY_BYTES = 16 << 10
READ_BYTES = 8 << 10
REQUEST_WITHIN_S = 30.0
"""How long a connection may be open without a complete request."""
READ_WITHIN_S = 30.0
"""How long a client may take to read a response."""
METHODS = (b"GET", b"HEAD")


@dataclass(frozen=True, slots=True)
class Request:
    """A request."""

    path: str
    accept: str = ""
    accepts_gzip: bool = False


@dataclass(frozen=True, slots=True)
class Response:
    """A response."""

    body: bytes
    content_type: str = "text/plain; charset=utf-8"
    status: int = 200
    headers: tuple[tuple[str, str], ...] = ()


Handler = Callable[[Request], Awaitable[Response]]


class HttpServer:
    """Serves what `handler` returns. The owner calls start and stop."""

    def __init__(self, handler: Handler) -> None:
        self._handler = handler
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self, host: str, port: int) -> Address:
        """Listen; return the bound address. Raise OSError if that is impossible."""
        # All interfaces with a port chosen by the system: one address family only, so that there is one port.
        bind = host or ("0.0.0.0" if port == 0 else None)
        self._server = await asyncio.start_server(self._connected, bind, port, limit=READ_BYTES)
        return Address(host, self._server.sockets[0].getsockname()[1])

    async def stop(self) -> None:
        """Close everything."""
        if self._server is not None:
            self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._tasks) >= MAX_CONNECTIONS:
            writer.transport.abort()
            return
        task = asyncio.get_running_loop().create_task(self._serve(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        import h11  # imported with the first connection: brokers that are not scraped start without it

        connection = h11.Connection(h11.SERVER, max_incomplete_event_size=MAX_HEAD_BYTES)
        try:
            while True:
                try:
                    async with asyncio.timeout(REQUEST_WITHIN_S):
                        request = await _read_request(connection, reader)
                except h11.RemoteProtocolError as error:
                    await _send(connection, writer, _refusal(error.error_status_hint, str(error)))
                    break
                if request is None:
                    break
                response = await self._answer(request)
                await _send(connection, writer, response, with_body=request.method != b"HEAD")
                if connection.our_state is not h11.DONE or connection.their_state is not h11.DONE:
                    break
                connection.start_next_cycle()
        except (OSError, TimeoutError):
            pass  # disconnected, or too slow
        finally:
            writer.transport.abort() if writer.is_closing() else writer.close()

    async def _answer(self, request: h11.Request) -> Response:
        if request.method not in METHODS:
            allowed = (("Allow", "GET, HEAD"),)
            return Response(b"only GET and HEAD are supported\n", status=405, headers=allowed)
        headers = dict(request.headers)
        asked = Request(
            request.target.decode("latin-1").partition("?")[0],
            headers.get(b"accept", b"").decode("latin-1"),
            b"gzip" in headers.get(b"accept-encoding", b"").lower(),
        )
        try:
            return await self._handler(asked)
        except Exception:
            logger.exception("cannot answer %s", asked.path)
            return Response(b"internal error; see the broker's log\n", status=500)


def _refusal(status: int, reason: str) -> Response:
    return Response(f"{reason}\n".encode(), status=status if 400 <= status < 600 else 400)


async def _read_request(connection: h11.Connection, reader: asyncio.StreamReader) -> h11.Request | None:
    """Return the next request, discarding its body; None if the connection has ended."""
    import h11

    request: h11.Request | None = None
    body_bytes = 0
    while True:
        event = connection.next_event()
        if event is h11.NEED_DATA:
            connection.receive_data(await reader.read(READ_BYTES))
        elif isinstance(event, h11.Request):
            request = event
        elif isinstance(event, h11.Data):
            body_bytes += len(event.data)
            if body_bytes > MAX_BODY_BYTES:
                raise h11.RemoteProtocolError("the body of the request is too large", 413)
        elif isinstance(event, h11.EndOfMessage):
            return request
        else:  # closed, or paused after an error
            return None


async def _send(
    connection: h11.Connection, writer: asyncio.StreamWriter, response: Response, *, with_body: bool = True
) -> None:
    import h11

    if connection.our_state not in (h11.IDLE, h11.SEND_RESPONSE):
        return
    headers = [
        ("Content-Type", response.content_type),
        ("Content-Length", str(len(response.body))),
        ("Cache-Control", "no-store"),
        *response.headers,
    ]
    reason = HTTPStatus(response.status).phrase
    events: list[h11.Event] = [h11.Response(status_code=response.status, headers=headers, reason=reason)]
    if with_body:
        events.append(h11.Data(data=response.body))
    for event in (*events, h11.EndOfMessage()):
        for piece in connection.send_with_data_passthrough(event) or ():  # a response may have megabytes
            writer.write(piece)
    async with asyncio.timeout(READ_WITHIN_S):
        await writer.drain()
