"""The consumer for asyncio."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Collection, Iterable, Mapping
from types import TracebackType
from typing import Any, Self

from ottla.client.admin.group_types import ConsumerGroupMetadata, OffsetAndMetadata
from ottla.client.cluster import Cluster
from ottla.client.consumer.core import ConsumerCore, Records
from ottla.client.consumer.fetching.record import ConsumerRecord
from ottla.client.consumer.membership.commits import CommitCallback
from ottla.client.consumer.membership.listener import Caller, RebalanceListener, call_here
from ottla.client.consumer.options import ConsumerOptions
from ottla.client.consumer.queries import Queries
from ottla.client.errors import ClientClosed, TimedOut
from ottla.client.metadata import PartitionInfo
from ottla.client.offsets import EARLIEST, LATEST, OffsetAndTime
from ottla.client.signatures import accepts
from ottla.common.clock import Clock
from ottla.common.ids import TopicPartition


def nothing_came(timeout_ms: float) -> TimedOut:
    """Return the error of who waits for a record in vain."""
    return TimedOut(f"no record came within {timeout_ms:g} ms")


class AsyncConsumer:
    """Reads records: topics together with a group, or partitions by hand.

        async with AsyncConsumer("localhost:9092", group_id="billing", topics="orders") as consumer:
            async for record in consumer:
                print(record.partition, record.offset, record.value)

    It fetches ahead in the background. What a call has returned counts as dealt with when the next call is
    made: only then is it committed (with enable_auto_commit), and only during calls do partitions come and
    go. Brokers that are away are waited for, calls with a timeout return what there is; what does not pass
    by itself (a refused login, a damaged batch, an offset that is gone) is raised from the next call.
    """

    @accepts(ConsumerOptions)
    def __init__(self, options: ConsumerOptions) -> None:
        self.options = options
        self._cluster: Cluster | None = None
        self._clock: Clock | None = None
        self._caller: Caller = call_here
        self._running: ConsumerCore | None = None

    @classmethod
    def on(cls, cluster: Cluster, options: ConsumerOptions | None = None, clock: Clock | None = None) -> Self:
        """Return a consumer that shares what a cluster knows, and leaves it open when it is closed."""
        consumer = cls.calling_listeners(options or ConsumerOptions(), call_here)
        consumer._cluster = cluster
        consumer._clock = clock
        return consumer

    @classmethod
    def calling_listeners(cls, options: ConsumerOptions, caller: Caller) -> Self:
        """Return a consumer that calls its listener's methods in a way of its own."""
        consumer = cls.__new__(cls)
        consumer.options = options
        consumer._cluster = consumer._clock = consumer._running = None
        consumer._caller = caller
        return consumer

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._running is not None:
            await self._running.close(after_error=error is not None)

    async def __aiter__(self) -> AsyncIterator[ConsumerRecord]:
        core = self._core
        while True:
            for record in core.collector.drain():
                yield record
            more = await core.take_one(None)
            if more is not None:
                yield more

    async def start(self) -> None:
        """Connect to the cluster; if no broker is up, go on trying in the background.

        Raises what does not pass by itself: AuthenticationFailed, TlsFailed and the like.
        """
        if self._running is None:
            core = ConsumerCore(self.options, self._cluster, self._clock, self._caller)
            try:
                await core.start()
            except BaseException:
                await core.stop()
                raise
            self._running = core

    async def close(self) -> None:
        """Commit (with enable_auto_commit), leave the group, and disconnect; at most a few seconds."""
        if self._running is not None:
            await self._running.close()

    # What to read.

    def subscribe(
        self,
        topics: Iterable[str] | str = (),
        *,
        pattern: str | re.Pattern[str] | None = None,
        listener: RebalanceListener | None = None,
    ) -> None:
        """Read topics, or all that a pattern is found in, together with the group.

        Takes the place of an earlier subscription. Partitions come with the next calls that ask for records.
        """
        names = (topics,) if isinstance(topics, str) else tuple(topics)
        self._core.subscribe(names, pattern, listener)

    async def unsubscribe(self) -> None:
        """Leave the group, or stop reading what was assigned by hand."""
        await self._core.unsubscribe()

    def subscription(self) -> frozenset[str]:
        """Return the topics that are subscribed to; with a pattern, those found or assigned."""
        group = self._core.group
        if group is None or group.topics is None:
            return frozenset()
        return group.topics.names or frozenset(topic for topic, _ in self.assignment())

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Read exactly these partitions; nobody else takes part, even with a group_id (for its offsets)."""
        self._core.assign(partitions)

    def assignment(self) -> frozenset[TopicPartition]:
        """Return the partitions that are read now."""
        return self._core.assignment.partitions

    # Records.

    async def getmany(
        self, *partitions: TopicPartition, timeout_ms: float | None = 0, max_records: int | None = None
    ) -> Records:
        """Return the next records by partition; wait for some, no longer than the timeout (None: ever)."""
        timeout_s = None if timeout_ms is None else timeout_ms / 1000
        return await self._core.take(timeout_s, max_records, frozenset(partitions) or None)

    async def poll(self, timeout_ms: float | None = 0, max_records: int | None = None) -> Records:
        """Return the next records by partition, as `getmany` does."""
        return await self.getmany(timeout_ms=timeout_ms, max_records=max_records)

    async def getone(self, *partitions: TopicPartition, timeout_ms: float | None = None) -> ConsumerRecord:
        """Return the next record; wait for it, and raise TimedOut if there is none in time."""
        timeout_s = None if timeout_ms is None else timeout_ms / 1000
        core, only = self._core, frozenset(partitions) or None
        record = None
        while record is None:
            record = await core.take_one(timeout_s, only)
            if record is None and timeout_ms is not None:
                raise nothing_came(timeout_ms)
        return record

    async def poll_arrow(
        self, timeout_ms: float | None = 0, max_records: int | None = None, *, with_headers: bool = False
    ) -> Any:
        """Return what is there as one `pyarrow.Table`, without making an object of any record.

        Its columns: topic, partition, offset, timestamp, timestamp_type, key, value, and headers if asked
        for. It ends with a whole batch, so it may have more rows than `max_records`; by default it has all
        that was fetched. Deserializers are not used.
        """
        from ottla.client.consumer.fetching.arrow import to_table

        timeout_s = None if timeout_ms is None else timeout_ms / 1000
        core = self._core
        taken = await core.take_batches(timeout_s, 2**62 if max_records is None else max_records)
        with core.assignment.lock:
            return to_table(taken, with_headers)

    # Where to read.

    def seek(self, partition: TopicPartition, offset: int | OffsetAndMetadata) -> None:
        """Go on from an offset; with a leader epoch, only if the log still has what comes before it."""
        self._queries.seek(partition, offset)

    def seek_to_beginning(self, *partitions: TopicPartition) -> None:
        """Go to the first record of these partitions, or of all."""
        self._queries.seek_to(EARLIEST, partitions)

    def seek_to_end(self, *partitions: TopicPartition) -> None:
        """Go behind the last record of these partitions, or of all."""
        self._queries.seek_to(LATEST, partitions)

    def seek_to_time(self, timestamp_ms: int, *partitions: TopicPartition) -> None:
        """Go to the first record at or after a time (or to the end) of these partitions, or of all."""
        self._queries.seek_to(timestamp_ms, partitions)

    async def position(self, partition: TopicPartition, timeout_ms: float | None = None) -> int:
        """Return the offset of the next record; TimedOut if that cannot be found out in time."""
        return await self._queries.position(partition, timeout_ms)

    def pause(self, *partitions: TopicPartition) -> None:
        """Hand out nothing of these partitions until `resume`."""
        self._queries.pause(partitions)

    def resume(self, *partitions: TopicPartition) -> None:
        """Hand out records of these partitions again."""
        self._queries.resume(partitions)

    def paused(self) -> frozenset[TopicPartition]:
        """Return the partitions that are paused."""
        return self._queries.paused()

    # Offsets of the group.

    async def commit(
        self,
        offsets: Mapping[TopicPartition, int | OffsetAndMetadata] | None = None,
        timeout_ms: float | None = None,
    ) -> None:
        """Commit these offsets, each of the next record to read, or all positions.

        Raises CommitFailed if the group has moved on.
        """
        await self._queries.commit(offsets, timeout_ms)

    def commit_async(
        self,
        offsets: Mapping[TopicPartition, int | OffsetAndMetadata] | None = None,
        on_done: CommitCallback | None = None,
    ) -> asyncio.Task[None]:
        """Commit in the background, in the order of calls; `on_done` gets the offsets and the error."""
        return self._queries.commit_async(offsets, on_done)

    async def committed(
        self, partitions: Collection[TopicPartition], timeout_ms: float | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """Return what the group has committed of partitions; None where it has nothing."""
        return await self._queries.committed(partitions, timeout_ms)

    def group_metadata(self) -> ConsumerGroupMetadata:
        """Return who this consumer is in its group: for offsets in a producer's transaction."""
        return self._core.need_group("group metadata").signature

    # What there is.

    async def beginning_offsets(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the offset of the first record of each partition."""
        return await self._queries.offsets_at(EARLIEST, partitions)

    async def end_offsets(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the offset behind the last record of each partition; read_committed: the last stable one."""
        return await self._queries.offsets_at(LATEST, partitions)

    async def offsets_for_times(
        self, times: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, OffsetAndTime | None]:
        """Return the first record at or after each time (milliseconds); None where there is none."""
        return await self._queries.offsets_for_times(times)

    def highwater(self, partition: TopicPartition) -> int | None:
        """Return the end of a partition as the last fetch showed it; None if there was none yet."""
        return self._queries.highwater(partition)

    def lag(self, partition: TopicPartition) -> int | None:
        """Return how many offsets are left to read, as the last fetch showed it; None if none was yet."""
        return self._queries.lag(partition)

    async def partitions_for_topic(self, topic: str) -> list[PartitionInfo]:
        """Return the partitions of a topic."""
        cluster = self._core.cluster
        found = await cluster.retrying(lambda: cluster.topic(topic), patient=True)
        return list(found.partitions.values())

    async def topics(self) -> frozenset[str]:
        """Return the names of all topics that this client may see."""
        cluster = self._core.cluster
        return frozenset(await cluster.retrying(lambda: cluster.refresh(None), patient=True))

    @property
    def _core(self) -> ConsumerCore:
        if self._running is None:
            raise ClientClosed("the consumer is not started: use `async with`, or await start()")
        return self._running

    @property
    def _queries(self) -> Queries:
        return Queries(self._core)
