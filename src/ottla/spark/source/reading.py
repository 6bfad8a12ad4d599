"""The task of a reader: fetch in the background, and convert to Arrow record batches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from ottla.spark.cluster_session import ClusterSession, cluster_session
from ottla.spark.source.columns import MAX_ROWS, record_columns
from ottla.spark.source.deserializing import Deserializer
from ottla.spark.source.options import SourceOptions
from ottla.spark.source.planning import OffsetRange
from ottla.spark.source.range_reader import FetchedBatches, RangeReader
from ottla.spark.source.topic_watch import TopicWatch
from ottla.spark.worker import freeze_modules


def read_ranges(
    ranges: Sequence[OffsetRange],
    columns: Sequence[str],
    options: SourceOptions,
    deserializer: Deserializer | None = None,
) -> Iterator[Any]:
    """Yield the records of some ranges as Arrow record batches."""
    freeze_modules()
    if not ranges:
        return
    session = cluster_session(options.consumer, waits_for_brokers=True)
    needed = columns if deserializer is None else deserializer.needed
    for pieces in _fetched(session, ranges, options):
        rows = record_columns(pieces, needed, options.record_filter)
        if deserializer is not None:
            rows = deserializer.apply(rows)
        for start in range(0, rows.num_rows, MAX_ROWS):
            yield rows.slice(start, MAX_ROWS) if rows.num_rows > MAX_ROWS else rows


def _fetched(
    session: ClusterSession, ranges: Sequence[OffsetRange], options: SourceOptions
) -> Iterator[list[FetchedBatches]]:
    reader = session.run(_open(session, ranges, options))
    answer = session.begin(reader.next())
    try:
        while pieces := answer.result():
            answer = session.begin(reader.next())
            yield pieces
    finally:
        answer.cancel()


async def _open(
    session: ClusterSession, ranges: Sequence[OffsetRange], options: SourceOptions
) -> RangeReader:
    return RangeReader(session.cluster, ranges, options.reading)


def until_now(ranges: Sequence[OffsetRange], options: SourceOptions) -> list[OffsetRange]:
    """Return live ranges with their current end."""
    live = [each for each in ranges if each.is_live]
    if not live:
        return list(ranges)
    session = cluster_session(options.consumer, waits_for_brokers=True)
    watch = TopicWatch(session.cluster, options)
    ends = session.run(watch.ends([each.topic_partition for each in live]))
    return [
        replace(each, end=ends[each.topic_partition], is_live=False) if each.is_live else each
        for each in ranges
    ]
