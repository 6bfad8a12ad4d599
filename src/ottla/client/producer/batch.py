"""A batch of records for one partition, and the futures of its records.

A batch is open while records are added, sealed when it is taken to be sent (then it is encoded), and
settled when its fate is known: stored, or failed for good. What is waited for is the batch: a record's
`Delivery` is only the batch and the record's place in it, so that a record costs next to nothing.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Generator
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple

from ottla.client.errors import TimedOut
from ottla.client.event_loop_thread import check_may_wait
from ottla.common.ids import TopicPartition
from ottla.protocol.records.record_encoder import MAX_OVERHEAD_BYTES, NewRecord, encode_new_batch, restamp
from ottla.protocol.records.records import Record, decode_records

MAX_SEQUENCE = 2**31 - 1
MAX_DECOMPRESSED_BYTES = 512 * 1024 * 1024

Callback = Callable[["RecordMetadata | None", "Exception | None"], object]
"""Called with the metadata of a stored record, or the error."""


class RecordMetadata(NamedTuple):
    """The partition, offset and timestamp of a stored record."""

    topic: str
    partition: int
    offset: int
    """-1 if the broker does not say: with acks=0, or when an earlier attempt turned out to have stored it."""
    timestamp: int
    """In milliseconds: the record's own, or when the broker appended it, as the topic is configured."""

    @property
    def topic_partition(self) -> TopicPartition:
        """The partition it was stored in."""
        return TopicPartition(self.topic, self.partition)


class Identity(NamedTuple):
    """Producer id and epoch of an idempotent producer; each partition has its own epoch."""

    producer_id: int = -1
    producer_epoch: int = -1


class Batch:
    """The records of one batch."""

    __slots__ = (
        "attempts",
        "base_offset",
        "base_sequence",
        "callbacks",
        "children",
        "count",
        "created_at",
        "encoded",
        "error",
        "identity",
        "is_flushed",
        "is_observed",
        "is_settled",
        "is_transactional",
        "last_error",
        "log_append_time_ms",
        "may_be_stored",
        "order",
        "parent",
        "partition",
        "records",
        "retry_at",
        "size_bytes",
        "waiters",
    )

    def __init__(self, partition: TopicPartition, created_at: float) -> None:
        self.partition = partition
        self.created_at = created_at
        self.records: list[NewRecord] = []
        self.count = 0
        self.size_bytes = 0
        """The uncompressed size of its records, rounded up: its buffer space."""
        self.is_flushed = False
        """Whether it is sent without lingering."""
        self.encoded: bytearray | None = None
        self.identity = Identity()
        self.base_sequence = -1
        self.is_transactional = False
        self.order = (0, 0)
        """Its place in its partition; parts of a batch that was split share the first number."""
        self.children: list[Batch] = []
        """The parts that it was split into after MESSAGE_TOO_LARGE."""
        self.parent: Batch | None = None
        self.attempts = 0
        self.retry_at = 0.0
        self.may_be_stored = False
        """Whether the response of an attempt was lost."""
        self.last_error: Exception | None = None
        self.is_settled = False
        self.error: Exception | None = None
        self.base_offset = -1
        self.log_append_time_ms = -1
        self.is_observed = False
        """Whether its outcome was observed: awaited, or passed to a callback."""
        self.callbacks: list[tuple[int, int, Callback]] | None = None
        self.waiters: list[Callable[[], object]] | None = None

    def add(self, record: NewRecord, size_bytes: int, callback: Callback | None = None) -> Delivery:
        """Append a record, with an optional delivery callback."""
        place = self.count
        self.records.append(record)
        self.count = place + 1
        self.size_bytes += size_bytes
        if callback is not None:
            if self.callbacks is None:
                self.callbacks = []
            self.callbacks.append((place, record[0], callback))
        return Delivery(self, place, record[0])

    def encode(self, codec: int) -> None:
        """Encode the batch, if it is not yet, and let its records go; in any thread."""
        records = self.records
        if self.encoded is not None or not records:
            return
        encoded = encode_new_batch(
            records,
            codec=codec,
            producer_id=self.identity.producer_id,
            producer_epoch=self.identity.producer_epoch,
            base_sequence=self.base_sequence,
            transactional=self.is_transactional,
        )
        if not self.is_settled:
            self.encoded = encoded
            self.records = []

    def sign(self, identity: Identity, base_sequence: int) -> None:
        """Give the batch a producer id, an epoch and its place in the sequence."""
        self.identity = identity
        self.base_sequence = base_sequence
        if self.encoded is not None:
            restamp(self.encoded, identity.producer_id, identity.producer_epoch, base_sequence)

    def settle(
        self, *, base_offset: int = -1, log_append_time_ms: int = -1, error: Exception | None = None
    ) -> None:
        """Complete the batch, once, and its futures; the last part of a split one completes the whole."""
        self.base_offset = base_offset
        self.log_append_time_ms = log_append_time_ms
        self.error = error
        self.records = []
        self.encoded = None
        self.is_settled = True
        if self.waiters is not None:
            for wake in self.waiters:
                wake()
        whole = self.parent
        if whole is not None and all(part.is_settled for part in whole.children):
            whole.settle(error=next((part.error for part in whole.children if part.error), None))

    def when_settled(self, wake: Callable[[], object]) -> None:
        """Call `wake` when the batch is completed, at once if it is; from any thread, perhaps twice."""
        if self.waiters is None:
            self.waiters = []
        self.waiters.append(wake)
        if self.is_settled:
            wake()

    async def settled(self) -> None:
        """Wait until the batch is completed, on any event loop."""
        if not self.is_settled:
            loop = asyncio.get_running_loop()
            future: asyncio.Future[None] = loop.create_future()
            self.when_settled(partial(_wake, loop, threading.get_ident(), future))
            await future

    def metadata(self, place: int, timestamp: int) -> RecordMetadata:
        """Return the metadata of one of its records."""
        offset = self.base_offset + place if self.base_offset >= 0 else -1
        when = self.log_append_time_ms if self.log_append_time_ms >= 0 else timestamp
        return RecordMetadata(self.partition.topic, self.partition.partition, offset, when)

    def split(self) -> list[Batch]:
        """Return two batches with the records of this one; it is completed when both are."""
        records = [(each.timestamp, each.key, each.value, each.headers) for each in self._decoded()]
        half = (len(records) + 1) // 2
        for place, some in ((0, records[:half]), (half, records[half:])):
            child = Batch(self.partition, self.created_at)
            for record in some:
                child.add(record, size_of(*record[1:]))
            child.is_flushed = True
            child.is_transactional = self.is_transactional
            child.order = (self.order[0], self.order[1] + place)
            child.attempts = self.attempts
            if self.base_sequence >= 0:
                child.sign(self.identity, (self.base_sequence + place) & MAX_SEQUENCE)
            child.parent = self
            self.children.append(child)
        return self.children

    def locate(self, place: int) -> tuple[Batch, int]:
        """Return the batch of a record, and its place in it: another one after a split."""
        batch = self
        while batch.children:
            first, second = batch.children
            batch, place = (first, place) if place < first.count else (second, place - first.count)
        return batch, place

    def _decoded(self) -> list[Record]:
        assert self.encoded is not None
        return decode_records(self.encoded, max_bytes=MAX_DECOMPRESSED_BYTES)


