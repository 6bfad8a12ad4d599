"""The options of the source: what to read, from where to where, and how."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from ottla.client.consumer.options import READ_COMMITTED, ConsumerOptions
from ottla.common.ids import TopicPartition
from ottla.spark.errors import WrongOption
from ottla.spark.options import (
    COMMIT_PROGRESS,
    ENDING_TIMESTAMP,
    FAIL_ON_DATA_LOSS,
    FETCH_OFFSET_INTERVAL_MS,
    FETCH_OFFSET_RETRIES,
    GROUP_ID_PREFIX,
    MAX_OFFSETS_PER_TRIGGER,
    MAX_RECORDS_PER_PARTITION,
    MAX_TRIGGER_DELAY,
    MIN_OFFSETS_PER_TRIGGER,
    MIN_PARTITIONS,
    POLL_TIMEOUT_MS,
    SOURCE,
    STARTING_TIMESTAMP,
    TIMESTAMP_STRATEGY,
    GivenOptions,
)
from ottla.spark.source.offsets import parse_assignment, parse_positions
from ottla.spark.source.range_reader import ReadSettings
from ottla.spark.source.record_filter import WHERE, RecordFilter, parse_where

EARLIEST, LATEST = -2, -1

MAX_WAIT_MS = 100
"""How long `latestOffset` waits for new records: other sources of the query, and its stop, wait with it."""
PARTITION_FETCH_BYTES = 4 * 1024 * 1024


@dataclass(frozen=True)
class Topics:
    """What to read: exactly one of three."""

    names: frozenset[str] = frozenset()
    pattern: str | None = None
    partitions: frozenset[TopicPartition] = frozenset()

    def include(self, topic_partition: TopicPartition) -> bool:
        """Return whether a partition is to be read, if it exists."""
        if self.pattern is not None:
            return re.fullmatch(self.pattern, topic_partition.topic) is not None
        return topic_partition.topic in self.names or topic_partition in self.partitions


@dataclass(frozen=True)
class Bound:
    """Where to start or to end: the same for all (an offset or a time), or by partition."""

    offset: int | None = None
    time_ms: int | None = None
    offsets: Mapping[TopicPartition, int] | None = None
    times_ms: Mapping[TopicPartition, int] | None = None
    option: str = ""

    @property
    def is_latest(self) -> bool:
        """Whether it is the end of the log."""
        return self.offset == LATEST


@dataclass(frozen=True)
class SourceOptions:
    """The options of a read."""

    topics: Topics
    starting: Bound
    ending: Bound
    consumer: ConsumerOptions
    fails_on_data_loss: bool
    falls_back_to_latest: bool
    max_offsets: int | None
    min_offsets: int | None
    max_delay_ms: int
    min_tasks: int | None
    max_records_per_task: int | None
    poll_timeout_ms: int
    group_id: str | None
    group_prefix: str
    commits_progress: bool
    wait_ms: int
    record_filter: RecordFilter

    @property
    def isolation_level(self) -> int:
        """1 (read committed) or 0 (read uncommitted)."""
        return int(self.consumer.reads_committed)

    @property
    def reading(self) -> ReadSettings:
        """How tasks read."""
        return ReadSettings(
            isolation_level=self.isolation_level,
            fails_on_data_loss=self.fails_on_data_loss,
            poll_timeout_ms=self.poll_timeout_ms,
            request_timeout_ms=self.consumer.request_timeout_ms,
            partition_bytes=self.consumer.max_partition_fetch_bytes,
            checks_crcs=self.consumer.check_crcs,
        )


def read_source_options(options: Mapping[str, str], *, is_stream: bool) -> SourceOptions:
    """Return the options of a read; raise WrongOption for the first invalid one."""
    given = GivenOptions(options, SOURCE)
    if is_stream:
        for name in ("endingOffsets", "endingOffsetsByTimestamp", "endingTimestamp"):
            if given.text(name) is not None:
                raise WrongOption(name, "is for batches only: a stream does not end")
    starting = _bound(given, "starting", LATEST if is_stream else EARLIEST)
    if not is_stream:
        _check_not_latest(starting)
    min_offsets, max_offsets = given.value(MIN_OFFSETS_PER_TRIGGER), given.value(MAX_OFFSETS_PER_TRIGGER)
    if min_offsets is not None and max_offsets is not None and min_offsets > max_offsets:
        raise WrongOption("minOffsetsPerTrigger", f"must not be above maxOffsetsPerTrigger ({max_offsets})")
    wait_ms = given.client_values.get("fetch.max.wait.ms")
    fixed = {} if "isolation.level" in given.client_values else {"isolation_level": READ_COMMITTED}
    if "max.partition.fetch.bytes" not in given.client_values:
        fixed["max_partition_fetch_bytes"] = str(PARTITION_FETCH_BYTES)
    consumer = given.client(ConsumerOptions, **fixed)
    asked_ms = given.value(FETCH_OFFSET_RETRIES) * given.value(FETCH_OFFSET_INTERVAL_MS)
    if asked_ms > consumer.default_api_timeout_ms:
        consumer = replace(consumer, default_api_timeout_ms=asked_ms)
    return SourceOptions(
        topics=_topics(given),
        starting=starting,
        ending=_bound(given, "ending", LATEST),
        consumer=consumer,
        fails_on_data_loss=given.value(FAIL_ON_DATA_LOSS),
        falls_back_to_latest=given.value(TIMESTAMP_STRATEGY) == "latest",
        max_offsets=max_offsets,
        min_offsets=min_offsets,
        max_delay_ms=given.value(MAX_TRIGGER_DELAY),
        min_tasks=given.value(MIN_PARTITIONS),
        max_records_per_task=given.value(MAX_RECORDS_PER_PARTITION),
        poll_timeout_ms=given.value(POLL_TIMEOUT_MS),
        group_id=given.client_values.get("group.id"),
        group_prefix=given.value(GROUP_ID_PREFIX),
        commits_progress=given.value(COMMIT_PROGRESS),
        wait_ms=consumer.fetch_max_wait_ms if wait_ms is not None else MAX_WAIT_MS,
        record_filter=parse_where(given.text(WHERE)),
    )


def _topics(given: GivenOptions) -> Topics:
    ways = [each for each in ("assign", "subscribe", "subscribePattern") if given.text(each) is not None]
    if len(ways) != 1:
        what = (
            "is given together with " + ways[1] if ways else "or assign, or subscribePattern, must be given"
        )
        raise WrongOption(ways[0] if ways else "subscribe", f"{what}: exactly one of the three must be given")
    text = given.text(ways[0]) or ""
    if ways[0] == "assign":
        try:
            return Topics(partitions=parse_assignment(text))
        except ValueError as error:
            raise WrongOption("assign", str(error).split(" ", 1)[1]) from None
    if ways[0] == "subscribe":
        names = frozenset(each.strip() for each in text.split(",") if each.strip())
        if not names:
            raise WrongOption("subscribe", "names no topic")
        return Topics(names=names)
    try:
        re.compile(text)
    except re.error as error:
        raise WrongOption("subscribePattern", f"is not a regular expression: {error}") from None
    return Topics(pattern=text)


def _bound(given: GivenOptions, which: str, default: int) -> Bound:
    """Return where to start or to end; of the three ways to say it, the most precise one is used."""
    by_time = STARTING_TIMESTAMP if which == "starting" else ENDING_TIMESTAMP
    if (time_ms := given.value(by_time)) is not None:
        return Bound(time_ms=time_ms, option=by_time.name)
    name = f"{which}OffsetsByTimestamp"
    if (text := given.text(name)) is not None:
        return Bound(times_ms=_parsed(name, text), option=name)
    name = f"{which}Offsets"
    text = given.text(name)
    if text is None:
        return Bound(offset=default, option=name)
    if text.lower() == "latest":
        return Bound(offset=LATEST, option=name)
    if text.lower() == "earliest":
        if which == "ending":
            raise WrongOption(name, "must be latest or JSON: nothing lies before the earliest record")
        return Bound(offset=EARLIEST, option=name)
    offsets = _parsed(name, text)
    if which == "ending" and EARLIEST in offsets.values():
        raise WrongOption(name, "must not be -2 (earliest): nothing lies before the earliest record")
    return Bound(offsets=offsets, option=name)


def _check_not_latest(starting: Bound) -> None:
    """Raise if a batch starts at the latest record, where there is nothing to read."""
    if starting.is_latest or LATEST in (starting.offsets or {}).values():
        raise WrongOption(
            starting.option,
            "must not be latest (-1) in a batch, which would have no records; it is for streams",
        )


def _parsed(name: str, text: str) -> dict[TopicPartition, int]:
    try:
        return parse_positions(name, text)
    except ValueError as error:
        raise WrongOption(name, str(error).split(" ", 1)[1]) from None
