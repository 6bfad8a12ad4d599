"""One request: read within the limits, given to its handler, answered, logged.

A handler gets a `Request` and returns a `Response`. What it raises becomes an answer: an HttpError as it
says, anything else as 500 with the error in our log, and never a traceback on the wire.
"""

from __future__ import annotations

import asyncio
import json
import logging
import re
from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any

from starlette.datastructures import Headers, QueryParams

from ottla.http.errors import HttpError
from ottla.http.limits import HttpLimits
from ottla.http.origins import host_of, is_from_another_site
from ottla.http.routing import Handler, Routes, segments_of
from ottla.security.principal import ANONYMOUS

log = logging.getLogger(__name__)
access_log = logging.getLogger("ottla.http.access")

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Observer = Callable[[str, str, int, float], None]
"""Takes the method, the path with the names of its parameters, the status, and the seconds it took."""
FastPath = Callable[[Scope], "Response | None"]

CertificateNames = dict[Any, str]
"""By the address of the client."""

JSON = "application/json"
ROUTE = "ottla.route"
UNKNOWN_ROUTE = "none"
MAX_SHOWN = 100
_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")
"""A half of a character; pairs are whole."""


def _everything(name: str) -> bool:
    return True


def _no_check(name: str) -> None:
    return None


@dataclass(slots=True)
class Request:
    """A request whose body has been read."""

    method: str
    segments: list[str]
    headers: Headers
    query: QueryParams
    body: bytes = b""
    body_bytes: int = 0
    """How much of the body has come."""
    params: dict[str, str] = field(default_factory=dict)
    """The values of the path's parameters."""
    client: str = "-"
    target: str = ""
    """Path and query, as they were sent."""
    route: str = ""
    """The path with the names of its parameters."""
    principal: str = ANONYMOUS
    """The principal that sends it: `User:alice`."""
    certificate_name: str | None = None
    """The distinguished name in the client's certificate, if the connection has one."""
    may_read: Callable[[str], bool] = _everything
    """Whether the principal may read a named resource: for handlers of lists."""
    check_allowed: Callable[[str], None] = _no_check
    """Raises 403 unless the principal may do what this request does with a named resource: for handlers that
    find out only later which one it is.
    """

    @property
    def host(self) -> str:
        """The client's address without the port."""
        return self.client.rpartition(":")[0].strip("[]")

    def json(self) -> Any:
        """Return the body's JSON value; raise 400 if it has none, or text that no answer could repeat."""
        try:
            value = json.loads(self.body.decode("utf-8-sig"))
            if _SURROGATE.search(self.body):
                json.dumps(value, ensure_ascii=False).encode()
            return value
        except (ValueError, RecursionError) as error:
            raise HttpError(400, 400, f"Malformed JSON: {error}") from None

    def flag(self, name: str) -> bool:
        """Return whether a query parameter says true."""
        return self.query.get(name, "").lower() == "true"


@dataclass(slots=True)
class Response:
    """An answer."""

    body: bytes = b""
    status: int = 200
    content_type: str = JSON
    headers: tuple[tuple[bytes, bytes], ...] = ()
    stream: AsyncIterator[bytes] | None = None
    """In place of the body: chunks, written as they come, until the client goes away."""


def json_response(value: Any, status: int = 200, content_type: str = JSON) -> Response:
    """Return an answer of one JSON value."""
    body = json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()
    return Response(body, status, content_type)