class Delivery:
    """The future of a record: await it, or call `result()`, for the record's metadata."""

    __slots__ = ("batch", "place", "timestamp")

    def __init__(self, batch: Batch, place: int, timestamp: int) -> None:
        self.batch = batch
        self.place = place
        self.timestamp = timestamp

    def __await__(self) -> Generator[Any, None, RecordMetadata]:
        self.batch.is_observed = True
        if not self.batch.is_settled:
            yield from self.batch.settled().__await__()
        return self._outcome()

    @property
    def partition(self) -> TopicPartition:
        """The partition that the record goes to."""
        return self.batch.partition

    def done(self) -> bool:
        """Return whether the record is stored or has failed."""
        return self.batch.is_settled

    def exception(self) -> Exception | None:
        """Return the error, if it has failed."""
        self.batch.is_observed = True
        return self.batch.locate(self.place)[0].error

    def result(self, timeout: float | None = None) -> RecordMetadata:
        """Wait in this thread until the record is stored, and return its metadata; raise its error.

        For the synchronous producer: in a coroutine, await the delivery instead.
        """
        self.batch.is_observed = True
        if not self.batch.is_settled:
            check_may_wait()
            event = threading.Event()
            self.batch.when_settled(event.set)
            if not event.wait(timeout):
                raise TimedOut(f"the record for {self.partition} was not delivered within {timeout:g} s")
        return self._outcome()

    get = result
    """The same under kafka-python's name."""

    def _outcome(self) -> RecordMetadata:
        batch, place = self.batch.locate(self.place)
        if batch.error is not None:
            raise batch.error
        return batch.metadata(place, self.timestamp)


def _wake(loop: asyncio.AbstractEventLoop, thread: int, future: asyncio.Future[None]) -> None:
    """Wake a waiting task: directly on this loop, else through its own loop."""
    if threading.get_ident() == thread:
        _finish(future)
    else:
        with suppress(RuntimeError):  # that loop is closed
            loop.call_soon_threadsafe(_finish, future)


def _finish(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


def size_of(key: bytes | None, value: bytes | None, headers: Any) -> int:
    """Return how many bytes a record takes in a batch, at most."""
    size = MAX_OVERHEAD_BYTES
    if key is not None:
        size += len(key)
    if value is not None:
        size += len(value)
    if headers:
        for name, content in headers:
            size += len(name) * 3 + len(content or b"") + 10
    return size
