"""The consumer for asyncio."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Collection, Iterable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from ottla.client.admin.group_types import ConsumerGroupMetadata, OffsetAndMetadata
from ottla.client.cluster import Cluster
from ottla.client.consumer.core import ConsumerCore, Records
from ottla.client.consumer.fetching.partition_state import PendingLookup
from ottla.client.consumer.fetching.record import ConsumerRecord
from ottla.client.consumer.fetching.rows import Make, Rows, to_rows
from ottla.client.consumer.membership.listener import Caller, RebalanceListener, call_here
from ottla.client.consumer.options import ConsumerOptions
from ottla.client.errors import ClientClosed, TimedOut
from ottla.client.metadata import PartitionInfo
from ottla.client.offsets import EARLIEST, LATEST, OffsetAndTime, list_offsets
from ottla.client.signatures import accepts
from ottla.common.clock import Clock
from ottla.common.ids import TopicPartition
from ottla.wire.backoff import within

if TYPE_CHECKING:
    from ottla.client.consumer.membership.commits import CommitCallback


def no_record(timeout_ms: float) -> TimedOut:
    """Return the error of a call that got no record within its timeout."""
    return TimedOut(f"no record came within {timeout_ms:g} ms")


class AsyncConsumer:
    """Reads records: topics together with a group, or partitions by hand.

        async with AsyncConsumer("localhost:9092", group_id="billing", topics="orders") as consumer:
            async for record in consumer:
                print(record.partition, record.offset, record.value)

    It fetches ahead in the background. Records are considered processed once you make the next call: only
    then are their offsets committed (with enable_auto_commit), and only during calls are partitions assigned
    and revoked. While brokers are unavailable it retries, and calls with a timeout return the records that
    there are; permanent errors (rejected credentials, a corrupt batch, an offset that was deleted) are
    raised from the next call.
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
        """Return a consumer that uses the connections of a cluster, and does not close them."""
        consumer = cls.calling_listeners(options or ConsumerOptions(), call_here)
        consumer._cluster = cluster
        consumer._clock = clock
        return consumer

    @classmethod
    def calling_listeners(cls, options: ConsumerOptions, caller: Caller) -> Self:
        """Return a consumer that calls its listener's methods through `caller`."""
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
        """Connect to the cluster; if no broker is up, retry in the background.

        Raises permanent errors: AuthenticationFailed, TlsFailed and the like.
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
        names = (topics,) if isinstance(topics, str) else tuple(topics)
        self._core.subscribe(names, pattern, listener)

    async def unsubscribe(self) -> None:
        """Leave the group, or drop the partitions that were assigned manually."""
        await self._core.unsubscribe()

    def subscription(self) -> frozenset[str]:
        """Return the subscribed topics; with a pattern, those that match or are assigned."""
        group = self._core.group
        if group is None or group.topics is None:
            return frozenset()
        return group.topics.names or frozenset(topic for topic, _ in self.assignment())

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Read exactly these partitions, without rebalancing; a group_id is used for its offsets only."""
        self._core.assign(partitions)

    def assignment(self) -> frozenset[TopicPartition]:
        """Return the assigned partitions."""
        return self._core.assignment.partitions

    # Records.

    async def getmany(
        self, *partitions: TopicPartition, timeout_ms: float | None = 0, max_records: int | None = None
    ) -> Records:
        """Return the next records by partition; wait for some up to the timeout (None: no timeout)."""
        timeout_s = None if timeout_ms is None else timeout_ms / 1000
        return await self._core.take(timeout_s, max_records, frozenset(partitions) or None)

    async def poll(self, timeout_ms: float | None = 0, max_records: int | None = None) -> Records:
        """Return the next records by partition, as `getmany` does."""
        return await self.getmany(timeout_ms=timeout_ms, max_records=max_records)

    async def getone(self, *partitions: TopicPartition, timeout_ms: float | None = None) -> ConsumerRecord:
        """Return the next record; raise TimedOut if none comes within the timeout."""
        timeout_s = None if timeout_ms is None else timeout_ms / 1000
        core, only = self._core, frozenset(partitions) or None
        record = None
        while record is None:
            record = await core.take_one(timeout_s, only)
            if record is None and timeout_ms is not None:
                raise no_record(timeout_ms)
        return record

    async def poll_arrow(
        self, timeout_ms: float | None = 0, max_records: int | None = None, *, with_headers: bool = False
    ) -> Any:
        """Return the fetched records as one `pyarrow.Table`, without creating an object per record.

        Its columns: topic, partition, offset, timestamp, timestamp_type, key, value, and headers with
        `with_headers`. It ends with a whole batch, so it may have more rows than `max_records`; by default it
        has all records that were fetched. Deserializers are not used.
        """
        from ottla.client.consumer.fetching.arrow import to_table

        timeout_s = None if timeout_ms is None else timeout_ms / 1000
        core = self._core
        taken = await core.take_batches(timeout_s, 2**62 if max_records is None else max_records)
        with core.assignment.lock:
            return to_table(taken, with_headers)

    async def poll_rows(
        self, make: Make, timeout_ms: float | None = 0, *, until: Mapping[TopicPartition, int] | None = None
    ) -> list[Rows]:
        """Return what `make` makes of each fetched record's tuple, by partition: fast, for whole topics.

        The tuple has the fields of a ConsumerRecord. Records from the offsets of `until` on are left out.
        Deserializers are not used.
        """
        timeout_s = None if timeout_ms is None else timeout_ms / 1000
        core = self._core
        taken = await core.take_batches(timeout_s, 2**62)
        with core.assignment.lock:
            return to_rows(taken, make, until or {})

    # Positions.

    def seek(self, partition: TopicPartition, offset: int | OffsetAndMetadata) -> None:
        """Continue at an offset; with a leader epoch, only if the log was not truncated before it."""
        wanted = _with_metadata(offset)
        if wanted.offset < 0:
            raise ValueError(f"an offset is 0 or more, not {wanted.offset}")
        assignment = self._core.assignment
        with assignment.lock:
            assignment[partition].seek(wanted.offset, wanted.leader_epoch)
        self._core.wake()

    def seek_to_beginning(self, *partitions: TopicPartition) -> None:
        """Continue at the first record of these partitions, or of all."""
        self._seek_to(EARLIEST, partitions)

    def seek_to_end(self, *partitions: TopicPartition) -> None:
        """Continue after the last record of these partitions, or of all."""
        self._seek_to(LATEST, partitions)

    def seek_to_time(self, timestamp_ms: int, *partitions: TopicPartition) -> None:
        """Continue at the first record at or after a time, else at the end; of these partitions or all."""
        self._seek_to(timestamp_ms, partitions)

    def _seek_to(self, time: int, partitions: Collection[TopicPartition]) -> None:
        assignment = self._core.assignment
        with assignment.lock:
            for partition in partitions or assignment.partitions:
                assignment[partition].require(PendingLookup.RESET, time)
        self._core.wake()

    async def position(self, partition: TopicPartition, timeout_ms: float | None = None) -> int:
        """Return the offset of the next record; raise TimedOut if it is not known within the timeout."""
        timeout_ms = self.options.default_api_timeout_ms if timeout_ms is None else timeout_ms
        async with within(timeout_ms, f"the position of {partition} was not found"):
            return await self._core.position(partition)

    def pause(self, *partitions: TopicPartition) -> None:
        """Return no records of these partitions until `resume`."""
        assignment = self._core.assignment
        with assignment.lock:
            for partition in partitions:
                assignment[partition].is_paused = True

    def resume(self, *partitions: TopicPartition) -> None:
        """Return records of these partitions again."""
        assignment = self._core.assignment
        for partition in partitions:
            state = assignment[partition]
            state.is_paused = False
            if state.has_records:
                assignment.enqueue_ready(state)
        self._core.wake()

    def paused(self) -> frozenset[TopicPartition]:
        """Return the paused partitions."""
        return frozenset(state.partition for state in self._core.assignment if state.is_paused)

    # Committed offsets.

    async def commit(
        self,
        offsets: Mapping[TopicPartition, int | OffsetAndMetadata] | None = None,
        timeout_ms: float | None = None,
    ) -> None:
        """Commit these offsets, each of the next record to read, or all positions.

        Raises CommitFailed if the group has rebalanced in the meantime.
        """
        group = self._core.need_group("committing")
        await group.commits.commit(self._to_commit(offsets), timeout_ms)

    def commit_async(
        self,
        offsets: Mapping[TopicPartition, int | OffsetAndMetadata] | None = None,
        on_done: CommitCallback | None = None,
    ) -> asyncio.Task[None]:
        """Commit in the background, in the order of calls; `on_done` gets the offsets and the error."""
        return self._core.need_group("committing").queue.post(self._to_commit(offsets), on_done)

    def _to_commit(
        self, offsets: Mapping[TopicPartition, int | OffsetAndMetadata] | None
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        if offsets is None:
            return self._core.assignment.consumed()
        return {TopicPartition(*partition): _with_metadata(offset) for partition, offset in offsets.items()}

    async def committed(
        self, partitions: Collection[TopicPartition], timeout_ms: float | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """Return the committed offsets of partitions; None for those without one."""
        wanted = [TopicPartition(*each) for each in partitions]
        group = self._core.need_group("asking for committed offsets")
        found = await group.commits.fetch(wanted, timeout_ms)
        return {each: found.get(each) for each in wanted}

    def group_metadata(self) -> ConsumerGroupMetadata:
        """Return the member id and generation in the group: to commit offsets in a producer's transaction."""
        return self._core.need_group("group metadata").signature

    # Topics and partitions of the cluster.

    async def beginning_offsets(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the offset of the first record of each partition."""
        found = await self._list_offsets({TopicPartition(*each): EARLIEST for each in partitions})
        return {partition: answer.offset for partition, answer in found.items()}

    async def end_offsets(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the offset after the last record of each partition; read_committed: the last stable one."""
        found = await self._list_offsets({TopicPartition(*each): LATEST for each in partitions})
        return {partition: answer.offset for partition, answer in found.items()}

    async def offsets_for_times(
        self, times: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, OffsetAndTime | None]:
        """Return offset and time of the first record at or after each time (ms); None if there is none."""
        if any(time < 0 for time in times.values()):
            raise ValueError("times are milliseconds since 1970; see beginning_offsets and end_offsets")
        found = await self._list_offsets(times)
        return {partition: answer if answer.offset >= 0 else None for partition, answer in found.items()}

    async def _list_offsets(self, times: Mapping[TopicPartition, int]) -> dict[TopicPartition, OffsetAndTime]:
        level = int(self.options.reads_committed)
        async with within(self.options.default_api_timeout_ms, "the offsets were not found"):
            return await list_offsets(self._core.cluster, times, isolation_level=level)

    def highwater(self, partition: TopicPartition) -> int | None:
        """Return the high watermark of a partition as of the last fetch; None before the first one."""
        found = self._core.assignment[partition].high_watermark
        return None if found < 0 else found

    def lag(self, partition: TopicPartition) -> int | None:
        """Return the lag in offsets as of the last fetch; None before the first one."""
        state = self._core.assignment[partition]
        end = state.last_stable_offset if self.options.reads_committed else state.high_watermark
        return None if end < 0 or state.position < 0 else max(end - state.position, 0)

    async def partitions_for_topic(self, topic: str) -> list[PartitionInfo]:
        """Return the partitions of a topic."""
        cluster = self._core.cluster
        found = await cluster.retrying(lambda: cluster.topic(topic), wait_for_brokers=True)
        return list(found.partitions.values())

    async def topics(self) -> frozenset[str]:
        """Return the names of all topics that this client is authorized to see."""
        cluster = self._core.cluster
        return frozenset(await cluster.retrying(lambda: cluster.refresh(None), wait_for_brokers=True))

    @property
    def _core(self) -> ConsumerCore:
        if self._running is None:
            raise ClientClosed("the consumer is not started: use `async with`, or await start()")
        return self._running


def _with_metadata(offset: int | OffsetAndMetadata) -> OffsetAndMetadata:
    return OffsetAndMetadata(offset) if isinstance(offset, int) else OffsetAndMetadata(*offset)
