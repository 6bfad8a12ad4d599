"""Runs a state machine on one partition: append, change, wait for the commit, answer.

There is no await between deciding, appending and changing, so the log and the state move as one, one
event at a time. Every reply, also one without records of its own, waits until the last appended record
is committed: no client ever sees what a failover could revert. When all is committed already, which
on one replica is always, a call answers at once and costs neither a task nor a future.

A request that is to be answered by a later step (JoinGroup, SyncGroup) is parked under its token. If the
client that waits for it disconnects, its future is cancelled and the token is no longer valid.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from itertools import count
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, TypeVar

from ottla.common.clock import Clock
from ottla.coordinator.effects import Reply, SetTimer, Step, TimerKey
from ottla.protocol.errors import (
    CoordinatorLoadInProgress,
    CoordinatorNotAvailable,
    KafkaError,
    KafkaStorageError,
    MessageTooLarge,
    NotCoordinator,
    NotEnoughReplicas,
    NotEnoughReplicasAfterAppend,
    NotLeaderOrFollower,
    RecordListTooLarge,
    RequestTimedOut,
    UnknownServerError,
    UnknownTopicOrPartition,
)

# Timers of a state machine: many, and most are postponed before they run out. Postponing costs a dictionary
# entry: the event loop's own timer stays, checks the deadline when it fires, and is set again if that moved.
#
# A timer that fires late means that the loop was blocked, or the process paused; heartbeats may be waiting in
# the sockets. So it gets a grace period, in which those are read.

LATE_S = 0.2
GRACE_S = 0.5


class _Entry:
    __slots__ = ("deadline", "handle", "has_grace", "wakes_at")

    handle: asyncio.TimerHandle

    def __init__(self, deadline: float) -> None:
        self.deadline = deadline
        self.wakes_at = deadline
        self.has_grace = False


class Timers:
    """Calls `fire(key)` when the timer `key` has run out."""

    def __init__(self, fire: Callable[[TimerKey], None]) -> None:
        self._fire = fire
        self._loop = asyncio.get_running_loop()
        self._entries: dict[TimerKey, _Entry] = {}

    def __len__(self) -> int:
        return len(self._entries)

    def set(self, key: TimerKey, after_ms: int) -> None:
        """Set the timer, or move it, to run out in `after_ms`."""
        deadline = self._loop.time() + after_ms / 1000
        entry = self._entries.get(key)
        if entry is None:
            entry = self._entries[key] = _Entry(deadline)
            self._sleep(key, entry, deadline)
            return
        entry.deadline = deadline
        entry.has_grace = False
        if deadline < entry.wakes_at:
            entry.handle.cancel()
            self._sleep(key, entry, deadline)

    def cancel(self, key: TimerKey) -> None:
        """Cancel a timer."""
        entry = self._entries.pop(key, None)
        if entry is not None:
            entry.handle.cancel()

    def clear(self) -> None:
        """Cancel all of them."""
        for entry in self._entries.values():
            entry.handle.cancel()
        self._entries.clear()

    def _on_wakeup(self, key: TimerKey) -> None:
        entry = self._entries[key]
        now = self._loop.time()
        if entry.deadline > now:
            self._sleep(key, entry, entry.deadline)
        elif now - entry.deadline > LATE_S and not entry.has_grace:
            entry.has_grace = True
            self._sleep(key, entry, now + GRACE_S)
        else:
            del self._entries[key]
            self._fire(key)

    def _sleep(self, key: TimerKey, entry: _Entry, until: float) -> None:
        # The time is stored here: the handle that uvloop returns for a timer that is due has none.
        entry.wakes_at = until
        entry.handle = self._loop.call_at(until, self._on_wakeup, key)


logger = logging.getLogger(__name__)

RETRY_MS = 1000
"""When to try again what failed for want of replicas: a timer's records, or a commit that sends wait for."""
RETRY_AFTER_DEFECT_MS = 60_000
"""When to try a timer again that failed in an unknown way: not so often that it fills the log."""

Replay = Callable[[Any], None]
P = ParamSpec("P")
R = TypeVar("R")


