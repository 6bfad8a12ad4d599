"""An HTTP server on the running event loop: start, serve, stop in good order."""

from __future__ import annotations

import asyncio
import functools
import socket
import ssl
from typing import Any

import uvicorn

from ottla.http.guard import guarded
from ottla.http.limits import HttpLimits


class HttpServer:
    """Serves an ASGI application at one address: `bind`, `serve`, `stop`."""

    def __init__(
        self, host: str, port: int, limits: HttpLimits | None = None, tls: ssl.SSLContext | None = None
    ) -> None:
        self._limits = limits or HttpLimits()
        self._host = host
        self._port = port
        self._tls = tls
        self._socket: socket.socket | None = None
        self._server: uvicorn.Server | None = None
        self._task: asyncio.Task[None] | None = None

    @property
    def address(self) -> tuple[str, int]:
        """Where it listens: the port that the system picked, if 0 was asked for."""
        assert self._socket is not None, "the server has no address yet"
        host, port = self._socket.getsockname()[:2]
        return host, port

    @property
    def url(self) -> str:
        """Return the address as clients write it."""
        host, port = self.address
        shown = f"[{host}]" if ":" in host else host
        return f"{'http' if self._tls is None else 'https'}://{shown}:{port}"

    def bind(self) -> None:
        """Bind the address before the first request; raise OSError if it is in use."""
        family = socket.AF_INET6 if ":" in self._host else socket.AF_INET
        bound = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        try:
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            # Head and body of an answer are two writes: the second must not wait for the first's ACK.
            bound.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            bound.bind((self._host, self._port))
            bound.setblocking(False)
        except BaseException:
            bound.close()
            raise
        self._socket = bound

    async def serve(self, app: Any) -> None:
        """Accept requests from now on, and return."""
        if self._socket is None:
            self.bind()
        limits = self._limits
        config = uvicorn.Config(
            app,
            http=guarded(_protocol(), limits, getattr(app, "certificates", {})),
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            timeout_keep_alive=int(limits.keep_alive_s),
            timeout_graceful_shutdown=max(1, int(limits.graceful_stop_s)),
            proxy_headers=False,
        )
        config.load()
        config.ssl = self._tls
        server = _Server(config, limits)  # its signal handlers are not used: signals are the command's
        server.lifespan = config.lifespan_class(config)
        assert self._socket is not None
        await server.startup(sockets=[self._socket])
        self._server = server
        self._task = asyncio.create_task(server.main_loop(), name="http server")

    async def stop(self) -> None:
        """Accept no more requests, finish those in flight, and close."""
        if self._task is not None and self._server is not None:
            self._server.should_exit = True
            await self._task
            self._task = None
            await self._server.shutdown()
        if self._socket is not None:
            self._socket.close()
            self._socket = None


class _Server(uvicorn.Server):
    """uvicorn's server, with a limit on the time of TLS handshakes: asyncio's is a minute."""

    def __init__(self, config: uvicorn.Config, limits: HttpLimits) -> None:
        super().__init__(config)
        self._limits = limits

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen on the sockets."""
        config = self.config
        protocol: Any = config.http_protocol_class
        make = functools.partial(
            protocol,
            config=config,
            server_state=self.server_state,
            app_state=self.lifespan.state,
        )
        timeout_s = None if config.ssl is None else self._limits.head_timeout_s
        loop = asyncio.get_running_loop()
        self.servers = [
            await loop.create_server(
                make, sock=each, ssl=config.ssl, backlog=config.backlog, ssl_handshake_timeout=timeout_s
            )
            for each in sockets or ()
        ]
        self.started = True


def _protocol() -> type[Any]:
    """Return the faster of uvicorn's protocols that is installed."""
    try:
        from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
    except ImportError:
        from uvicorn.protocols.http.h11_impl import H11Protocol

        return H11Protocol
    return HttpToolsProtocol
