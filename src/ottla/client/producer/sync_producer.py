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
from ottla.client.errors import ClientClosed, TransactionFailed, WrongTransactionState
from ottla.client.event_loop_thread import EventLoopThread
from ottla.client.metadata import PartitionInfo
from ottla.client.producer.background_commits import BackgroundCommits
from ottla.client.producer.batch import Callback, Delivery
from ottla.client.producer.core import ProducerCore, no_room
from ottla.client.producer.options import ProducerOptions
from ottla.client.producer.record_preparer import HeadersGiven, Prepared
from ottla.client.producer.stats import SenderStats
from ottla.client.producer.transaction_calls import PreparedTransaction, State
from ottla.client.producer.transactions import Offsets
from ottla.client.signatures import accepts

CLOSE_AT_EXIT_S = 10
"""How long a producer that was never closed may take, when the program ends, to deliver what it has."""


class Producer:
    """Sends records; they gather in batches, which a background thread ships. Threads may share it.

        with Producer("localhost:9092") as producer:
            delivery = producer.send("orders", b"42", key=b"customer-7")
            metadata = delivery.result(timeout=10)       # or not: the record is on its way
            print(metadata.partition, metadata.offset)

    `send` returns as soon as the record is queued, and waits only while the buffer is full. Order holds
    within a partition (for the records of one thread); with acks='all' (the default) the producer is
    idempotent, so what has to be sent again is stored once. What fails is never silent: the delivery's
    `result` raises, and an error that was not retrieved raises from the next `flush` or `close`.
    """

    @accepts(ProducerOptions)
    def __init__(self, options: ProducerOptions) -> None:
        self.options = options
        self._bridge = EventLoopThread("ottla producer")
        try:
            self._core = self._bridge.make(ProducerCore, options)
            self._core.accumulator.encodes_full = not options.codec and options.transactional_id is None
            self._bridge.run(self._core.start())
        except BaseException:
            self._bridge.close()
            raise
        self._finalizer = weakref.finalize(self, _forgotten, self._bridge, self._core)
        self._bridge.on_fork = self._core.refuse

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
        else:  # interrupted: nobody wants to wait now
            self._stop()

    def close(self, timeout_s: float | None = None) -> None:
        """Deliver everything that was sent, then disconnect; nothing is lost that can be delivered.

        It takes as long as the delivery timeout at most, or `timeout_s`: what is then left fails with
        ClientClosed, and TimedOut is raised. An error that was not retrieved is raised too.
        """
        if not self._finalizer.alive or self._bridge.is_elsewhere:
            return  # it is closed, or it is for the parent of this process to close it
        self._bridge.check()
        if self._finalizer.detach() is None:
            return  # another thread is closing it
        try:
            self._bridge.run(self._core.close(timeout_s))
        finally:
            self._bridge.close()

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
        """Queue a record; wait only while the buffer is full, or for a topic that is not known yet.

        Returns a delivery whose `result()` waits for the record's metadata, and raises if it cannot be
        stored. `on_delivery` is called then too, in the background thread, with the metadata or the error.
        `key` and `value` are bytes, or whatever the serializers take; a value of None deletes the key in
        a compacted topic.
        """
        core = self._core
        if core.needs_check:
            core.check()
        delivery = None
        if timestamp_ms is None and not headers:
            delivery = core.intake.take(topic, value, key, partition, on_delivery)
        if delivery is None:
            prepared = core.intake.prepare(topic, value, key, partition, timestamp_ms, headers, on_delivery)
            if not core.intake.knows(prepared.topic, prepared.partition):
                self._bridge.run(core.open_topic(prepared.topic, prepared.partition))
            delivery = core.intake.offer(prepared) or self._wait_for_room(prepared)
        if delivery.place == 0:
            self._bridge.post(lambda: core.wake(delivery))  # of a closed one everything is settled
        return delivery

    def flush(self, timeout_s: float | None = None) -> None:
        """Send what is queued without lingering, and wait until it is stored or has failed.

        Raises TimedOut if that takes longer than `timeout_s`, and the first error that was not
        retrieved: no result of its batch was asked for, and none has a callback.
        """
        self._bridge.run(self._core.flush(), timeout_s)

    def init_transactions(self, *, keep_prepared: bool = False) -> PreparedTransaction | None:
        """Take over the transactional id: fence its previous producer and abort that one's open transaction.

        With `keep_prepared`, a transaction that was prepared is left as it is, and returned: compare it
        with what was to be committed, then commit or abort it. `begin_transaction` calls this if need be.
        """
        return self._bridge.run(self._transactions.init(keep_prepared=keep_prepared))

    def begin_transaction(self) -> None:
        """Begin a transaction: what is sent until `commit_transaction` becomes visible together."""
        self._bridge.run(self._transactions.begin())

    def send_offsets_to_transaction(
        self, offsets: Offsets, group_metadata: ConsumerGroupMetadata | str
    ) -> None:
        """Commit a group's offsets, the next to be read, together with the records.

        `group_metadata` is the consumer's `group_metadata()`, so that a consumer that has lost its
        partitions is refused; or just the group's id.
        """
        self._bridge.run(self._transactions.send_offsets(offsets, group_metadata))

    def commit_transaction(self) -> None:
        """Deliver what was sent, then commit; repeat it if the answer does not come.

        Raises TransactionFailed if something could not be delivered: then abort, and begin anew.
        """
        self._bridge.run(self._transactions.commit())

    def commit_in_background(self) -> Future[None]:
        """Commit, but return at once, with a future of the commit: the next transaction may begin already.

        What is sent in the next one is kept here until the commit is answered, so that nothing stands still
        in the meantime. If the commit fails, the next one has failed too. One may be in flight: whatever else
        is asked of the transactions waits for it.
        """
        commit = self._bridge.run(self._transactions.commit_in_background())
        return self._bridge.begin(_outcome_of(commit))

    def abort_transaction(self) -> None:
        """Abort the transaction: `read_committed` consumers see nothing of it."""
        self._bridge.run(self._transactions.abort())

    def prepare_transaction(self) -> PreparedTransaction:
        """Deliver what was sent, then promise that the transaction can be committed, however late.

        Needs `transaction_two_phase_commit_enable`. The producer may end now: another one with the same
        transactional id takes over with `init_transactions(keep_prepared=True)`.
        """
        return self._bridge.run(self._transactions.prepare())

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
        if self._transactions.is_open or self._transactions.state is State.FAILED:
            try:
                self.abort_transaction()
            except Exception as late:
                if self._transactions.is_fenced and isinstance(error, TransactionFailed):
                    raise late from error  # that is why it failed
                error.add_note(f"beside that, the transaction could not be aborted: {late}")

    @property
    def _transactions(self) -> BackgroundCommits:
        transactions = self._core.transactions
        if transactions is None:
            raise WrongTransactionState("transactions need a transactional_id")
        return transactions

    def partitions_for(self, topic: str) -> list[PartitionInfo]:
        """Return the partitions of a topic."""
        return self._bridge.run(self._core.partitions_for(topic))

    def stats(self) -> SenderStats:
        """Return the counters of what was sent; they keep counting."""
        return self._core.sender.stats

    @property
    def buffered_bytes(self) -> int:
        """How many bytes of records are not settled yet."""
        return self._core.accumulator.buffered_bytes

    def _wait_for_room(self, prepared: Prepared) -> Delivery:
        if self._bridge.is_here:
            raise RuntimeError("a callback cannot wait for room in its own producer: it would wait for ever")
        accumulator = self._core.accumulator
        has_waited = False
        deadline = self._core.loop.time() + self.options.max_block_ms / 1000
        while True:
            turn = _Turn()
            accumulator.when_room(prepared.size_bytes, turn.come, has_waited)
            try:
                if not turn.wait(deadline - self._core.loop.time()):
                    raise no_room(self._core)
            except BaseException:
                turn.is_given_up = True
                accumulator.wake_waiting()  # it was our turn, perhaps: let the next one have it
                raise
            has_waited = True
            self._core.check()
            delivery = self._core.intake.offer(prepared, has_waited)
            if delivery is not None:
                return delivery

    def _stop(self) -> None:
        if not self._bridge.is_elsewhere and self._finalizer.detach() is not None:
            try:
                self._bridge.run(self._core.stop())
            finally:
                self._bridge.close()


class _Turn:
    """One thread's wait for room in the buffer."""

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


def _forgotten(bridge: EventLoopThread, core: ProducerCore) -> None:
    """Deliver what a producer has that nobody closed: at the end of the program, or when it is dropped."""
    if bridge.is_elsewhere:
        return  # in the child of a fork: it is the parent's
    if bridge.is_here:
        bridge.post(bridge.close)
    else:
        try:
            bridge.run(core.close(CLOSE_AT_EXIT_S))
        except ClientClosed:
            pass
        finally:
            bridge.close()
    # Last: where warnings are errors, this raises.
    warnings.warn("a producer was not closed: use `with`, or close()", ResourceWarning, stacklevel=2)
