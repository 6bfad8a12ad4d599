"""Read topics as a stream: Spark asks for the end of each batch, and for the ranges of its tasks.

One Python process on the driver serves `initialOffset`, `latestOffset`, `partitions` and `commit` for as long
as the query runs; `read` is called in the workers.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from typing import Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from ottla.client.admin.group_types import OffsetAndMetadata
from ottla.client.admin.groups import Groups
from ottla.client.admin.lag import record_times
from ottla.client.errors import ClientError
from ottla.common.clock import Clock, SystemClock
from ottla.common.ids import TopicPartition, new_uuid
from ottla.protocol.errors import KafkaError
from ottla.spark.cluster_session import ClusterSession, cluster_session
from ottla.spark.source.batch_reader import RangesToRead
from ottla.spark.source.deserializing import Deserializer
from ottla.spark.source.offsets import SECONDS, Positions, SourceOffset
from ottla.spark.source.options import SourceOptions
from ottla.spark.source.planning import plan_tasks
from ottla.spark.source.reading import read_ranges
from ottla.spark.source.stream_position import StreamPosition

EVERY_MS = 2_000
"""To know the age of a record, its batch is fetched: not for every batch of a query."""
MAX_PARTITIONS = 32


class UnreadAge:
    """Measures the age, at most every two seconds."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._measured_ms: int | None = None
        self._oldest_ms: int | None = None

    def seconds(
        self,
        session: ClusterSession,
        positions: Positions,
        ends: Positions,
    ) -> float | None:
        """Return the age of the oldest record after these positions; 0 if there is none, None if unknown."""
        unread = {each: at for each, at in positions.items() if ends.get(each, at) > at}
        if not unread:
            self._oldest_ms = None
            return 0.0
        now_ms = self._clock.mono_ms()
        if self._measured_ms is None or now_ms - self._measured_ms >= EVERY_MS or self._oldest_ms is None:
            self._measured_ms = now_ms
            self._oldest_ms = self._measure(session, unread, ends)
        if self._oldest_ms is None:
            return None
        return round(max(0, self._clock.wall_ms() - self._oldest_ms) / 1000, 3)

    def _measure(
        self,
        session: ClusterSession,
        unread: Positions,
        ends: Positions,
    ) -> int | None:
        worst = sorted(unread, key=lambda each: unread[each] - ends[each])[:MAX_PARTITIONS]
        try:
            times = session.run(record_times(session.cluster, {each: unread[each] for each in worst}, ends))
        except (KafkaError, ClientError) as error:
            log.debug("cannot read the age of unread records: %s", error)
            return None
        return min((each for each in times.values() if each is not None), default=None)


log = logging.getLogger(__name__)


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """The stream of some topics."""

    def __init__(
        self,
        options: SourceOptions,
        columns: Sequence[str],
        deserializer: Deserializer | None,
        clock: Clock | None = None,
    ) -> None:
        self._options = options
        self._columns = list(columns)
        self._deserializer = deserializer
        self._clock = clock or SystemClock()
        self._position: StreamPosition | None = None
        self._initial: SourceOffset | None = None
        self._planned: dict[TopicPartition, int] = {}
        self._age = UnreadAge(self._clock)
        self._committed: dict[TopicPartition, int] | None = None
        self._commit_in_flight: Future[None] | None = None

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        """Return the start of a new query."""
        if self._initial is None:
            positions, ids = self._session.run(self._stream_position.first())
            self._initial = SourceOffset(positions, ids, self._new_group(), positions)
        return self._initial.to_json()

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """Return the maximum size of a batch."""
        most = self._options.max_offsets
        return ReadAllAvailable() if most is None else ReadMaxRows(most)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Fix the current end offsets: the query reads up to them, and ends."""
        self._session.run(self._stream_position.fix_end())

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        """Return the end of the next batch; `start` if nothing arrives within a short wait."""
        most = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        begin = SourceOffset.from_json(start)
        self._commit_progress(begin)  # a next batch means that the previous one is done
        end = self._session.run(self._stream_position.next_end(begin, most))
        self._planned = (end or begin).positions
        if end is not None:
            return end.to_json()
        if self._commit_in_flight is not None:  # idle: nothing to read, or it was the last batch of the run
            self._commit_in_flight.result()
            self._commit_in_flight = None
        return start

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802
        """Return the known end offsets, for the query's progress, and the age of the oldest unread record."""
        ends = self._stream_position.last_ends
        if not ends:
            return None
        seconds = self._age.seconds(self._session, self._planned, ends)
        return SourceOffset(ends).to_json() | ({} if seconds is None else {SECONDS: seconds})

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Return the ranges of each task of a batch."""
        if start == end:
            return []
        ranges = self._session.run(
            self._stream_position.ranges(SourceOffset.from_json(start), SourceOffset.from_json(end))
        )
        options = self._options
        ranges = options.record_filter.narrow(ranges)
        tasks = plan_tasks(ranges, options.min_tasks, options.max_records_per_task)
        return [RangesToRead(each) for each in tasks]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Yield the records of one task."""
        ranges = partition.ranges if isinstance(partition, RangesToRead) else []
        return read_ranges(ranges, self._columns, self._options, self._deserializer)

    def commit(self, end: dict[str, Any]) -> None:
        """Do nothing: Spark calls this one batch late; `latestOffset` notes progress earlier."""

    def _commit_progress(self, done: SourceOffset) -> None:
        """Commit progress to the consumer group in the background, for tools that show lag."""
        group = self._options.group_id or done.group
        if group is None or not self._options.commits_progress or done.positions == self._committed:
            return
        self._committed = done.positions
        offsets = {
            topic_partition: OffsetAndMetadata(offset)
            for topic_partition, offset in done.positions.items()
            if offset >= 0
        }
        session = self._session
        self._commit_in_flight = session.begin(_commit(session, group, offsets))

    def _new_group(self) -> str:
        given = self._options.group_id
        return given or f"{self._options.group_prefix}-{new_uuid().hex[:12]}"

    @property
    def _session(self) -> ClusterSession:
        return cluster_session(self._options.consumer)

    @property
    def _stream_position(self) -> StreamPosition:
        if self._position is None:
            self._position = StreamPosition(self._session.cluster, self._options, self._clock)
        return self._position

    def __getstate__(self) -> dict[str, Any]:
        """Exclude connections: workers open their own."""
        return {**self.__dict__, "_position": None, "_noting": None}


async def _commit(
    session: ClusterSession, group: str, offsets: Mapping[TopicPartition, OffsetAndMetadata]
) -> None:
    try:
        await Groups(session.cluster).commit(group, offsets)
    except (KafkaError, ClientError) as error:
        log.warning("cannot commit the query's progress to the group %s: %s", group, error)