class Machine(Protocol):
    """What the runtime needs of a state machine."""

    def loaded(self, now_ms: int) -> Step[None]:
        """Begin to work, after all records were replayed."""
        ...

    def on_timer(self, now_ms: int, key: TimerKey) -> Step[None]:
        """Handle a timer that has run out."""
        ...

    def replay(self, record: Any) -> None:
        """Apply one record."""
        ...

    def apply(self, change: object) -> None:
        """Apply one change that is not written."""
        ...


M = TypeVar("M", bound=Machine)


def _refuse_sends(message: object) -> None:
    raise ValueError(f"unexpected message {message}")


class Writer(Protocol):
    """The partition under a machine."""

    async def load(self, replay: Replay) -> int:
        """Replay all records, with other work in between; return the offset after the last."""
        ...

    def append(self, records: tuple[Any, ...]) -> tuple[int, int]:
        """Append the first of the records in one batch; return the offset after it, and how many."""
        ...

    def committed(self, offset: int) -> asyncio.Future[None] | None:
        """Return None if all below `offset` is committed, else a future for when it is."""
        ...


class Runtime(Generic[M]):
    """One machine, one partition, one event at a time."""

    def __init__(
        self,
        machine: M,
        writer: Writer,
        clock: Clock,
        commit_timeout_ms: int,
        send: Callable[[object], None] = _refuse_sends,
    ) -> None:
        self.machine = machine
        self._send = send
        self._writer = writer
        self._clock = clock
        self._commit_timeout_ms = commit_timeout_ms
        self._loop = asyncio.get_running_loop()
        self._timers = Timers(self._on_timer)
        self._tokens = count(1)
        self._parked: dict[int, asyncio.Future[Any]] = {}
        self._end_offset = 0
        self._refusal: type[KafkaError] | None = CoordinatorLoadInProgress

    @property
    def is_active(self) -> bool:
        """Return whether it has loaded, and has not been unloaded."""
        return self._refusal is None

    @property
    def parked_count(self) -> int:
        """How many requests wait for an answer."""
        return len(self._parked)

    async def load(self) -> None:
        """Replay the partition. A new leader may not have committed all of it yet: answers wait for that."""
        self._end_offset = await self._writer.load(self.machine.replay)

    def activate(self) -> None:
        """Take requests from now on."""
        self._refusal = None
        self.run_event(type(self.machine).loaded)

    def unload(self) -> None:
        """Refuse further requests; parked ones get NOT_COORDINATOR."""
        self._refusal = NotCoordinator
        self._timers.clear()
        parked, self._parked = self._parked, {}
        for future in parked.values():
            if not future.done():
                future.set_exception(NotCoordinator("the partition is led elsewhere now"))

    def call(
        self, event: Callable[Concatenate[M, int, int, P], Step[R]], *args: P.args, **kwargs: P.kwargs
    ) -> R | asyncio.Future[R]:
        """Run `event(machine, now_ms, token, ...)` and return its reply, or a future for it.

        A reply that is a KafkaError is raised. If the records cannot be appended, nothing has changed.
        """
        if self._refusal is not None:
            raise self._refusal("the coordinator of this group is not active here")
        token = next(self._tokens)
        now_ms = self._clock.wall_ms()
        step = event(self.machine, now_ms, token, *args, **kwargs)
        self._take(step, now_ms)
        commit = self._writer.committed(self._end_offset)
        if commit is not None:
            parked = self._park(token)
            self._settle_later(step, commit)
            return parked
        for message in step.sends:
            self._send(message)
        own: Reply[R] | None = None
        for reply in step.replies:
            if reply.token == token:
                own = reply
            else:
                self._settle(reply)
        if own is None:
            return self._park(token)
        if isinstance(own.response, KafkaError):
            raise own.response
        return own.response

    def run_event(
        self, event: Callable[Concatenate[M, int, P], Step[None]], *args: P.args, **kwargs: P.kwargs
    ) -> None:
        """Run `event(machine, now_ms, ...)`, whose reply is not waited for."""
        now_ms = self._clock.wall_ms()
        step = event(self.machine, now_ms, *args, **kwargs)
        self._take(step, now_ms)
        if step.replies or step.sends:
            commit = self._writer.committed(self._end_offset)
            if commit is not None:
                self._settle_later(step, commit)
            else:
                for message in step.sends:
                    self._send(message)
                for reply in step.replies:
                    self._settle(reply)

    def _take(self, step: Step[Any], now_ms: int) -> None:
        records = step.records
        while records:
            # Nearly always all of them. What is too much for one batch can be cut short by a disk that is
            # full; then the state is that of the log, and the request gets an error.
            try:
                self._end_offset, count = self._writer.append(records)
            except KafkaError as error:
                raise as_coordinator_error(error) from error
            for record in records[:count]:
                self.machine.replay(record)
            records = records[count:]
        for change in step.changes:
            self.machine.apply(change)
        for timer in step.timers:
            if isinstance(timer, SetTimer):
                self._timers.set(timer.key, timer.at_ms - now_ms)
            else:
                self._timers.cancel(timer.key)

    def _on_timer(self, key: TimerKey) -> None:
        try:
            self.run_event(type(self.machine).on_timer, key)
        except KafkaError as error:
            logger.warning("timer %s: %s; trying again in %d ms", key, error, RETRY_MS)
            self._timers.set(key, RETRY_MS)
        except Exception:
            # A defect. Without the timer nothing of its kind would ever happen again: no timeout, no expiry.
            logger.exception("timer %s failed; trying again in %d ms", key, RETRY_AFTER_DEFECT_MS)
            self._timers.set(key, RETRY_AFTER_DEFECT_MS)

    # Answers

    def _park(self, token: int) -> asyncio.Future[Any]:
        future: asyncio.Future[Any] = self._loop.create_future()
        self._parked[token] = future
        future.add_done_callback(lambda _: self._parked.pop(token, None))
        return future

    def _settle(self, reply: Reply[Any]) -> None:
        future = self._parked.pop(reply.token, None)
        if future is None or future.done():
            return
        if isinstance(reply.response, KafkaError):
            future.set_exception(reply.response)
        else:
            future.set_result(reply.response)

    def _settle_later(self, step: Step[Any], commit: asyncio.Future[None]) -> None:
        """Send messages and replies once their records are committed, or say in time that they are not."""
        if step.sends:
            self._send_when_committed(step.sends, self._end_offset)

        def give_up() -> None:
            for reply in step.replies:
                self._settle(Reply(reply.token, CoordinatorNotAvailable("not committed in time")))

        timeout = self._loop.call_later(self._commit_timeout_ms / 1000, give_up)

        def settle(commit: asyncio.Future[None]) -> None:
            timeout.cancel()
            error = NotCoordinator("stopped") if commit.cancelled() else commit.exception()
            for reply in step.replies:
                if error is not None:
                    reply = Reply(reply.token, as_coordinator_error(error))
                self._settle(reply)

        commit.add_done_callback(settle)

    def _send_when_committed(self, messages: Sequence[object], offset: int) -> None:
        """Send what is decided by records below `offset`, whenever they are committed.

        Too few replicas in sync are no reason to give up: the records are in the log, and count as soon as
        there are enough again. The request has failed by then, and may be sent again; but
        a decision that is in the state must be carried out, or it would stay pending forever.
        """
        if not self.is_active:
            return
        commit = self._writer.committed(offset)
        if commit is None:
            for message in messages:
                self._send(message)
            return

        def settled(commit: asyncio.Future[None]) -> None:
            if commit.cancelled() or commit.exception() is not None:
                self._loop.call_later(RETRY_MS / 1000, self._send_when_committed, messages, offset)
            else:
                self._send_when_committed(messages, offset)

        commit.add_done_callback(settled)


def as_coordinator_error(error: BaseException) -> KafkaError:
    """Return the error for clients of the coordinator when its partition fails."""
    match error:
        case (
            UnknownTopicOrPartition()
            | NotEnoughReplicas()
            | NotEnoughReplicasAfterAppend()
            | RequestTimedOut()
        ):
            return CoordinatorNotAvailable(str(error))
        case NotLeaderOrFollower() | KafkaStorageError():
            return NotCoordinator(str(error))
        case MessageTooLarge() | RecordListTooLarge():
            return UnknownServerError(str(error))
        case KafkaError():
            return error
    logger.error("the coordinator's partition failed", exc_info=error)
    return UnknownServerError("the broker failed; its log says why")
