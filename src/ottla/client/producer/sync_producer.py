"""The producer without asyncio: the same core, on an event loop in a background thread."""

from __future__ import annotations

import asyncio
import threading
import warnings
import weakref
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Self

from ottla.client.admin.group_types import ConsumerGroupMetadata
from ottla.client.errors import ClientClosed
from ottla.client.event_loop_thread import EventLoopThread
from ottla.client.metadata import PartitionInfo
from ottla.client.producer.background_commits import BackgroundCommits
from ottla.client.producer.batch import Callback, Delivery
from ottla.client.producer.core import ProducerCore, no_room
from ottla.client.producer.options import ProducerOptions
from ottla.client.producer.record_preparer import HeadersGiven, Prepared
from ottla.client.producer.sender import SenderStats
from ottla.client.producer.transaction_calls import PreparedTransaction
from ottla.client.producer.transactions import Offsets
from ottla.client.signatures import accepts

CLOSE_AT_EXIT_S = 10
"""How long a producer that was not closed may take at exit to deliver its records."""


class Producer:
    """Sends records, in batches, from a background thread. Threads may share it.

        with Producer("localhost:9092") as producer:
            delivery = producer.send("orders", b"42", key=b"customer-7")
            metadata = delivery.result(timeout=10)       # optional: it is sent anyway
            print(metadata.partition, metadata.offset)

    `send` returns as soon as the record is queued, and waits only while the buffer is full. Order holds
    within a partition (for the records of one thread); with acks='all' (the default) the producer is
    idempotent, so what has to be sent again is stored once. What fails is never silent: the delivery's
    `result` raises, and an error that was not retrieved raises from the next `flush` or `close`.
    """

    @accepts(ProducerOptions)
    def __init__(self, options: ProducerOptions) -> None:
        self.options = options
        self._loop_thread = EventLoopThread("ottla producer")
        try:
            self._core = self._loop_thread.make(ProducerCore, options)
            self._core.accumulator.encodes_full = not options.codec and options.transactional_id is None
            self._loop_thread.run(self._core.start())
        except BaseException:
            self._loop_thread.close()
            raise
        self._finalizer = weakref.finalize(self, _forgotten, self._loop_thread, self._core)
        self._loop_thread.on_fork = self._core.refuse

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self.close()
        elif isinstance(error, Exception):
            try:
                self.close()
            except Exception as late:
                error.add_note(f"beside that, the producer failed: {late}")
        else:  # interrupted: do not wait
            self._stop()

    def close(self, timeout_s: float | None = None) -> None:
        """Deliver all records that were sent, then disconnect.

        It takes at most the delivery timeout, or `timeout_s`: records that are left then fail with
        ClientClosed, and TimedOut is raised. A failure that was not observed is raised too.
        """
        if not self._finalizer.alive or self._loop_thread.is_elsewhere:
            return  # it is closed, or belongs to the parent of this forked process
        self._loop_thread.check()
        if self._finalizer.detach() is None:
            return  # another thread is closing it
        try:
            self._loop_thread.run(self._core.close(timeout_s))
        finally:
            self._loop_thread.close()

    def send(
        self,
        topic: str,
        value: Any = None,
        key: Any = None,
        *,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        headers: HeadersGiven = (),
        on_delivery: Callback | None = None,
    ) -> Delivery:
        """Queue a record; wait only while the buffer is full, or for the metadata of a new topic.

        Returns a future: call `result()` for the record's metadata, or the error. `on_delivery` is called
        with the same two, in the background thread. `key` and `value` are bytes, or what the serializers
        accept; a value of None deletes the key in a compacted topic.
        """
        core = self._core
        if core.needs_check:
            core.check()
        delivery = None
        if timestamp_ms is None and not headers:
            delivery = core.preparer.take(topic, value, key, partition, on_delivery)
        if delivery is None:
            prepared = core.preparer.prepare(topic, value, key, partition, timestamp_ms, headers, on_delivery)
            if not core.preparer.knows(prepared.topic, prepared.partition):
                self._loop_thread.run(core.open_topic(prepared.topic, prepared.partition))
            delivery = core.preparer.offer(prepared) or self._wait_for_room(prepared)
        if delivery.place == 0:
            self._loop_thread.post(lambda: core.wake(delivery))  # a closed producer has no pending records
        return delivery

    def flush(self, timeout_s: float | None = None) -> None:
        """Send all queued records without lingering, and wait until they are stored or have failed.

        Raises TimedOut if that takes longer than `timeout_s`, and the first failure that was not observed:
        `result()` was called for no record of its batch, and none has a callback.
        """
        self._loop_thread.run(self._core.flush(), timeout_s)

    def init_transactions(self, *, keep_prepared: bool = False) -> PreparedTransaction | None:
        """Acquire the transactional id: its previous producer is fenced, and an open transaction aborted.

        With `keep_prepared`, a prepared transaction is kept and returned: compare it with your own record
        of it, then commit or abort it. `begin_transaction` calls this if necessary.
        """
        return self._loop_thread.run(self._transactions.init(keep_prepared=keep_prepared))

    def begin_transaction(self) -> None:
        """Begin a transaction: records sent until `commit_transaction` become visible together."""
        self._loop_thread.run(self._transactions.begin())

    def send_offsets_to_transaction(
        self, offsets: Offsets, group_metadata: ConsumerGroupMetadata | str
    ) -> None:
        """Commit a group's offsets (of the next records to read) in the transaction.

        `group_metadata` is the consumer's `group_metadata()`, which fences a consumer that has lost its
        partitions; or just the group id.
        """
        self._loop_thread.run(self._transactions.send_offsets(offsets, group_metadata))

    def commit_transaction(self) -> None:
        """Deliver all records, then commit; call it again after TimedOut.

        Raises TransactionFailed if a record could not be delivered: abort, and begin a new transaction.
        """
        self._loop_thread.run(self._transactions.commit())

    def commit_in_background(self) -> Future[None]:
        """Commit in the background and return a future: the next transaction may begin at once.

        Records of the next transaction are queued until the commit has completed. If the commit fails, the
        next transaction has failed too. One commit may be in the background: other transaction calls wait
        for it.
        """
        commit = self._loop_thread.run(self._transactions.commit_in_background())
        return self._loop_thread.begin(_outcome_of(commit))

    def abort_transaction(self) -> None:
        """Abort the transaction: `read_committed` consumers see none of it."""
        self._loop_thread.run(self._transactions.abort())

    def prepare_transaction(self) -> PreparedTransaction:
        """Deliver all records and prepare the transaction (two-phase commit): it no longer times out.

        Needs `transaction_two_phase_commit_enable`. The producer may end now: another one with the same
        transactional id continues with `init_transactions(keep_prepared=True)`.
        """
        return self._loop_thread.run(self._transactions.prepare())

    @contextmanager
    def transaction(self) -> Iterator[Self]:
        """Begin a transaction, and commit it at the end of the block; an exception aborts it.

        with producer.transaction():
            producer.send("orders", b"42")
        """
        self.begin_transaction()
        try:
            yield self
            if self._transactions.is_open:
                self.commit_transaction()
        except BaseException as error:
            self._abort_after(error)
            raise

    def _abort_after(self, error: BaseException) -> None:
        if self._transactions.is_open or self._transactions.has_failed:
            try:
                self.abort_transaction()
            except Exception as late:
                self._transactions.abort_failed(late, error)

    @property
    def _transactions(self) -> BackgroundCommits:
        return self._core.required_transactions

    def partitions_for(self, topic: str) -> list[PartitionInfo]:
        """Return the partitions of a topic."""
        return self._loop_thread.run(self._core.partitions_for(topic))

    def stats(self) -> SenderStats:
        """Return the live counters of records, batches, requests and retries."""
        return self._core.sender.stats

    @property
    def buffered_bytes(self) -> int:
        """The size of the records that are not delivered yet."""
        return self._core.accumulator.buffered_bytes

    def _wait_for_room(self, prepared: Prepared) -> Delivery:
        if self._loop_thread.is_here:
            raise RuntimeError("a callback cannot wait for room in its own producer: it would wait forever")
        accumulator = self._core.accumulator
        has_waited = False
        deadline = self._core.loop.time() + self.options.max_block_ms / 1000
        while True:
            turn = _BufferWaiter()
            accumulator.when_room(prepared.size_bytes, turn.come, has_waited)
            try:
                if not turn.wait(deadline - self._core.loop.time()):
                    raise no_room(self._core)
            except BaseException:
                turn.is_given_up = True
                accumulator.wake_waiting()  # perhaps the space was for us: wake the next one
                raise
            has_waited = True
            self._core.check()
            delivery = self._core.preparer.offer(prepared, has_waited)
            if delivery is not None:
                return delivery

    def _stop(self) -> None:
        if not self._loop_thread.is_elsewhere and self._finalizer.detach() is not None:
            try:
                self._loop_thread.run(self._core.stop())
            finally:
                self._loop_thread.close()


class _BufferWaiter:
    """One thread that waits for buffer space."""

    def __init__(self) -> None:
        self.is_given_up = False
        self._has_come = threading.Event()

    def come(self) -> bool:
        if self.is_given_up:
            return False
        self._has_come.set()
        return True

    def wait(self, timeout_s: float) -> bool:
        return self._has_come.wait(max(timeout_s, 0.0))


async def _outcome_of(commit: asyncio.Future[None]) -> None:
    await commit


def _forgotten(loop_thread: EventLoopThread, core: ProducerCore) -> None:
    """Deliver the records of a producer that was not closed: at exit, or when it is garbage-collected."""
    if loop_thread.is_elsewhere:
        return  # in the child of a fork: it belongs to the parent
    if loop_thread.is_here:
        loop_thread.post(loop_thread.close)
    else:
        try:
            loop_thread.run(core.close(CLOSE_AT_EXIT_S))
        except ClientClosed:
            pass
        finally:
            loop_thread.close()
    # Last: where warnings are errors, this raises.
    warnings.warn("a producer was not closed: use `with`, or close()", ResourceWarning, stacklevel=2)
