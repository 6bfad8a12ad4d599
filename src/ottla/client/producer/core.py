"""The producer behind AsyncProducer and Producer: record preparer, accumulator and sender.

It runs on one event loop. From other threads only `offer`, `when_room` and `wake` may be called.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from inspect import iscoroutine
from typing import TYPE_CHECKING

from ottla.client.cluster import Cluster
from ottla.client.errors import ClientClosed, ClientError, TimedOut, WrongTransactionState
from ottla.client.metadata import PartitionInfo, TopicInfo
from ottla.client.producer.accumulator import Accumulator
from ottla.client.producer.batch import Batch, Delivery
from ottla.client.producer.options import ProducerOptions
from ottla.client.producer.record_preparer import Prepared, RecordPreparer
from ottla.client.producer.sender import Sender
from ottla.common.clock import Clock, SystemClock
from ottla.protocol.errors import InvalidTopicException, UnknownTopicOrPartition

# glibc returns the end of its heap to the system as soon as 128 KB of it are free, or twice the size of the
# largest block that was ever mmapped and freed. A program that allocates and frees buffers of some 100 KB
# together then gets new pages from the kernel every time, and each must be faulted in and cleared: up to a
# quarter of the CPU time of a producer with transactions of 1 MB. Freeing one larger block first raises that
# limit.

MAX_KEPT_BYTES = 16 * 1024 * 1024
"""glibc ignores blocks of 32 MB and more; half of that is enough."""


def keep_for_reuse(size_bytes: int) -> None:
    """Make glibc keep about twice so many freed bytes (other C libraries are not affected).

    It costs no memory: pages of a block of zeros that is never read are not allocated.
    """
    bytes(min(size_bytes, MAX_KEPT_BYTES))


if TYPE_CHECKING:
    from ottla.client.producer.background_commits import BackgroundCommits

log = logging.getLogger(__name__)

REMEMBERED_FAILURES = 100


def no_room(core: ProducerCore) -> TimedOut:
    """Return the error of a send that found no buffer space within max_block_ms."""
    kept = f"{core.accumulator.buffered_bytes} bytes of records wait to be delivered"
    limit = f"{core.options.max_block_ms / 1000:g} s (max_block_ms)"
    return TimedOut(f"no room in the buffer within {limit}: {kept}; are the brokers up?")


class ProducerCore:
    """A producer on one event loop; AsyncProducer and Producer are its public faces."""

    def __init__(
        self, options: ProducerOptions, cluster: Cluster | None = None, clock: Clock | None = None
    ) -> None:
        self.options = options
        keep_for_reuse(options.max_in_flight_requests_per_connection * options.max_request_size)
        self.loop = asyncio.get_running_loop()
        self.cluster = cluster or Cluster(options=options, waits_for_brokers=True)
        self._owns_cluster = cluster is None
        self._problem: Exception | None = None
        """Why the producer cannot send any more."""
        self.accumulator = Accumulator(
            self.loop.time,
            batch_bytes=options.batch_size,
            linger_s=options.linger_ms / 1000,
            buffer_bytes=options.buffer_memory,
            max_in_flight=options.max_in_flight_requests_per_connection,
            is_idempotent=bool(options.enable_idempotence),
        )
        self.preparer = RecordPreparer(options, self.accumulator, clock or SystemClock())
        self.sender = Sender(
            self.cluster, options, self.accumulator, on_settled=self._settled, on_topic=self.preparer.adopt
        )
        self.transactions = self._transactions(options)
        self._opening = asyncio.Lock()
        self._started = asyncio.Event()
        self._stopping = asyncio.Event()
        self._runner: asyncio.Task[None] | None = None
        self._is_closing = False
        self.needs_check = self.transactions is not None
        """Whether each record needs `check`: a transaction may not be open."""
        self._failed: deque[Batch] = deque(maxlen=REMEMBERED_FAILURES)

    @property
    def required_transactions(self) -> BackgroundCommits:
        """Return the transactions of this producer; raise if it has none."""
        if self.transactions is None:
            raise WrongTransactionState("transactions need a transactional_id")
        return self.transactions

    def _transactions(self, options: ProducerOptions) -> BackgroundCommits | None:
        if options.transactional_id is None:
            return None
        from ottla.client.producer.background_commits import BackgroundCommits  # most producers have none

        return BackgroundCommits(
            self.cluster, options, self.sender, self.accumulator, self.deliver, self._opened
        )

    async def start(self) -> None:
        """Connect if a broker is up, and start to send in the background."""
        if self._owns_cluster:
            await self.cluster.start_lazily()
        self._runner = self.loop.create_task(self._run(), name="ottla producer")
        try:
            await self._started.wait()
        except BaseException:
            await self.stop()
            raise

    def check(self) -> None:
        """Raise if no records can be sent now."""
        if self._problem is not None:
            raise self._problem
        if self.transactions is not None:
            self.transactions.check_sending()

    def _opened(self, is_open: bool) -> None:
        """Update whether records must be checked, when a transaction has begun or ended."""
        self.needs_check = not is_open or self._problem is not None

    async def open_topic(self, name: str, partition: int | None = None) -> None:
        """Get the metadata of a topic, so that records can be queued for it; the broker may create it.

        If the partition is unknown, the metadata is refreshed: partitions may have been added.
        """
        async with self._opening:
            if not self.preparer.knows(name, partition):
                self.cluster.forget(name)
                self.preparer.adopt(await self._ask_about(name))

    async def partitions_for(self, name: str) -> list[PartitionInfo]:
        """Return the partitions of a topic; what is said here holds for the next record."""
        info = await self._ask_about(name)
        if name in self.preparer.topics:
            self.preparer.adopt(info)
        return list(info.partitions.values())

    async def _ask_about(self, name: str) -> TopicInfo:
        most_ms = self.options.max_block_ms
        try:
            return await self.cluster.retrying(
                lambda: self.cluster.topic(name, create=True),
                wait_for_brokers=True,
                timeout_ms=most_ms,
                what=f"no broker has answered what topic {name!r} is,",
            )
        except UnknownTopicOrPartition:
            raise UnknownTopicOrPartition(
                f"there is no topic {name!r}, and the broker does not create it"
            ) from None
        except InvalidTopicException:
            raise InvalidTopicException(
                f"{name!r} cannot be a topic: 1 to 249 of the characters a-z A-Z 0-9 . _ -, not . or .. alone"
            ) from None

    def offer(self, prepared: Prepared, has_waited: bool = False) -> Delivery | None:
        """Queue a record; None if the buffer is full. After a new batch, call `wake` on the loop."""
        return self.preparer.offer(prepared, has_waited)

    def wake(self, delivery: Delivery) -> bool:
        """Wake the sender for a record that has started a batch.

        Return whether the caller should yield to the loop, so that the sender can run.
        """
        partition = delivery.batch.partition
        queue = self.accumulator.queues[partition]
        if self.transactions is None or self.transactions.joins(partition):
            self.sender.notify(queue)
        else:
            late = WrongTransactionState("the record was sent while its transaction was being ended")
            self.sender.fail_unsent(queue, late)
        return len(queue.unsent) + len(queue.in_flight) > 1

    def needs_turn(self, delivery: Delivery) -> bool:
        """Return whether the sender must be woken after this record."""
        if delivery.place == 0 and self.wake(delivery):
            return True
        return self.transactions is not None and self.transactions.is_ahead

    async def deliver(self) -> None:
        """Wait until all records queued before are delivered or have failed."""
        unsettled = self.accumulator.seal()
        self.sender.send_now()
        for batch in unsettled:
            await batch.settled()

    async def flush(self) -> None:
        """Wait until all records queued before are delivered; raise the first unobserved failure."""
        await self.deliver()
        if self.transactions is not None:
            self.transactions.raise_if_failed()
        self.raise_unseen()

    def raise_unseen(self) -> None:
        """Raise the first unobserved failure, once."""
        unseen = [batch for batch in self._failed if not batch.is_observed]
        self._failed.clear()
        if unseen:
            assert unseen[0].error is not None
            raise unseen[0].error

    async def close(self, timeout_s: float | None = None) -> None:
        """Deliver the queued records until the timeout, then stop; raise the first unobserved failure."""
        if self._is_closing:
            return
        self._is_closing = True
        self.refuse(ClientClosed("the producer is closed"))
        try:
            async with asyncio.timeout(timeout_s):
                if self.transactions is None:
                    await self.flush()
                else:
                    await self.transactions.leave()
        except TimeoutError:
            left = sum(batch.count for batch in self.accumulator.unsettled)
            raise TimedOut(f"{left} records were not delivered within {timeout_s:g} s") from None
        finally:
            await self.stop()

    async def stop(self) -> None:
        """Stop all tasks; records that are not delivered fail."""
        self._is_closing = True
        self.refuse(ClientClosed("the producer is closed"))
        if self.transactions is not None:
            self.transactions.stop()
        self._stopping.set()
        try:
            if self._runner is not None:
                await asyncio.wait([self._runner])
        finally:  # even if the caller is cancelled
            self._give_up(ClientClosed("the producer was closed before the record was delivered"))
            self.preparer.interceptors.close()
            if self._owns_cluster:
                await self.cluster.close()

    async def _run(self) -> None:
        """Run the background tasks; if one of them fails (a bug), fail all records instead of hanging."""
        try:
            async with asyncio.TaskGroup() as tasks:
                self.sender.start(tasks)
                adding = tasks.create_task(self.transactions.keep_adding()) if self.transactions else None
                self._started.set()
                await self._stopping.wait()
                self.sender.stop()
                if adding is not None:
                    adding.cancel()
        except BaseExceptionGroup as broken:
            log.exception("a background task of the producer failed")
            error = ClientError(f"the producer is broken: {broken.exceptions[0]!r}")
            self.refuse(error)
            self._give_up(error)

    def refuse(self, error: Exception) -> None:
        """Accept no more records."""
        self._problem = self._problem or error
        self.needs_check = True

    def _give_up(self, error: Exception) -> None:
        for batch in self.accumulator.close(error):
            if not batch.is_settled:
                batch.settle(error=error)
            self.accumulator.settle(batch)
            self._settled(batch)

    def _settled(self, batch: Batch) -> None:
        for place, timestamp, callback in batch.callbacks or ():
            batch.is_observed |= callback != self.preparer.interceptors.on_acknowledgement
            whole, at = batch.locate(place)
            metadata = whole.metadata(at, timestamp) if whole.error is None else None
            try:
                if iscoroutine(left := callback(metadata, whole.error)):
                    left.close()
                    log.error("on_delivery is called, not awaited: %r must be a plain function", callback)
            except Exception:
                log.exception("the on_delivery callback of a record failed")
        if batch.error is not None:
            if self.transactions is not None:
                self.transactions.batch_failed(batch.error)
            else:
                self._failed.append(batch)
