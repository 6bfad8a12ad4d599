"""An HTTP server on the running event loop: start, serve, stop in good order."""

from __future__ import annotations

import asyncio
import socket
import ssl
from types import TracebackType
from typing import Any, Self

import uvicorn

from ottla.http.guard import guarded
from ottla.http.limits import HttpLimits


class HttpServer:
    """Serves an ASGI application at one address; use it as `async with HttpServer(...)`."""

    def __init__(
        self,
        app: Any,
        host: str,
        port: int,
        limits: HttpLimits | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._limits = limits or HttpLimits()
        self._host = host
        self._port = port
        self._tls = tls
        self._socket: socket.socket | None = None
        self._config = uvicorn.Config(
            app,
            http=guarded(_protocol(), self._limits),
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            date_header=True,
            timeout_keep_alive=int(self._limits.keep_alive_s),
            timeout_graceful_shutdown=max(1, int(self._limits.graceful_stop_s)),
            proxy_headers=False,
        )
        self._server = uvicorn.Server(self._config)
        self._task: asyncio.Task[None] | None = None

    @property
    def address(self) -> tuple[str, int]:
        """Where it listens: the port that the system picked, if 0 was asked for."""
        assert self._socket is not None, "the server is not started"
        host, port = self._socket.getsockname()[:2]
        return host, port

    @property
    def url(self) -> str:
        """Return the address as clients write it."""
        host, port = self.address
        shown = f"[{host}]" if ":" in host else host
        return f"{'http' if self._tls is None else 'https'}://{shown}:{port}"

    async def start(self) -> None:
        """Listen; raise OSError if the address cannot be had."""
        family = socket.AF_INET6 if ":" in self._host else socket.AF_INET
        bound = socket.socket(family, socket.SOCK_STREAM)
        try:
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            bound.bind((self._host, self._port))
            bound.setblocking(False)
        except BaseException:
            bound.close()
            raise
        self._socket = bound
        self._config.load()
        self._config.ssl = self._tls
        self._server.lifespan = self._config.lifespan_class(self._config)
        await self._server.startup(sockets=[bound])
        self._task = asyncio.create_task(self._server.main_loop(), name="http server")

    async def stop(self) -> None:
        """Accept no more requests, finish those under way, and close."""
        if self._task is None:
            return
        self._server.should_exit = True
        await self._task
        self._task = None
        await self._server.shutdown(sockets=[self._socket] if self._socket else None)

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()


def _protocol() -> type[Any]:
    """Return the faster of uvicorn's protocols that is installed."""
    try:
        from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
    except ImportError:
        from uvicorn.protocols.http.h11_impl import H11Protocol

        return H11Protocol
    return HttpToolsProtocol
