"""The producer for asyncio."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from itertools import repeat
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from ottla.client.admin.group_types import ConsumerGroupMetadata
from ottla.client.cluster import Cluster
from ottla.client.errors import ClientClosed
from ottla.client.metadata import PartitionInfo
from ottla.client.producer.batch import Callback, Delivery, RecordMetadata
from ottla.client.producer.bulk import Bulk
from ottla.client.producer.core import ProducerCore, no_room
from ottla.client.producer.options import ProducerOptions
from ottla.client.producer.record_preparer import HeadersGiven, Prepared
from ottla.client.producer.sender import SenderStats
from ottla.client.signatures import accepts
from ottla.common.clock import Clock

if TYPE_CHECKING:
    from ottla.client.producer.background_commits import BackgroundCommits
    from ottla.client.producer.transaction_calls import PreparedTransaction
    from ottla.client.producer.transactions import Offsets

RECORDS_PER_TURN = 128
"""After so many records of a batch, and after the first, check whether to yield to the sender."""


class AsyncProducer:
    """Sends records, in batches, from a background task.

        async with AsyncProducer("localhost:9092") as producer:
            delivery = await producer.send("orders", b"42", key=b"customer-7")
            metadata = await delivery                    # optional: it is sent anyway
            print(metadata.partition, metadata.offset)

    `send` returns as soon as the record is queued, and waits only while the buffer is full. Order holds
    within a partition; with acks='all' (the default) the producer is idempotent, so retries store a record
    once. Failures are never silent: awaiting the delivery raises, and a failure that was not observed is
    raised from the next `flush` or `close`.
    """

    @accepts(ProducerOptions)
    def __init__(self, options: ProducerOptions) -> None:
        self.options = options
        self._cluster: Cluster | None = None
        self._clock: Clock | None = None
        self._running: ProducerCore | None = None

    @classmethod
    def on(cls, cluster: Cluster, options: ProducerOptions | None = None, clock: Clock | None = None) -> Self:
        """Return a producer that uses the connections of a cluster, and does not close them."""
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
        else:  # cancelled or interrupted: do not wait
            await self._core.stop()

    async def start(self) -> None:
        """Connect to the cluster; if no broker is up, retry in the background.

        Raises permanent errors: AuthenticationFailed, TlsFailed and the like.
        """
        if self._running is None:
            core = ProducerCore(self.options, self._cluster, self._clock)
            await core.start()
            self._running = core

    async def close(self, timeout_s: float | None = None) -> None:
        """Deliver all records that were sent, then disconnect.

        It takes at most the delivery timeout, or `timeout_s`: records that are left then fail with
        ClientClosed, and TimedOut is raised. A failure that was not observed is raised too.
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
        """Queue a record; wait only while the buffer is full, or for the metadata of a new topic.

        Returns a future: await it for the record's metadata, or the error. `on_delivery` is called with the
        same two. `key` and `value` are bytes, or what the serializers accept; a value of None deletes the
        key in a compacted topic.
        """
        core = self._running or self._core
        if core.needs_check:
            core.check()
        delivery = None
        if timestamp_ms is None and not headers:
            delivery = core.preparer.take(topic, value, key, partition, on_delivery)
        if delivery is None:
            prepared = core.preparer.prepare(topic, value, key, partition, timestamp_ms, headers, on_delivery)
            if not core.preparer.knows(prepared.topic, prepared.partition):
                await core.open_topic(prepared.topic, prepared.partition)
            delivery = core.preparer.offer(prepared) or await self._wait_for_room(core, prepared)
        if not delivery.place % RECORDS_PER_TURN and core.needs_turn(delivery):
            await asyncio.sleep(0)  # the sender gets its turn, however tight the caller's loop
        return delivery

    async def send_values(
        self,
        topic: str,
        values: Sequence[bytes],
        *,
        keys: Sequence[bytes] | None = None,
        partition: int | None = None,
        headers: Sequence[tuple[str, bytes | None]] = (),
    ) -> None:
        """Queue many values at once, each with its key if there are `keys`.

        It waits only while the buffer is full. The same as `send` for each, but without an object for each: a
        failure is raised by the next `flush` or `close`, and there is no delivery to await.
        """
        bulk = Bulk(values, keys, tuple(headers))
        preparer = (self._running or self._core).preparer
        if values and not preparer.takes_bulk(topic, partition, bulk):
            await self._send_each(topic, bulk.cut(0, 1), partition)  # the topic may be a new one
            bulk = bulk.cut(1)
            if bulk.values and not preparer.takes_bulk(topic, partition, bulk):
                await self._send_each(topic, bulk, partition)
                return
        for index, some in preparer.divide_bulk(topic, partition, bulk) if bulk.values else ():
            await self._send_bulk(topic, some, index)

    async def _send_each(self, topic: str, bulk: Bulk, partition: int | None) -> None:
        for value, key in zip(bulk.values, bulk.keys or repeat(None), strict=False):
            await self.send(topic, value, key=key, headers=bulk.headers, partition=partition)

    async def _send_bulk(self, topic: str, bulk: Bulk, partition: int | None) -> None:
        core = self._running or self._core
        for some, size_bytes in bulk.in_batches(self.options.batch_size):
            core.check()
            while (
                batch := core.preparer.take_bulk(topic, some, size_bytes, partition, core.sender.codec)
            ) is None:
                await next(iter(core.accumulator.unsettled)).settled()
                core.check()
            core.sender.notify(core.accumulator.queues[batch.partition])
            await asyncio.sleep(0)  # the sender gets its turn

    async def send_and_wait(
        self, topic: str, value: Any = None, key: Any = None, **more: Any
    ) -> RecordMetadata:
        """Send a record and wait until it is stored; the parameters are those of `send`."""
        return await (await self.send(topic, value, key, **more))

    async def flush(self) -> None:
        """Send all queued records without lingering, and wait until they are stored or have failed.

        Raises the first failure that was not observed: no delivery of its batch was awaited, and none has a
        callback.
        """
        await self._core.flush()

    async def init_transactions(self, *, keep_prepared: bool = False) -> PreparedTransaction | None:
        """Acquire the transactional id: its previous producer is fenced, and an open transaction aborted.

        With `keep_prepared`, a prepared transaction is kept and returned: compare it with your own record
        of it, then commit or abort it. `begin_transaction` calls this if necessary.
        """
        return await self._transactions.init(keep_prepared=keep_prepared)

    async def begin_transaction(self) -> None:
        """Begin a transaction: records sent until `commit_transaction` become visible together."""
        await self._transactions.begin()

    async def send_offsets_to_transaction(
        self, offsets: Offsets, group_metadata: ConsumerGroupMetadata | str
    ) -> None:
        """Commit a group's offsets (of the next records to read) in the transaction.

        `group_metadata` is the consumer's `group_metadata()`, which fences a consumer that has lost its
        partitions; or just the group id.
        """
        await self._transactions.send_offsets(offsets, group_metadata)

    async def commit_transaction(self) -> None:
        """Deliver all records, then commit; call it again after TimedOut.

        Raises TransactionFailed if a record could not be delivered: abort, and begin a new transaction.
        """
        await self._transactions.commit()

    async def commit_in_background(self) -> asyncio.Future[None]:
        """Commit in the background and return a future to await: the next transaction may begin at once.

        Records of the next transaction are queued until the commit has completed. If the commit fails, the
        next transaction has failed too. One commit may be in the background: other transaction calls wait
        for it.
        """
        return await self._transactions.commit_in_background()

    async def abort_transaction(self) -> None:
        """Abort the transaction: `read_committed` consumers see none of it."""
        await self._transactions.abort()

    async def prepare_transaction(self) -> PreparedTransaction:
        """Deliver all records and prepare the transaction (two-phase commit): it no longer times out.

        Needs `transaction_two_phase_commit_enable`. The producer may end now: another one with the same
        transactional id continues with `init_transactions(keep_prepared=True)`.
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
        if self._transactions.is_open or self._transactions.has_failed:
            try:
                await self.abort_transaction()
            except Exception as late:
                self._transactions.abort_failed(late, error)

    @property
    def _transactions(self) -> BackgroundCommits:
        return self._core.required_transactions

    async def partitions_for(self, topic: str) -> list[PartitionInfo]:
        """Return the partitions of a topic."""
        return await self._core.partitions_for(topic)

    def stats(self) -> SenderStats:
        """Return the live counters of records, batches, requests and retries."""
        return self._core.sender.stats

    @property
    def buffered_bytes(self) -> int:
        """The size of the records that are not delivered yet."""
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
                core.accumulator.wake_waiting()  # perhaps the space was for us: wake the next one
                if isinstance(error, TimeoutError):
                    raise no_room(core) from None
                raise
            has_waited = True
            core.check()
            delivery = core.preparer.offer(prepared, has_waited)
            if delivery is not None:
                return delivery
