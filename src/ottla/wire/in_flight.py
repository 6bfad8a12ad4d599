"""The requests of a connection that wait for their response, by correlation id, each with its deadline.

A request is completed by its future or by its callback. One timer covers all deadlines: it fires at the
earliest one and is then set again. It is not cancelled when a response comes: nearly all come long before
their deadline, and a timer that fires in vain costs less than one that is set and cancelled each time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

from ottla.protocol.frames import SIZE, decode_response_header, has_tagged_response_header
from ottla.wire.errors import ClientError

_has_tags = lru_cache(maxsize=1024)(has_tagged_response_header)


class Response(NamedTuple):
    """The frame of a response, and the position of its body."""

    frame: memoryview
    position: int


Callback = Callable[[Response | None, ClientError | None], None]
"""Gets the response or the error, while the response is being received; it must not raise."""


class DeadlineTimer:
    """Calls `on_deadline` at the earliest deadline that was set; set the next one from there."""

    def __init__(self, loop: asyncio.AbstractEventLoop, on_deadline: Callable[[], None]) -> None:
        self._loop = loop
        self._on_deadline = on_deadline
        self._timer: asyncio.TimerHandle | None = None
        self._fires_at = 0.0

    def set(self, deadline: float) -> None:
        """Fire at a time of the loop's clock, or before."""
        if self._timer is None or deadline < self._fires_at:
            self.cancel()
            self._fires_at = deadline
            self._timer = self._loop.call_at(deadline, self._fire)

    def cancel(self) -> None:
        """Do not fire."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _fire(self) -> None:
        self._timer = None
        self._on_deadline()


class InFlightRequest(NamedTuple):
    """A request that waits for its response."""

    future: asyncio.Future[Response] | None
    callback: Callback | None
    api_key: int
    version: int
    timeout_ms: float
    deadline: float

    @property
    def is_cancelled(self) -> bool:
        """Whether the caller no longer waits."""
        return self.future is not None and self.future.done()

    def complete(self, response: Response | None, error: ClientError | None) -> None:
        """Deliver the response, or the error."""
        if self.callback is not None:
            self.callback(response, error)
        elif self.future is not None and not self.future.done():
            if error is not None:
                self.future.set_exception(error)
                self.future.exception()  # the caller may be gone: no "never retrieved"
            elif response is not None:
                self.future.set_result(response)

    def response(self, frame: memoryview) -> Response:
        """Return a frame as the response; raise InvalidRequest if its header cannot be read."""
        if len(frame) > 4 and frame[4] == 0 and _has_tags(self.api_key, self.version):
            return Response(frame, 5)  # the usual case: a header that may have tagged fields has none
        return Response(frame, decode_response_header(frame, self.api_key, self.version)[1])


class InFlightRequests:
    """Matches responses with requests; `on_timeout` is called with the requests that timed out."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, on_timeout: Callable[[list[InFlightRequest]], None]
    ) -> None:
        self._loop = loop
        self._on_timeout = on_timeout
        self.requests: dict[int, InFlightRequest] = {}
        """By correlation id."""
        self._timer = DeadlineTimer(loop, self._check_deadlines)

    def add(
        self,
        correlation_id: int,
        api_key: int,
        version: int,
        timeout_ms: float,
        now: float,
        future: asyncio.Future[Response] | None,
        callback: Callback | None = None,
    ) -> None:
        """Wait for a response, with a future or with a callback."""
        deadline = now + timeout_ms / 1000
        self.requests[correlation_id] = InFlightRequest(
            future, callback, api_key, version, timeout_ms, deadline
        )
        self._timer.set(deadline)

    def pop(self, frame: memoryview) -> InFlightRequest | None:
        """Return the request that a frame responds to; None if its caller no longer waits."""
        request = self.requests.pop(SIZE.unpack_from(frame)[0], None)
        if request is None or (request.future is not None and request.future.done()):
            return None
        return request

    def fail(self, error: ClientError) -> None:
        """Complete all requests with an error."""
        self._timer.cancel()
        requests, self.requests = self.requests, {}
        for each in requests.values():
            if each.callback is not None:  # later: the caller that closes the connection expects no callback
                self._loop.call_soon(each.callback, None, error)
            else:
                each.complete(None, error)

    def _check_deadlines(self) -> None:
        now = self._loop.time()
        self.requests = {number: each for number, each in self.requests.items() if not each.is_cancelled}
        late = [number for number, each in self.requests.items() if each.deadline <= now]
        if late:
            self._on_timeout([self.requests.pop(number) for number in late])
        elif self.requests:
            self._timer.set(min(each.deadline for each in self.requests.values()))
