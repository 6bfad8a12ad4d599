"""Reads topics as a stream: Spark asks how far there is something, and what each task of a batch reads.

One Python process on the driver serves `initialOffset`, `latestOffset`, `partitions` and `commit` for as
long as the query runs; `read` is called in the workers.
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
from ottla.client.errors import ClientError
from ottla.common.clock import Clock, SystemClock
from ottla.common.ids import TopicPartition, new_uuid
from ottla.protocol.errors import KafkaError
from ottla.spark.cluster_session import ClusterSession, link_to
from ottla.spark.source.batch_reader import RangesToRead
from ottla.spark.source.deserializing import Deserializer
from ottla.spark.source.offsets import SourceOffset
from ottla.spark.source.options import SourceOptions
from ottla.spark.source.planning import plan_tasks
from ottla.spark.source.reading import read_ranges
from ottla.spark.source.stream_position import StreamPosition

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
        self._noted: dict[TopicPartition, int] | None = None
        self._noting: Future[None] | None = None

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        """Return where a new query begins."""
        if self._initial is None:
            positions, ids = self._link.run(self._here.first())
            self._initial = SourceOffset(positions, ids, self._new_group(), positions)
        return self._initial.to_json()

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """Return how much one batch reads at most."""
        most = self._options.max_offsets
        return ReadAllAvailable() if most is None else ReadMaxRows(most)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Take note of where the topics end: the query reads up to there, and ends."""
        self._link.run(self._here.stop_at_the_end())

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        """Return how far the next batch reads; `start` if there is nothing to read, after a little while."""
        most = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        begin = SourceOffset.from_json(start)
        self._note_progress(begin)  # the batch before is done, or there would be no next one
        end = self._link.run(self._here.next_end(begin, most))
        if end is not None:
            return end.to_json()
        if self._noting is not None:  # there is time: nothing to read, or it was the last batch of the run
            self._noting.result()
            self._noting = None
        return start

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802
        """Return where the topics end, as far as it is known, for the query's progress."""
        ends = self._here.last_ends
        return SourceOffset(ends).to_json() if ends else None

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Return what each task of a batch reads."""
        if start == end:
            return []
        ranges = self._link.run(self._here.ranges(SourceOffset.from_json(start), SourceOffset.from_json(end)))
        options = self._options
        tasks = plan_tasks(ranges, options.min_tasks, options.max_records_per_task)
        return [RangesToRead(each) for each in tasks]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Yield the records of one task."""
        ranges = partition.ranges if isinstance(partition, RangesToRead) else []
        return read_ranges(ranges, self._columns, self._options, self._deserializer)

    def commit(self, end: dict[str, Any]) -> None:
        """Take note that a batch is done; Spark says so one batch late, `latestOffset` earlier."""

    def _note_progress(self, done: SourceOffset) -> None:
        """Commit progress to the consumer group, in the background: it is there for tools that show lag."""
        group = self._options.group_id or done.group
        if group is None or not self._options.commits_progress or done.positions == self._noted:
            return
        self._noted = done.positions
        offsets = {at: OffsetAndMetadata(offset) for at, offset in done.positions.items() if offset >= 0}
        link = self._link
        self._noting = link.begin(_commit(link, group, offsets))

    def _new_group(self) -> str:
        given = self._options.group_id
        return given or f"{self._options.group_prefix}-{new_uuid().hex[:12]}"

    @property
    def _link(self) -> ClusterSession:
        return link_to(self._options.consumer)

    @property
    def _here(self) -> StreamPosition:
        if self._position is None:
            self._position = StreamPosition(self._link.cluster, self._options, self._clock)
        return self._position

    def __getstate__(self) -> dict[str, Any]:
        """Leave connections behind: workers make their own."""
        return {**self.__dict__, "_position": None, "_noting": None}


async def _commit(
    link: ClusterSession, group: str, offsets: Mapping[TopicPartition, OffsetAndMetadata]
) -> None:
    try:
        await Groups(link.cluster).commit(group, offsets)
    except (KafkaError, ClientError) as error:
        log.warning("the progress of the query could not be committed to the group %s: %s", group, error)