class HttpApp:
    """An ASGI application over a table of routes."""

    def __init__(
        self,
        routes: Routes,
        limits: HttpLimits | None = None,
        *,
        error_type: str = JSON,
        server: str = "ottla",
    ) -> None:
        self.routes = routes
        self.limits = limits or HttpLimits()
        self.error_type = error_type
        self.fast_path: FastPath | None = None
        """Answers what needs no body, no wait and no log, straight from the scope; None: the usual way."""
        self.hosts: frozenset[str] | None = None
        """The names in Host headers that are answered (`own_hosts`); None: any."""
        self.hosts_hint = ""
        """What to do about it, for those whose name is not among them."""
        self.rewrite: Callable[[Request], None] | None = None
        """Changes the segments and the query of a request before it is routed."""
        self.around: Callable[[Request, Handler], Awaitable[Any]] | None = None
        """Called in place of the handler, with it: it may answer by itself."""
        self.authenticate: Callable[[Request], Awaitable[None]] | None = None
        """Sets the principal of a request, before its body is read; raises 401."""
        self.authorize: Callable[[Request], None] | None = None
        """Refuses what the principal may not do, with 403."""
        self.certificates: CertificateNames = {}
        """The names in the certificates of open connections; the server fills it."""
        self.observe: Observer | None = None
        """Called after each request that is not answered by the fast path."""
        self.error_page: Callable[[Request | None, HttpError], Response] | None = None
        """Makes the answer of an error; None: JSON. The request is None if it could not be read."""
        self._server = (b"server", server.encode())
        self._bodies_bytes = 0
        """The size of all bodies in flight."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            return
        if (
            self.fast_path is not None
            and self.authenticate is None
            and self.authorize is None
            and not access_log.isEnabledFor(logging.DEBUG)
            and (self.hosts is None or host_of(_host(scope)).lower() in self.hosts)
        ):
            response = self.fast_path(scope)
            if response is not None:
                await self._write(send, response)
                return
        loop = asyncio.get_running_loop()
        started = loop.time()
        try:
            async with asyncio.timeout(self.limits.request_timeout_s):
                response = await self._answer(scope, receive)
        except TimeoutError:
            response = self._error(None, HttpError(408, 408, "The request took too long"))
        if response.stream is None:
            await self._write(send, response)
        else:
            await self._write_stream(receive, send, response, response.stream)
        seconds = loop.time() - started
        if self.observe is not None:
            self.observe(scope["method"], scope.get(ROUTE, UNKNOWN_ROUTE), response.status, seconds)
        self._log(scope, response, seconds)

    async def _answer(self, scope: Scope, receive: Receive) -> Response:
        request: Request | None = None
        try:
            raw_path = scope.get("raw_path") or scope["path"].encode()
            segments = segments_of(raw_path.decode("latin-1"))
            method = scope["method"]
            request = Request(
                method,
                segments,
                Headers(scope=scope),
                QueryParams(scope["query_string"]),
                client=_client(scope),
                target=_target(scope),
            )
            self._refuse_forged(request)
            if self.rewrite is not None:
                self.rewrite(request)
            request.certificate_name = self.certificates.get(scope.get("client"))
            if method == "OPTIONS":
                return await self._methods(request)
            match = self.routes.match(method, request.segments)
            request.params = match.params
            request.route = scope[ROUTE] = match.path
            if self.authenticate is not None:
                await self.authenticate(request)
            if self.authorize is not None:
                self.authorize(request)
            request.body = await self._read_body(request, receive)
            if self.around is None:
                found = await match.handler(request)
            else:
                found = await self.around(request, match.handler)
            assert isinstance(found, Response)
            return found
        except HttpError as error:
            return self._error(request, error)
        except TimeoutError:
            raise
        except Exception:
            log.exception("%s %r failed", scope["method"], scope["path"])
            return self._error(request, HttpError(500, 500, "Internal Server Error"))
        finally:
            self._bodies_bytes -= 0 if request is None else request.body_bytes

    async def _methods(self, request: Request) -> Response:
        """Answer which methods a path has, as JAX-RS does. It allows nothing to pages of other sites."""
        request.route, methods = self.routes.allowed(request.segments)
        if self.authenticate is not None:
            await self.authenticate(request)
        allow = (b"allow", ",".join(methods).encode())
        return Response(", ".join(methods).encode(), 200, "text/plain", (allow,))

    def _refuse_forged(self, request: Request) -> None:
        """Raise 421 or 403 if a page of another site may have had a browser send this."""
        host = request.headers.get("host")  # all browsers send one
        if self.hosts is not None and host is not None and host_of(host).lower() not in self.hosts:
            raise HttpError(421, 421, f"This service is not known as {host[:MAX_SHOWN]}{self.hosts_hint}")
        if is_from_another_site(request.method, request.headers):
            raise HttpError(403, 403, "The request comes from a page of another site")

    async def _read_body(self, request: Request, receive: Receive) -> bytes:
        """Return the body; raise 413 before more of it is read than may be, 408 if it does not come.

        Raises 503 if too many large bodies are in flight.
        """
        limit, headers = self.limits.max_body_bytes, request.headers
        declared = headers.get("content-length", "0")
        if declared.isdigit() and int(declared) > limit:
            raise _TooLarge(limit)
        if declared == "0" and "transfer-encoding" not in headers:
            return b""
        chunks = []
        try:
            async with asyncio.timeout(self.limits.body_timeout_s):
                while True:
                    message = await receive()
                    if message["type"] != "http.request":
                        raise HttpError(400, 400, "The client went away")
                    chunk = message.get("body", b"")
                    self._count(request, len(chunk))
                    chunks.append(chunk)
                    if not message.get("more_body", False):
                        return b"".join(chunks)
        except TimeoutError:
            raise HttpError(408, 408, "The request's body did not come in time") from None

    def _count(self, request: Request, size: int) -> None:
        """Count a part of a body; raise 413 or 503 if it is too much."""
        limits = self.limits
        request.body_bytes += size
        self._bodies_bytes += size
        if request.body_bytes > limits.max_body_bytes:
            raise _TooLarge(limits.max_body_bytes)
        if self._bodies_bytes > limits.max_bodies_bytes and request.body_bytes > limits.small_body_bytes:
            raise HttpError(503, 503, "Too many large requests are in flight")

    def _error(self, request: Request | None, error: HttpError) -> Response:
        if self.error_page is not None:
            response = self.error_page(request, error)
        else:
            response = json_response(error.as_json(), error.status, self.error_type)
        if error.status in (400, 408, 413, 503):
            # The rest of the body may be in flight.
            response.headers = (*response.headers, (b"connection", b"close"))
        response.headers += error.headers
        return response

    async def _write(self, send: Send, response: Response) -> None:
        headers = [self._server, *response.headers]
        if response.status != 204:
            headers.append((b"content-type", response.content_type.encode()))
            headers.append((b"content-length", b"%d" % len(response.body)))
        await send({"type": "http.response.start", "status": response.status, "headers": headers})
        await send({"type": "http.response.body", "body": response.body})

    async def _write_stream(
        self, receive: Receive, send: Send, response: Response, stream: AsyncIterator[bytes]
    ) -> None:
        """Write chunks as they come; end when the stream does, or when the client goes away."""
        headers = [self._server, *response.headers, (b"content-type", response.content_type.encode())]
        await send({"type": "http.response.start", "status": response.status, "headers": headers})

        async def write() -> None:
            async with aclosing(stream) as chunks:  # type: ignore[type-var]
                async for chunk in chunks:
                    await send({"type": "http.response.body", "body": chunk, "more_body": True})
            await send({"type": "http.response.body", "body": b""})

        async def watch() -> None:
            while (await receive())["type"] != "http.disconnect":
                pass

        writing = asyncio.create_task(write(), name="http stream")
        watching = asyncio.create_task(watch(), name="http stream's client")
        try:
            await asyncio.wait((writing, watching), return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (writing, watching):
                task.cancel()
            ended = await asyncio.gather(writing, watching, return_exceptions=True)
        if isinstance(ended[0], Exception):
            log.error("a stream failed", exc_info=ended[0])

    def _log(self, scope: Scope, response: Response, seconds: float) -> None:
        level = logging.INFO if response.status >= 500 else logging.DEBUG
        if access_log.isEnabledFor(level):
            access_log.log(
                level,
                "%s %s %r %d %d bytes %.1f ms",
                _client(scope),
                scope["method"],
                _target(scope),
                response.status,
                len(response.body),
                seconds * 1000,
            )


class _TooLarge(HttpError):
    def __init__(self, limit: int) -> None:
        super().__init__(413, 413, f"The request's body is larger than {limit} bytes")


def _client(scope: Scope) -> str:
    client = scope.get("client")
    return f"{client[0]}:{client[1]}" if client else "-"


def _host(scope: Scope) -> str:
    return next((value.decode("latin-1") for name, value in scope["headers"] if name == b"host"), "")


def _target(scope: Scope) -> str:
    raw: bytes = scope.get("raw_path") or scope["path"].encode()
    query: bytes = scope["query_string"]
    return (raw + (b"?" + query if query else b"")).decode("latin-1")
