"""Closes connections whose request is too slow or too long, or whose client does not read the response.

uvicorn limits none of these by itself. The guard stands between the transport and uvicorn's protocol: it sees
the same bytes, and knows from the protocol whether a request's head is complete.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from ottla.http.limits import HttpLimits
from ottla.security.certificate_name import distinguished_name

log = logging.getLogger(__name__)

_CLOSE = b"content-length: 0\r\nconnection: close\r\n\r\n"


def guarded(protocol: type[Any], limits: HttpLimits, names: dict[Any, str]) -> type[Any]:
    """Return a protocol class of uvicorn's that keeps the limits, and the names of clients in `names`."""

    class Guarded(protocol):  # type: ignore[misc]
        """One connection: uvicorn's protocol, with a deadline and a size for each request's head."""

        _head_bytes = 0
        _deadline: asyncio.TimerHandle | None = None
        _stalled: asyncio.TimerHandle | None = None

        def connection_made(self, transport: Any) -> None:
            """Start the clock: the first request must come."""
            super().connection_made(transport)
            name = certificate_name(transport)
            names.pop(self.client, None)  # of an earlier connection from there whose end is not known yet
            if name is not None:
                names[self.client] = name
            if len(self.connections) > limits.max_connections:
                self._refuse(503, "Service Unavailable", f"more than {limits.max_connections} connections")
                return
            self._start_clock()

        def data_received(self, data: bytes) -> None:
            """Count what belongs to a head, and stop the clock when it is complete."""
            if self.transport.is_closing():
                return
            before = self.cycle
            in_head = before is None or before.response_complete
            if in_head:
                self._head_bytes += min(len(data), limits.max_head_bytes + 1)
                if self._deadline is None:
                    self._start_clock()
            super().data_received(data)
            if self.cycle is not before:
                self._stop_clock()
                self._head_bytes = 0
            elif in_head and self._head_bytes > limits.max_head_bytes:
                self._refuse(431, "Request Header Fields Too Large", "the head of a request is too long")

        def connection_lost(self, exc: Exception | None) -> None:
            """Forget the clocks."""
            self._stop_clock()
            self._take_more()
            names.pop(self.client, None)
            super().connection_lost(exc)

        def pause_writing(self) -> None:
            """Start another clock: the client must take its answer."""
            if self._stalled is None:
                self._stalled = self.loop.call_later(limits.write_timeout_s, self.transport.abort)
            super().pause_writing()

        def resume_writing(self) -> None:
            """Stop that clock."""
            self._take_more()
            super().resume_writing()

        def _take_more(self) -> None:
            if self._stalled is not None:
                self._stalled.cancel()
                self._stalled = None

        def _start_clock(self) -> None:
            self._deadline = self.loop.call_later(limits.head_timeout_s, self._too_late)

        def _stop_clock(self) -> None:
            if self._deadline is not None:
                self._deadline.cancel()
                self._deadline = None

        def _too_late(self) -> None:
            self._deadline = None
            if self._head_bytes:
                self._refuse(408, "Request Timeout", "the head of a request did not come in time")
            elif not self.transport.is_closing():
                self.transport.close()

        def _refuse(self, status: int, phrase: str, why: str) -> None:
            log.info("%s: closed, %s", self.client, why)
            self._stop_clock()
            if not self.transport.is_closing():
                self.transport.write(b"HTTP/1.1 %d %s\r\n" % (status, phrase.encode()) + _CLOSE)
                self.transport.close()

    return Guarded


def certificate_name(transport: Any) -> str | None:
    """Return the distinguished name in the certificate that a client showed."""
    tls = transport.get_extra_info("ssl_object")
    certificate = None if tls is None else tls.getpeercert(True)
    return distinguished_name(certificate) if certificate else None
