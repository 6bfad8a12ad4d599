"""The consumer without asyncio: the same core, on an event loop in a background thread."""

from __future__ import annotations

import asyncio
import concurrent.futures
import inspect
import re
import warnings
import weakref
from collections.abc import Callable, Collection, Coroutine, Iterable, Iterator, Mapping
from types import TracebackType
from typing import Any, Self, TypeVar

from ottla.client.admin.group_types import ConsumerGroupMetadata, OffsetAndMetadata
from ottla.client.consumer.async_consumer import AsyncConsumer, no_record
from ottla.client.consumer.core import Records
from ottla.client.consumer.fetching.record import ConsumerRecord
from ottla.client.consumer.membership.commits import CommitCallback
from ottla.client.consumer.membership.listener import RebalanceListener
from ottla.client.consumer.options import ConsumerOptions
from ottla.client.consumer.waiting import take_here
from ottla.client.errors import ClientClosed
from ottla.client.event_loop_thread import EventLoopThread
from ottla.client.metadata import PartitionInfo
from ottla.client.offsets import OffsetAndTime
from ottla.client.signatures import accepts
from ottla.common.ids import TopicPartition

T = TypeVar("T")


class Consumer:
    """Reads records: topics together with a group, or partitions by hand. Threads may share it.

        with Consumer("localhost:9092", group_id="billing", topics="orders") as consumer:
            for record in consumer:
                print(record.partition, record.offset, record.value)

    It fetches ahead in the background. Records are considered processed once you make the next call: only
    then are their offsets committed (with enable_auto_commit), and only during calls are partitions assigned
    and revoked. A listener's methods run in a thread of their own, and may use the consumer. While brokers
    are unavailable it retries, and calls with a timeout return the records that there are; permanent errors
    (rejected credentials, a corrupt batch, an offset that was deleted) are raised from the next call.
    """

    @accepts(ConsumerOptions)
    def __init__(self, options: ConsumerOptions) -> None:
        self.options = options
        self._loop_thread = EventLoopThread("ottla consumer")
        try:
            self._async = self._loop_thread.run(_started(options))
        except BaseException:
            self._loop_thread.close()
            raise
        self._finalizer = weakref.finalize(self, _forgotten, self._loop_thread, self._async)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._close(after_error=error is not None)

    def __iter__(self) -> Iterator[ConsumerRecord]:
        core = self._async._core
        while True:
            yield from core.collector.drain()
            more = self._take(core.collector.take_one, core.take_one, None)
            if more is not None:
                yield more

    def close(self) -> None:
        """Commit (with enable_auto_commit), leave the group, and disconnect; at most a few seconds."""
        self._close(after_error=False)

    def _close(self, *, after_error: bool) -> None:
        if not self._finalizer.alive or self._loop_thread.is_elsewhere:
            return  # it is closed, or belongs to the parent of this forked process
        self._loop_thread.check()
        self._async._core.check_closing()
        if self._finalizer.detach() is None:
            return  # another thread is closing it
        try:
            self._loop_thread.run(self._async._core.close(after_error=after_error))
        finally:
            self._loop_thread.close()

    # Subscription.

    def subscribe(
        self,
        topics: Iterable[str] | str = (),
        *,
        pattern: str | re.Pattern[str] | None = None,
        listener: RebalanceListener | None = None,
    ) -> None:
        """Subscribe to topics, or to all that a pattern matches, as a member of the group.

        Replaces an earlier subscription. Partitions are assigned during the next calls that return records.
        """
        self._call(lambda: self._async.subscribe(topics, pattern=pattern, listener=listener))

    def unsubscribe(self) -> None:
        """Leave the group, or drop the partitions that were assigned manually."""
        self._loop_thread.run(self._async.unsubscribe())

    def subscription(self) -> frozenset[str]:
        """Return the subscribed topics; with a pattern, those that match or are assigned."""
        return self._async.subscription()

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Read exactly these partitions, without rebalancing; a group_id is used for its offsets only."""
        self._call(lambda: self._async.assign(partitions))

    def assignment(self) -> frozenset[TopicPartition]:
        """Return the assigned partitions."""
        return self._async.assignment()

    # Records.

    def getmany(
        self, *partitions: TopicPartition, timeout_ms: float | None = 0, max_records: int | None = None
    ) -> Records:
        """Return the next records by partition; wait for some up to the timeout (None: no timeout)."""
        return self._loop_thread.run(
            self._async.getmany(*partitions, timeout_ms=timeout_ms, max_records=max_records)
        )

    def poll(self, timeout_ms: float | None = 0, max_records: int | None = None) -> Records:
        """Return the next records by partition, as `getmany` does."""
        return self._loop_thread.run(self._async.poll(timeout_ms, max_records))

    def getone(self, *partitions: TopicPartition, timeout_ms: float | None = None) -> ConsumerRecord:
        """Return the next record; raise TimedOut if none comes within the timeout."""
        if partitions:
            return self._loop_thread.run(self._async.getone(*partitions, timeout_ms=timeout_ms))
        core = self._async._core
        record = None
        while record is None:
            record = self._take(core.collector.take_one, core.take_one, timeout_ms)
            if record is None and timeout_ms is not None:
                raise no_record(timeout_ms)
        return record

    def poll_arrow(
        self, timeout_ms: float | None = 0, max_records: int | None = None, *, with_headers: bool = False
    ) -> Any:
        """Return the fetched records as one `pyarrow.Table`, without creating an object per record.

        Its columns: topic, partition, offset, timestamp, timestamp_type, key, value, and headers with
        `with_headers`. It ends with a whole batch, so it may have more rows than `max_records`; by default it
        has all records that were fetched. Deserializers are not used.
        """
        return self._loop_thread.run(
            self._async.poll_arrow(timeout_ms, max_records, with_headers=with_headers)
        )

    # Positions.

    def seek(self, partition: TopicPartition, offset: int | OffsetAndMetadata) -> None:
        """Continue at an offset; with a leader epoch, only if the log was not truncated before it."""
        self._call(lambda: self._async.seek(partition, offset))

    def seek_to_beginning(self, *partitions: TopicPartition) -> None:
        """Continue at the first record of these partitions, or of all."""
        self._call(lambda: self._async.seek_to_beginning(*partitions))

    def seek_to_end(self, *partitions: TopicPartition) -> None:
        """Continue after the last record of these partitions, or of all."""
        self._call(lambda: self._async.seek_to_end(*partitions))

    def seek_to_time(self, timestamp_ms: int, *partitions: TopicPartition) -> None:
        """Continue at the first record at or after a time, else at the end; of these partitions or all."""
        self._call(lambda: self._async.seek_to_time(timestamp_ms, *partitions))

    def position(self, partition: TopicPartition, timeout_ms: float | None = None) -> int:
        """Return the offset of the next record; raise TimedOut if it is not known within the timeout."""
        return self._loop_thread.run(self._async.position(partition, timeout_ms))

    def pause(self, *partitions: TopicPartition) -> None:
        """Return no records of these partitions until `resume`."""
        self._call(lambda: self._async.pause(*partitions))

    def resume(self, *partitions: TopicPartition) -> None:
        """Return records of these partitions again."""
        self._call(lambda: self._async.resume(*partitions))

    def paused(self) -> frozenset[TopicPartition]:
        """Return the paused partitions."""
        return self._async.paused()

    # Committed offsets.

    def commit(
        self,
        offsets: Mapping[TopicPartition, int | OffsetAndMetadata] | None = None,
        timeout_ms: float | None = None,
    ) -> None:
        """Commit these offsets, each of the next record to read, or all positions.

        Raises CommitFailed if the group has rebalanced in the meantime.
        """
        self._loop_thread.run(self._async.commit(offsets, timeout_ms))

    def commit_async(
        self,
        offsets: Mapping[TopicPartition, int | OffsetAndMetadata] | None = None,
        on_done: CommitCallback | None = None,
    ) -> None:
        """Commit in the background, in the order of calls; `on_done` gets the offsets and the error."""
        self._call(lambda: self._async.commit_async(offsets, on_done))

    def committed(
        self, partitions: Collection[TopicPartition], timeout_ms: float | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """Return the committed offsets of partitions; None for those without one."""
        return self._loop_thread.run(self._async.committed(partitions, timeout_ms))

    def group_metadata(self) -> ConsumerGroupMetadata:
        """Return the member id and generation in the group: to commit offsets in a producer's transaction."""
        return self._async.group_metadata()

    # Topics and partitions of the cluster.

    def beginning_offsets(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the offset of the first record of each partition."""
        return self._loop_thread.run(self._async.beginning_offsets(partitions))

    def end_offsets(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the offset after the last record of each partition; read_committed: the last stable one."""
        return self._loop_thread.run(self._async.end_offsets(partitions))

    def offsets_for_times(
        self, times: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, OffsetAndTime | None]:
        """Return offset and time of the first record at or after each time (ms); None if there is none."""
        return self._loop_thread.run(self._async.offsets_for_times(times))

    def highwater(self, partition: TopicPartition) -> int | None:
        """Return the high watermark of a partition as of the last fetch; None before the first one."""
        return self._async.highwater(partition)

    def lag(self, partition: TopicPartition) -> int | None:
        """Return the lag in offsets as of the last fetch; None before the first one."""
        return self._async.lag(partition)

    def partitions_for_topic(self, topic: str) -> list[PartitionInfo]:
        """Return the partitions of a topic."""
        return self._loop_thread.run(self._async.partitions_for_topic(topic))

    def topics(self) -> frozenset[str]:
        """Return the names of all topics that this client is authorized to see."""
        return self._loop_thread.run(self._async.topics())

    def _take(
        self,
        take: Callable[[], T],
        ask: Callable[[float | None], Coroutine[Any, Any, T]],
        timeout_ms: float | None,
    ) -> T:
        """Take a record in this thread, or on the loop: see direct.py."""
        self._loop_thread.check()
        found, left_s = take_here(self._async._core, take, None if timeout_ms is None else timeout_ms / 1000)
        return self._loop_thread.run(ask(left_s)) if found is None else found

    def _call(self, work: Callable[[], T]) -> T:
        """Run a function on the loop, and return its result."""
        return self._loop_thread.make(work)


async def _started(options: ConsumerOptions) -> AsyncConsumer:
    consumer = AsyncConsumer.calling_listeners(options, _call_in_thread)
    await consumer.start()
    return consumer


async def _call_in_thread(
    method: Callable[[Collection[TopicPartition]], Any], partitions: Collection[TopicPartition]
) -> None:
    """Call a listener's method in a thread, where it may block on calls to the consumer."""
    result = await asyncio.to_thread(method, partitions)
    if inspect.isawaitable(result):
        await result


def _forgotten(loop_thread: EventLoopThread, consumer: AsyncConsumer) -> None:
    """Leave the group of a consumer that was not closed: at exit, or when it is garbage-collected.

    The application may have failed while it processed records: nothing is committed, no listener is called.
    """
    if loop_thread.is_elsewhere:
        return  # in the child of a fork: it belongs to the parent
    if loop_thread.is_here:
        loop_thread.post(loop_thread.close)
    else:
        try:
            loop_thread.run(consumer._core.abandon())
        except (ClientClosed, concurrent.futures.CancelledError):
            pass
        finally:
            loop_thread.close()
    # Last: where warnings are errors, this raises.
    warnings.warn("a consumer was not closed: use `with`, or close()", ResourceWarning, stacklevel=2)
