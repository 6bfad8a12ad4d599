"""The registry's state and the topic that it is the fold of: read on, catch up, append.

A task reads the topic and replays it. Who must not be stale calls `catch_up` first: it asks for the end of
the topic, once for all who ask at the same time, and waits until the reader is there. Who writes has decided
from the state at an offset, and appends only if the topic still ends there. Any number of processes do the
same.

If the outcome of an append is not known (no answer, a new leader), it is sent again, as it was: the offset
that it names can only be taken once. If the answer is that it is taken, the record there shows who took
it.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any, Generic, Protocol, Self, TypeVar

from ottla.common.clock import Clock, SystemClock
from ottla.common.ids import new_uuid
from ottla.registry import errors
from ottla.registry.records import UnreadableRecord, decode
from ottla.registry.state import RegistryState
from ottla.registry.topic import Conflict, LogRecord, LogReset, RecordTooLarge, Topic, Unavailable

log = logging.getLogger(__name__)

READ_TIMEOUT_S = 1.0
PAUSE_S = 0.05
REMEMBERED_WRITES = 1_000


class State(Protocol):
    """What the records of a topic add up to."""

    position: int
    """The offset behind the last record that was replayed."""

    def replay(self, record: Any, offset: int, timestamp: int = -1) -> None:
        """Take one record over; None is one that cannot be read."""
        ...


StateT = TypeVar("StateT", bound=State)


class Encodable(Protocol):
    """A record to append."""

    def encode(self) -> tuple[bytes, bytes | None]:
        """Return key and value."""
        ...


class StateLog(Generic[StateT]):
    """Owns a state that is the fold of a topic; use it as `async with StateLog(topic, ...)`."""

    def __init__(
        self,
        topic: Topic,
        make_state: Callable[[], StateT],
        read_record: Callable[[bytes | None, bytes | None], Any],
        clock: Clock | None = None,
        timeout_s: float = 10.0,
    ) -> None:
        self._make_state = make_state
        self._read_record = read_record
        self.state = make_state()
        self.writing = asyncio.Lock()
        """Held from a decision to the end of its append, so that writers of one process do not conflict."""
        self.conflicts = 0
        """How many appends lost to another process and were repeated."""
        self._topic = topic
        self._clock = clock or SystemClock()
        self._timeout_s = timeout_s
        self._moved = asyncio.Condition()
        self._reader: asyncio.Task[None] | None = None
        self._failure: BaseException | None = None
        self._writes: OrderedDict[int, bytes] = OrderedDict()
        """Which write the last records came with, by offset."""
        self._barrier: asyncio.Task[int] | None = None
        self._next_barrier: asyncio.Task[int] | None = None

    async def __aenter__(self) -> Self:
        self._reader = asyncio.create_task(self._read_on(), name="schema reader")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        tasks = [each for each in (self._reader, self._barrier, self._next_barrier) if each is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    @property
    def reads_before_writes(self) -> bool:
        """Whether to catch up before every decision to write."""
        return self._topic.reads_before_writes

    @property
    def failure(self) -> BaseException | None:
        """Why the reader ended, if it has; nothing is read from then on."""
        return self._failure

    async def lag(self, timeout_s: float) -> int:
        """Return how many records are not replayed; raise TimeoutError or Unavailable without a response."""
        async with asyncio.timeout(timeout_s):
            return max(0, await self._end_offset() - self.state.position)

    # Reading

    async def _read_on(self) -> None:
        held_up = ""
        while True:
            try:
                read = await self._topic.read(READ_TIMEOUT_S)
            except Unavailable as error:
                if str(error) != held_up:
                    log.warning("cannot read the schemas, retrying: %s", error)
                    held_up = str(error)
                await asyncio.sleep(PAUSE_S)
                continue
            except LogReset as error:
                log.error("the schemas are read from the beginning: %s", error)
                await self._start_again()
                continue
            except Exception as error:
                self._failure = error
                log.exception("the reader of the schemas ended")
                async with self._moved:
                    self._moved.notify_all()
                raise
            held_up = ""
            for record in read.records:
                self._replay(record)
            self.state.position = max(self.state.position, read.position)
            async with self._moved:
                self._moved.notify_all()

    async def _start_again(self) -> None:
        self.state = self._make_state()
        self._writes.clear()
        self._topic.rewind()
        await asyncio.sleep(PAUSE_S)

    def _replay(self, record: LogRecord) -> None:
        if record.offset < self.state.position:
            return  # replayed when it was written
        if record.write_id is not None:
            self._remember(record.offset, record.write_id)
        try:
            decoded = self._read_record(record.key, record.value)
        except UnreadableRecord as error:
            log.warning("record %d of the topic is skipped: %s", record.offset, error)
            decoded = None
        self.state.replay(decoded, record.offset, record.timestamp)

    def _remember(self, offset: int, write_id: bytes) -> None:
        self._writes[offset] = write_id
        while len(self._writes) > REMEMBERED_WRITES:
            self._writes.popitem(last=False)

    async def _reached(self, offset: int) -> None:
        """Wait until everything below `offset` is replayed."""
        async with self._moved:
            await self._moved.wait_for(lambda: self.state.position >= offset or self._failure is not None)
        if self._failure is not None:
            raise Unavailable(f"the reader of the schemas ended: {self._failure!r}")

    async def catch_up(self) -> StateT:
        """Return a state that has everything that was written before the call; raise 50002 if that fails."""
        try:
            async with asyncio.timeout(self._timeout_s):
                end = await self._end_offset()
                if self.state.position < end:
                    await self._reached(end)
        except (TimeoutError, Unavailable) as error:
            why = "in time" if isinstance(error, TimeoutError) else f"({error})"
            raise errors.timed_out(f"The schemas could not be read up to their end {why}") from None
        return self.state

    async def _end_offset(self) -> int:
        """Return an end of the topic that was asked for after this call; shared by all who call meanwhile."""
        if self._barrier is None or self._barrier.done():
            self._barrier = asyncio.create_task(self._topic.end_offset())
            return await asyncio.shield(self._barrier)
        if self._next_barrier is None or self._next_barrier.done():
            self._next_barrier = asyncio.create_task(self._after(self._barrier))
        return await asyncio.shield(self._next_barrier)

    async def _after(self, barrier: asyncio.Task[int]) -> int:
        await asyncio.wait([barrier])
        self._barrier, self._next_barrier = self._next_barrier, None
        return await self._topic.end_offset()

    # Writing

    async def append(self, records: Sequence[Encodable]) -> None:
        """Append what was decided from the state as it is, and replay it; call it with `writing` held.

        Raises Conflict if another process has written since: catch up and decide again. Raises 50002 if the
        outcome is not known in time.
        """
        expected = self.state.position
        encoded = [each.encode() for each in records]
        write_id = new_uuid().bytes
        now_ms = self._clock.wall_ms()
        try:
            async with asyncio.timeout(self._timeout_s):
                base_offset = await self._append(encoded, expected, write_id, now_ms)
        except TimeoutError:
            raise errors.timed_out("Write to the Kafka store timed out") from None
        except RecordTooLarge:
            raise errors.schema_too_large() from None
        except Conflict:
            self.conflicts += 1
            raise
        for offset, (key, value) in enumerate(encoded, base_offset):
            self._replay(LogRecord(offset, now_ms, key, value, write_id))

    async def _append(
        self,
        encoded: Sequence[tuple[bytes, bytes | None]],
        expected: int,
        write_id: bytes,
        now_ms: int,
    ) -> int:
        """Send an append until its outcome is known."""
        is_known = True
        while True:
            try:
                return await self._topic.append(encoded, expected, write_id, now_ms)
            except Conflict:
                if is_known:
                    raise
                await self._reached(expected + 1)
                if self._writes.get(expected) == write_id:
                    return expected
                raise
            except Unavailable as error:
                is_known = False
                log.info("an append at %d has no outcome yet, will be sent again: %s", expected, error)
                await asyncio.sleep(PAUSE_S)


class SchemaLog(StateLog[RegistryState]):
    """The schemas, and the topic that they are in."""

    def __init__(self, topic: Topic, clock: Clock | None = None, timeout_s: float = 10.0) -> None:
        super().__init__(topic, RegistryState, decode, clock, timeout_s)
