"""The producer for asyncio."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import TracebackType
from typing import Any, Self

from ottla.client.admin.group_types import ConsumerGroupMetadata
from ottla.client.cluster import Cluster
from ottla.client.errors import ClientClosed, TransactionFailed, WrongTransactionState
from ottla.client.metadata import PartitionInfo
from ottla.client.producer.background_commits import BackgroundCommits
from ottla.client.producer.batch import Callback, Delivery, RecordMetadata
from ottla.client.producer.core import ProducerCore, no_room
from ottla.client.producer.options import ProducerOptions
from ottla.client.producer.record_preparer import HeadersGiven, Prepared
from ottla.client.producer.stats import SenderStats
from ottla.client.producer.transaction_calls import PreparedTransaction, State
from ottla.client.producer.transactions import Offsets
from ottla.client.signatures import accepts
from ottla.common.clock import Clock

RECORDS_PER_TURN = 128
"""With every so many records of a batch, and the first, it is asked whether the sender needs its turn."""


class AsyncProducer:
    """Sends records; they gather in batches, which a background task ships.

        async with AsyncProducer("localhost:9092") as producer:
            delivery = await producer.send("orders", b"42", key=b"customer-7")
            metadata = await delivery                    # or not: the record is on its way
            print(metadata.partition, metadata.offset)

    `send` returns as soon as the record is queued, and waits only while the buffer is full. Order holds
    within a partition; with acks='all' (the default) the producer is idempotent, so a retried
    record is stored once. Errors are reported: awaiting the delivery raises, and an error that was not
    retrieved raises from the next `flush` or `close`.
    """

    @accepts(ProducerOptions)
    def __init__(self, options: ProducerOptions) -> None:
        self.options = options
        self._cluster: Cluster | None = None
        self._clock: Clock | None = None
        self._running: ProducerCore | None = None

    @classmethod
    def on(cls, cluster: Cluster, options: ProducerOptions | None = None, clock: Clock | None = None) -> Self:
        """Return a producer that shares a cluster's connections, and leaves them open when it is closed."""
        producer = cls.__new__(cls)
        producer.options = options or ProducerOptions()
        producer._cluster = cluster
        producer._clock = clock
        producer._running = None
        return producer

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            await self.close()
        elif isinstance(error, Exception):
            try:
                await self.close()
            except Exception as late:
                error.add_note(f"beside that, the producer failed: {late}")
        else:  # cancelled or interrupted: nobody wants to wait now
            await self._core.stop()

    async def start(self) -> None:
        """Connect to the cluster; if no broker is up, retry in the background.

        Raises what does not pass by itself: AuthenticationFailed, TlsFailed and the like.
        """
        if self._running is None:
            core = ProducerCore(self.options, self._cluster, self._clock)
            await core.start()
            self._running = core

    async def close(self, timeout_s: float | None = None) -> None:
        """Deliver everything that was sent, then disconnect; nothing is lost that can be delivered.

        It takes as long as the delivery timeout at most, or `timeout_s`: what is then left fails with
        ClientClosed, and TimedOut is raised. An error that was not retrieved is raised too.
        """
        if self._running is not None:
            await self._running.close(timeout_s)

    async def send(
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

        Returns an awaitable that gives the record's metadata when it is stored, and raises if it cannot
        be. `on_delivery` is called then too, with the metadata or the error. `key` and `value` are bytes,
        or whatever the serializers take; a value of None deletes the key in a compacted topic.
        """
        core = self._running or self._core
        if core.needs_check:
            core.check()
        delivery = None
        if timestamp_ms is None and not headers:
            delivery = core.intake.take(topic, value, key, partition, on_delivery)
        if delivery is None:
            prepared = core.intake.prepare(topic, value, key, partition, timestamp_ms, headers, on_delivery)
            if not core.intake.knows(prepared.topic, prepared.partition):
                await core.open_topic(prepared.topic, prepared.partition)
            delivery = core.intake.offer(prepared) or await self._wait_for_room(core, prepared)
        if not delivery.place % RECORDS_PER_TURN and core.needs_turn(delivery):
            await asyncio.sleep(0)  # the sender gets its turn, however tight the caller's loop
        return delivery

    async def send_and_wait(
        self, topic: str, value: Any = None, key: Any = None, **more: Any
    ) -> RecordMetadata:
        """Send a record and wait until it is stored; takes what `send` takes."""
        return await (await self.send(topic, value, key, **more))

    async def flush(self) -> None:
        """Send what is queued without lingering, and wait until it is stored or has failed.

        Raises the first error that was not retrieved: no delivery of its batch was awaited, and
        none has a callback.
        """
        await self._core.flush()

    async def init_transactions(self, *, keep_prepared: bool = False) -> PreparedTransaction | None:
        """Take over the transactional id: fence its previous producer and abort that one's open transaction.

        With `keep_prepared`, a transaction that was prepared is left as it is, and returned: compare it
        with what was to be committed, then commit or abort it. `begin_transaction` calls this if need be.
        """
        return await self._transactions.init(keep_prepared=keep_prepared)

    async def begin_transaction(self) -> None:
        """Begin a transaction: what is sent until `commit_transaction` becomes visible together."""
        await self._transactions.begin()

    async def send_offsets_to_transaction(
        self, offsets: Offsets, group_metadata: ConsumerGroupMetadata | str
    ) -> None:
        """Commit a group's offsets, the next to be read, together with the records.

        `group_metadata` is the consumer's `group_metadata()`, so that a consumer that has lost its
        partitions is refused; or just the group's id.
        """
        await self._transactions.send_offsets(offsets, group_metadata)

    async def commit_transaction(self) -> None:
        """Deliver what was sent, then commit; repeat it if the answer does not come.

        Raises TransactionFailed if something could not be delivered: then abort, and begin anew.
        """
        await self._transactions.commit()

    async def commit_in_background(self) -> asyncio.Future[None]:
        """Commit, but return at once, with a future to await: the next transaction may begin already.

        What is sent in the next one is kept here until the commit is answered, so that nothing stands still
        in the meantime. If the commit fails, the next one has failed too. One may be in flight: whatever else
        is asked of the transactions waits for it.
        """
        return await self._transactions.commit_in_background()

    async def abort_transaction(self) -> None:
        """Abort the transaction: `read_committed` consumers see nothing of it."""
        await self._transactions.abort()

    async def prepare_transaction(self) -> PreparedTransaction:
        """Deliver what was sent, then promise that the transaction can be committed, however late.

        Needs `transaction_two_phase_commit_enable`. The producer may end now: another one with the same
        transactional id takes over with `init_transactions(keep_prepared=True)`.
        """
        return await self._transactions.prepare()

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Self]:
        """Begin a transaction, and commit it at the end of the block; an exception aborts it.

        async with producer.transaction():
            await producer.send("orders", b"42")
        """
        await self.begin_transaction()
        try:
            yield self
            if self._transactions.is_open:
                await self.commit_transaction()
        except BaseException as error:
            await self._abort_after(error)
            raise

    async def _abort_after(self, error: BaseException) -> None:
        if self._transactions.is_open or self._transactions.state is State.FAILED:
            try:
                await self.abort_transaction()
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

    async def partitions_for(self, topic: str) -> list[PartitionInfo]:
        """Return the partitions of a topic."""
        return await self._core.partitions_for(topic)

    def stats(self) -> SenderStats:
        """Return the counters of what was sent; they keep counting."""
        return self._core.sender.stats

    @property
    def buffered_bytes(self) -> int:
        """How many bytes of records are not settled yet."""
        return self._core.accumulator.buffered_bytes

    @property
    def _core(self) -> ProducerCore:
        if self._running is None:
            raise ClientClosed("the producer is not started: use `async with`, or await start()")
        return self._running

    async def _wait_for_room(self, core: ProducerCore, prepared: Prepared) -> Delivery:
        has_waited = False
        deadline = core.loop.time() + self.options.max_block_ms / 1000
        while True:
            room: asyncio.Future[None] = core.loop.create_future()

            def wake(room: asyncio.Future[None] = room) -> bool:
                if room.done():
                    return False
                room.set_result(None)
                return True

            core.accumulator.when_room(prepared.size_bytes, wake, has_waited)
            try:
                async with asyncio.timeout_at(deadline):
                    await room
            except (asyncio.CancelledError, TimeoutError) as error:
                core.accumulator.wake_waiting()  # it was our turn, perhaps: let the next one have it
                if isinstance(error, TimeoutError):
                    raise no_room(core) from None
                raise
            has_waited = True
            core.check()
            delivery = core.intake.offer(prepared, has_waited)
            if delivery is not None:
                return delivery
