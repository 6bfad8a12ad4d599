"""What both faces of the producer stand on: the intake, the accumulator and the sender, started and stopped.

It belongs to one event loop. From other threads only `offer`, `when_room` and `wake` may be called.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from inspect import iscoroutine

from ottla.client.cluster import Cluster
from ottla.client.errors import ClientClosed, ClientError, TimedOut, WrongTransactionState
from ottla.client.metadata import PartitionInfo, TopicInfo
from ottla.client.producer.accumulator import Accumulator
from ottla.client.producer.background_commits import BackgroundCommits
from ottla.client.producer.batch import Batch, Delivery
from ottla.client.producer.options import ProducerOptions
from ottla.client.producer.record_preparer import Prepared, RecordPreparer
from ottla.client.producer.sender import Sender
from ottla.common.clock import Clock, SystemClock
from ottla.protocol.errors import InvalidTopicException, UnknownTopicOrPartition

# How much freed memory a process keeps for its next large buffers.
#
# glibc gives the end of its heap back to the system as soon as 128 KB of it are free, or twice the largest
# block that was ever mapped by itself and freed. A program whose buffers of some 100 KB come and go
# together then gets new pages from the kernel every time, and each of them has to be faulted in and
# cleared: for a producer with transactions of 1 MB that was up to a quarter of its CPU time. But glibc
# learns by example: once a larger block was freed, it keeps that much.

MOST_BYTES = 16 * 1024 * 1024
"""glibc does not learn from blocks of 32 MB and more; half of that is plenty."""


def keep_for_reuse(size_bytes: int) -> None:
    """Let the C library keep about twice so many freed bytes (where it is glibc; elsewhere nothing happens).

    It costs no memory by itself: of a block of zeros that nobody looks at no page is ever made.
    """
    bytes(min(size_bytes, MOST_BYTES))


log = logging.getLogger(__name__)

REMEMBERED_FAILURES = 100


def no_room(core: ProducerCore) -> TimedOut:
    """Return the error of who waits in vain for room in the buffer."""
    kept = f"{core.accumulator.buffered_bytes} bytes of records wait to be delivered"
    limit = f"{core.options.max_block_ms / 1000:g} s (max_block_ms)"
    return TimedOut(f"no room in the buffer within {limit}: {kept}; are the brokers up?")


class ProducerCore:
    """A producer without a face."""

    def __init__(
        self, options: ProducerOptions, cluster: Cluster | None = None, clock: Clock | None = None
    ) -> None:
        self.options = options
        keep_for_reuse(options.max_in_flight_requests_per_connection * options.max_request_size)
        self.loop = asyncio.get_running_loop()
        self.cluster = cluster or Cluster(options=options, is_patient=True)
        self._owns_cluster = cluster is None
        self._problem: Exception | None = None
        """Why nothing can be sent any more."""
        self.accumulator = Accumulator(
            self.loop.time,
            batch_bytes=options.batch_size,
            linger_s=options.linger_ms / 1000,
            buffer_bytes=options.buffer_memory,
            max_in_flight=options.max_in_flight_requests_per_connection,
            is_idempotent=bool(options.enable_idempotence),
        )
        self.intake = RecordPreparer(options, self.accumulator, clock or SystemClock())
        self.sender = Sender(
            self.cluster, options, self.accumulator, on_settled=self._settled, on_topic=self.intake.adopt
        )
        self.transactions = (
            None
            if options.transactional_id is None
            else BackgroundCommits(
                self.cluster, options, self.sender, self.accumulator, self.deliver, self._opened
            )
        )
        self._opening = asyncio.Lock()
        self._started = asyncio.Event()
        self._stopping = asyncio.Event()
        self._runner: asyncio.Task[None] | None = None
        self._is_closing = False
        self.needs_check = self.transactions is not None
        """Whether there may be something in the way of sending, which `check` knows: no open transaction."""
        self._failed: deque[Batch] = deque(maxlen=REMEMBERED_FAILURES)

    async def start(self) -> None:
        """Connect if a broker is up, and begin to send in the background."""
        if self._owns_cluster:
            await self.cluster.start_lazily()
        self._runner = self.loop.create_task(self._run(), name="ottla producer")
        try:
            await self._started.wait()
        except BaseException:
            await self.stop()
            raise

    def check(self) -> None:
        """Raise if records cannot be taken now."""
        if self._problem is not None:
            raise self._problem
        if self.transactions is not None:
            self.transactions.check_sending()

    def _opened(self, is_open: bool) -> None:
        """Take note that a transaction has begun, or has ended: between them every record is checked."""
        self.needs_check = not is_open or self._problem is not None

    async def open_topic(self, name: str, partition: int | None = None) -> None:
        """Learn of a topic, so that records can be queued for it; the broker may create it.

        If it is known, but not the partition, it is asked anew: the topic may have grown.
        """
        async with self._opening:
            if not self.intake.knows(name, partition):
                self.cluster.forget(name)
                self.intake.adopt(await self._ask_about(name))

    async def partitions_for(self, name: str) -> list[PartitionInfo]:
        """Return the partitions of a topic; what is said here holds for the next record."""
        info = await self._ask_about(name)
        if name in self.intake.topics:
            self.intake.adopt(info)
        return list(info.partitions.values())

    async def _ask_about(self, name: str) -> TopicInfo:
        most_ms = self.options.max_block_ms
        try:
            return await self.cluster.retrying(
                lambda: self.cluster.topic(name, create=True),
                patient=True,
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
        """Queue a record; None if there is no room. Who begins a batch has to call `wake` on the loop."""
        return self.intake.offer(prepared, has_waited)

    def wake(self, delivery: Delivery) -> bool:
        """Let the sender look at the queue of a record that has begun a batch.

        Return whether it has more to do than this: if so, it needs its turn.
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
        """Return whether the sender, who is told of new batches, needs its turn after this record."""
        if delivery.place == 0 and self.wake(delivery):
            return True
        return self.transactions is not None and self.transactions.is_ahead

    async def deliver(self) -> None:
        """Wait until all that was queued before is settled, one way or the other."""
        unsettled = self.accumulator.seal()
        self.sender.send_now()
        for batch in unsettled:
            await batch.settled()

    async def flush(self) -> None:
        """Wait until all that was queued before is settled; raise what failed and nobody has looked at."""
        await self.deliver()
        if self.transactions is not None:
            self.transactions.raise_if_failed()
        self.raise_unseen()

    def raise_unseen(self) -> None:
        """Raise the first failure that nobody has looked at, once."""
        unseen = [batch for batch in self._failed if not batch.is_observed]
        self._failed.clear()
        if unseen:
            assert unseen[0].error is not None
            raise unseen[0].error

    async def close(self, timeout_s: float | None = None) -> None:
        """Deliver what is queued, for as long as is given, then stop; raise what failed unseen."""
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
        """End everything; what is not delivered fails."""
        self._is_closing = True
        self.refuse(ClientClosed("the producer is closed"))
        if self.transactions is not None:
            self.transactions.stop()
        self._stopping.set()
        try:
            if self._runner is not None:
                await asyncio.wait([self._runner])
        finally:  # though whoever closes us be cancelled
            self._give_up(ClientClosed("the producer was closed before the record was delivered"))
            self.intake.interceptors.close()
            if self._owns_cluster:
                await self.cluster.close()

    async def _run(self) -> None:
        """Own the background tasks; if one of them breaks, which is a bug of ours, nothing hangs for it."""
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
            log.exception("the producer's background work broke")
            error = ClientError(f"the producer is broken: {broken.exceptions[0]!r}")
            self.refuse(error)
            self._give_up(error)

    def refuse(self, error: Exception) -> None:
        """Take no more records."""
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
            batch.is_observed |= callback != self.intake.interceptors.on_acknowledgement
            whole, at = batch.locate(place)
            metadata = whole.metadata(at, timestamp) if whole.error is None else None
            try:
                if iscoroutine(left := callback(metadata, whole.error)):
                    left.close()
                    log.error("on_delivery is called, not awaited: %r must be a plain function", callback)
            except Exception:
                log.exception("a callback of a delivery failed")
        if batch.error is not None:
            if self.transactions is not None:
                self.transactions.batch_failed(batch.error)
            else:
                self._failed.append(batch)
