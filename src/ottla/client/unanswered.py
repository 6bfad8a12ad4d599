"""The requests of a connection that wait for their reply, by correlation id, each with its deadline."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import NamedTuple

from ottla.client.errors import ClientError
from ottla.client.reasons import api_name
from ottla.protocol.frames import SIZE, decode_response_header


class Reply(NamedTuple):
    """The frame of a reply, and where its body begins."""

    frame: memoryview
    at: int


class Waiting(NamedTuple):
    """Somebody who waits for the reply to a request."""

    reply: asyncio.Future[Reply]
    api_key: int
    version: int
    timeout_ms: float
    deadline: float


class Unanswered:
    """Matches replies with those who wait; `on_late` is told, once, that somebody has waited for too long."""

    def __init__(self, loop: asyncio.AbstractEventLoop, on_late: Callable[[str], None]) -> None:
        self._loop = loop
        self._on_late = on_late
        self._waiting: dict[int, Waiting] = {}
        self._alarm: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return len(self._waiting)

    def add(
        self, correlation_id: int, api_key: int, version: int, timeout_ms: float
    ) -> asyncio.Future[Reply]:
        """Return the future of a reply."""
        reply: asyncio.Future[Reply] = self._loop.create_future()
        deadline = self._loop.time() + timeout_ms / 1000
        self._waiting[correlation_id] = Waiting(reply, api_key, version, timeout_ms, deadline)
        if self._alarm is None or deadline < self._alarm.when():
            self._set_alarm(deadline)
        return reply

    def take(self, frame: memoryview) -> Waiting | None:
        """Return who waits for this frame; None if whoever asked has given up."""
        waiting = self._waiting.pop(SIZE.unpack_from(frame)[0], None)
        return None if waiting is None or waiting.reply.done() else waiting

    def fail(self, error: ClientError) -> None:
        """Tell everybody that no reply will come."""
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
        waiting, self._waiting = self._waiting, {}
        for each in waiting.values():
            if not each.reply.done():
                each.reply.set_exception(error)

    def _set_alarm(self, when: float) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
        self._alarm = self._loop.call_at(when, self._ring)

    def _ring(self) -> None:
        """Complain if somebody has waited for too long; else look again when one will have."""
        self._alarm = None
        now = self._loop.time()
        self._waiting = {number: each for number, each in self._waiting.items() if not each.reply.done()}
        late = [each for each in self._waiting.values() if each.deadline <= now]
        if late:
            self._on_late(f"no reply to {api_name(late[0].api_key)} within {late[0].timeout_ms / 1000:g} s")
        elif self._waiting:
            self._set_alarm(min(each.deadline for each in self._waiting.values()))


def reply_of(waiting: Waiting, frame: memoryview) -> Reply:
    """Return a frame as a reply; raise InvalidRequest if it has no proper header."""
    _, at = decode_response_header(frame, waiting.api_key, waiting.version)
    return Reply(frame, at)
