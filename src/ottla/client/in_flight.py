"""The requests of a connection that wait for their reply, by correlation id, each with its deadline."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

from ottla.client.errors import ClientError
from ottla.client.reasons import api_name
from ottla.protocol.frames import SIZE, decode_response_header, has_tagged_response_header

# One timer for many deadlines: it rings at the earliest, and whoever is rung at looks who is late.
#
# It is not taken back when somebody waits no longer: most stop waiting long before their deadline, and an
# alarm that rings for nobody costs less than one that is set and cancelled each time.


class DeadlineTimer:
    """Calls `on_ring` at the earliest of the deadlines that it was told of; then it is to be told anew."""

    def __init__(self, loop: asyncio.AbstractEventLoop, on_ring: Callable[[], None]) -> None:
        self._loop = loop
        self._on_ring = on_ring
        self._timer: asyncio.TimerHandle | None = None
        self._rings_at = 0.0

    def ring_by(self, deadline: float) -> None:
        """Ring at a time of the loop's clock, or before."""
        if self._timer is None or deadline < self._rings_at:
            self.cancel()
            self._rings_at = deadline
            self._timer = self._loop.call_at(deadline, self._ring)

    def cancel(self) -> None:
        """Do not ring."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _ring(self) -> None:
        self._timer = None
        self._on_ring()


_has_tags = lru_cache(maxsize=1024)(has_tagged_response_header)


class Reply(NamedTuple):
    """The frame of a reply, and where its body begins."""

    frame: memoryview
    at: int


Then = Callable[[Reply | None, ClientError | None], None]
"""Is told the reply, or why there will be none; at once, so it must not raise."""


class Waiting(NamedTuple):
    """Somebody who waits for the reply to a request: with a future, or with a function to be called."""

    reply: asyncio.Future[Reply] | None
    then: Then | None
    api_key: int
    version: int
    timeout_ms: float
    deadline: float

    @property
    def has_given_up(self) -> bool:
        """Whether nobody wants the reply any more."""
        return self.reply is not None and self.reply.done()

    def tell(self, reply: Reply | None, error: ClientError | None) -> None:
        """Hand the reply over, or the error."""
        if self.then is not None:
            self.then(reply, error)
        elif self.reply is not None and not self.reply.done():
            if error is not None:
                self.reply.set_exception(error)
            elif reply is not None:
                self.reply.set_result(reply)


class InFlightRequests:
    """Matches replies with those who wait; `on_late` is told, once, that somebody has waited for too long."""

    def __init__(self, loop: asyncio.AbstractEventLoop, on_late: Callable[[str], None]) -> None:
        self._loop = loop
        self._on_late = on_late
        self._waiting: dict[int, Waiting] = {}
        self._alarm = DeadlineTimer(loop, self._look)

    def __len__(self) -> int:
        return len(self._waiting)

    def add(
        self,
        correlation_id: int,
        api_key: int,
        version: int,
        timeout_ms: float,
        now: float,
        reply: asyncio.Future[Reply] | None,
        then: Then | None = None,
    ) -> None:
        """Wait for a reply, from now on, with a future or with a function."""
        deadline = now + timeout_ms / 1000
        self._waiting[correlation_id] = Waiting(reply, then, api_key, version, timeout_ms, deadline)
        self._alarm.ring_by(deadline)

    def take(self, frame: memoryview) -> Waiting | None:
        """Return who waits for this frame; None if whoever asked has given up."""
        waiting = self._waiting.pop(SIZE.unpack_from(frame)[0], None)
        return None if waiting is None or (waiting.then is None and waiting.has_given_up) else waiting

    def fail(self, error: ClientError) -> None:
        """Tell everybody that no reply will come."""
        self._alarm.cancel()
        waiting, self._waiting = self._waiting, {}
        for each in waiting.values():
            if each.then is not None:  # not at once: whoever closes the connection is not prepared for that
                self._loop.call_soon(each.then, None, error)
            else:
                each.tell(None, error)

    def _look(self) -> None:
        """Complain if somebody has waited for too long; else look again when one will have."""
        now = self._loop.time()
        self._waiting = {number: each for number, each in self._waiting.items() if not each.has_given_up}
        late = [each for each in self._waiting.values() if each.deadline <= now]
        if late:
            self._on_late(f"no reply to {api_name(late[0].api_key)} within {late[0].timeout_ms / 1000:g} s")
        elif self._waiting:
            self._alarm.ring_by(min(each.deadline for each in self._waiting.values()))


def reply_of(waiting: Waiting, frame: memoryview) -> Reply:
    """Return a frame as a reply; raise InvalidRequest if it has no proper header."""
    if len(frame) > 4 and frame[4] == 0 and _has_tags(waiting.api_key, waiting.version):
        return Reply(frame, 5)  # it might have tagged fields, and has none: as a rule
    _, at = decode_response_header(frame, waiting.api_key, waiting.version)
    return Reply(frame, at)
