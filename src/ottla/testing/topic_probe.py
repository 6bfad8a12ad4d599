"""Looks into a topic for a test: what it holds, and whether that is what it should hold.

    topic = broker.topic("orders")
    topic.assert_received(b"1", b"2")                          # waits for them, 5 s at most
    topic.assert_received({"id": 1}, decode=json.loads)
    topic.assert_received((b"key", b"value"))                  # keys too
    [record.value for record in topic.records()]

A topic is read as a consumer with isolation_level=read_committed reads it. A test that is a coroutine, and
whose client runs on the same loop, awaits `records_async` and `assert_received_async`: the client runs on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from typing import Any, NamedTuple

from ottla.client.admin.topic_admin import TopicAdmin
from ottla.client.client_options import ClientOptions
from ottla.client.cluster import Cluster
from ottla.client.consumer import AsyncConsumer, ConsumerRecord
from ottla.client.event_loop_thread import EventLoopThread
from ottla.client.producer import AsyncProducer
from ottla.common.ids import TopicPartition
from ottla.protocol.errors import UnknownTopicOrPartition

# What a topic should hold against what it holds, for people to read.

SHOWN = 200
"""Characters of a value."""
LINES = 50

Decode = Callable[[bytes], Any]


class Expected(NamedTuple):
    """A record to come; `key` counts if it was given."""

    value: Any
    has_key: bool = False
    key: Any = None

    def is_met_by(self, record: ConsumerRecord, decode: Decode | None) -> bool:
        """Return whether this is that record."""
        if self.has_key and self.key != record.key:
            return False
        return bool(self.value == _decoded(record, decode))

    def __str__(self) -> str:
        return _shown(self.key, self.value, self.has_key)


def in_form(expected: Any, decode: Decode | None) -> Expected:
    """Return what the user wrote as an `Expected`: a value, or a tuple of key and value."""
    if isinstance(expected, tuple) and not isinstance(expected, ConsumerRecord):
        key, value = expected
        return Expected(value if decode else _record_diff_encoded(value), True, _record_diff_encoded(key))
    return Expected(expected if decode else _record_diff_encoded(expected))


def difference(
    wanted: Sequence[Expected], found: Sequence[ConsumerRecord], *, any_order: bool, decode: Decode | None
) -> str:
    """Return lines with `-` for what is missing and `+` for what is too much; empty if there is neither."""
    lines = list(_unordered(wanted, found, decode) if any_order else _ordered(wanted, found, decode))
    if not any(line[0] in "-+" for line in lines):
        return ""
    if len(lines) > LINES:
        first = next(at for at, line in enumerate(lines) if line[0] in "-+")
        start = max(0, first - LINES // 5)
        lines = [
            f"  ... {start} more",
            *lines[start : start + LINES],
            f"  ... {len(lines) - start - LINES} more",
        ]
    return "\n".join(["  - expected, not received;  + received, not expected", *lines])


def _ordered(
    wanted: Sequence[Expected], found: Sequence[ConsumerRecord], decode: Decode | None
) -> Iterator[str]:
    if len(wanted) == len(found) and all(
        one.is_met_by(other, decode) for one, other in zip(wanted, found, strict=True)
    ):
        return
    keyed = any(each.has_key for each in wanted)
    left = [str(each) for each in wanted]
    right = [_shown(each.key, _decoded(each, decode), keyed) for each in found]
    for kind, a, b, c, d in SequenceMatcher(None, left, right, autojunk=False).get_opcodes():
        if kind == "equal":
            yield from (f"  {_place(found[at])} {right[at]}" for at in range(c, d))
            continue
        yield from (f"- {left[at]}" for at in range(a, b))
        yield from (f"+ {_place(found[at])} {right[at]}" for at in range(c, d))


def _unordered(
    wanted: Sequence[Expected], found: Sequence[ConsumerRecord], decode: Decode | None
) -> Iterator[str]:
    left = list(found)
    for each in wanted:
        at = next((at for at, record in enumerate(left) if each.is_met_by(record, decode)), None)
        if at is None:
            yield f"- {each}"
        else:
            yield f"  {_place(left[at])} {each}"
            del left[at]
    yield from (f"+ {_place(each)} {_shown(each.key, _decoded(each, decode), True)}" for each in left)


def _decoded(record: ConsumerRecord, decode: Decode | None) -> Any:
    if decode is None or record.value is None:
        return record.value
    try:
        return decode(record.value)
    except Exception as error:
        return f"{record.value!r}, which cannot be decoded: {error}"


def _place(record: ConsumerRecord) -> str:
    return f"[{record.partition}:{record.offset}]"


def _shown(key: Any, value: Any, with_key: bool) -> str:
    text = f"{key!r}: {value!r}" if with_key else repr(value)
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}... ({len(text)} characters)"


def _record_diff_encoded(value: Any) -> Any:
    return value.encode() if isinstance(value, str) else value


WAIT_S = 5.0
READ_AT_ONCE = 10_000
POLL_INTERVAL_S = 0.02
POLL_MS = 100

Enough = Callable[[Sequence[ConsumerRecord]], bool]


class TopicProbe:
    """One topic, as a test sees it; it need not exist yet."""

    def __init__(self, loop_thread: EventLoopThread, bootstrap_servers: str, name: str) -> None:
        self.name = name
        self._loop_thread = loop_thread
        self._bootstrap = bootstrap_servers

    def records(
        self, at_least: int = 0, *, timeout_s: float = WAIT_S, uncommitted: bool = False
    ) -> list[ConsumerRecord]:
        """Return all records, by partition and offset; wait until there are at least so many.

        With `uncommitted` those of open and aborted transactions too. A topic that does not exist has none.
        """
        read = self._read(lambda found: len(found) >= at_least, timeout_s, uncommitted)
        found = self._loop_thread.run(read)
        if len(found) < at_least:
            raise AssertionError(
                f"topic {self.name!r} has {len(found)} records after {timeout_s:g} s, not {at_least}"
            )
        return found

    def values(self, at_least: int = 0, *, timeout_s: float = WAIT_S) -> list[bytes | None]:
        """Return the values of all records."""
        return [each.value for each in self.records(at_least, timeout_s=timeout_s)]

    def assert_received(
        self,
        *expected: Any,
        any_order: bool | None = None,
        decode: Callable[[bytes], Any] | None = None,
        timeout_s: float = WAIT_S,
        uncommitted: bool = False,
    ) -> list[ConsumerRecord]:
        """Wait until the topic holds exactly these records, and return them; fail with what differs.

        Each is a value (bytes, text, or what `decode` makes of the bytes) or a tuple (key, value). Order
        counts if they are all in one partition; `any_order` says otherwise. With nothing expected, the topic
        must stay empty for `timeout_s`.
        """
        __tracebackhide__ = True
        wanted = [in_form(each, decode) for each in expected]
        enough: Enough = lambda found: len(found) >= len(wanted) and bool(wanted or found)  # noqa: E731
        found = self._loop_thread.run(self._read(enough, timeout_s, uncommitted))
        if any_order is None:
            any_order = len({each.partition for each in found}) > 1
        problem = difference(wanted, found, any_order=any_order, decode=decode)
        if problem:
            took = "" if enough(found) else f" within {timeout_s:g} s"
            raise AssertionError(
                f"topic {self.name!r} received {len(found)} records{took}, "
                f"not the {len(wanted)} expected\n{problem}"
            )
        return found

    async def records_async(
        self, at_least: int = 0, *, timeout_s: float = WAIT_S, uncommitted: bool = False
    ) -> list[ConsumerRecord]:
        """Do what `records` does without blocking the test's own loop."""
        return await asyncio.to_thread(self.records, at_least, timeout_s=timeout_s, uncommitted=uncommitted)

    async def assert_received_async(
        self,
        *expected: Any,
        any_order: bool | None = None,
        decode: Callable[[bytes], Any] | None = None,
        timeout_s: float = WAIT_S,
        uncommitted: bool = False,
    ) -> list[ConsumerRecord]:
        """Do what `assert_received` does without blocking the test's own loop."""
        __tracebackhide__ = True
        return await asyncio.to_thread(
            self.assert_received,
            *expected,
            any_order=any_order,
            decode=decode,
            timeout_s=timeout_s,
            uncommitted=uncommitted,
        )

    def send(
        self, *values: bytes | str | None, key: bytes | None = None, partition: int | None = None
    ) -> None:
        """Put records into the topic, as another program would; return when they are there."""
        self._loop_thread.run(self._send([_encoded(each) for each in values], key, partition))

    def create(
        self, partitions: int = 1, replication_factor: int = -1, configs: Mapping[str, str] | None = None
    ) -> None:
        """Create the topic."""
        self._loop_thread.run(self._create(partitions, replication_factor, configs))

    async def _create(self, partitions: int, replicas: int, configs: Mapping[str, str] | None) -> None:
        async with Cluster(options=ClientOptions(self._bootstrap)) as cluster:
            await TopicAdmin(cluster).create_topic(
                self.name, partitions=partitions, replication_factor=replicas, configs=configs
            )

    async def _send(self, values: Iterable[bytes | None], key: bytes | None, partition: int | None) -> None:
        async with AsyncProducer(self._bootstrap) as producer:
            for value in values:
                await producer.send(self.name, value, key=key, partition=partition)

    async def _read(self, enough: Enough, timeout_s: float, uncommitted: bool) -> list[ConsumerRecord]:
        """Return all that the topic holds, as soon as it is enough, or when the time is over."""
        deadline = asyncio.get_running_loop().time() + timeout_s
        found: list[ConsumerRecord] = []
        level = "read_uncommitted" if uncommitted else "read_committed"
        async with AsyncConsumer(
            self._bootstrap, isolation_level=level, auto_offset_reset="earliest", fetch_max_wait_ms=POLL_MS
        ) as consumer:
            while True:
                await self._read_to_the_end(consumer, found)
                if enough(found) or asyncio.get_running_loop().time() >= deadline:
                    return sorted(found, key=lambda each: (each.partition, each.offset))
                await asyncio.sleep(POLL_INTERVAL_S)

    async def _read_to_the_end(self, consumer: AsyncConsumer, found: list[ConsumerRecord]) -> None:
        """Add what there is that has not been read; the topic and its partitions may be new."""
        try:
            infos = await consumer.partitions_for_topic(self.name)
        except UnknownTopicOrPartition:
            return
        partitions = [TopicPartition(self.name, each.index) for each in infos]
        if set(partitions) != consumer.assignment():
            consumer.assign(partitions)
        ends = await consumer.end_offsets(partitions)
        for partition, end in ends.items():
            while await consumer.position(partition) < end:
                records = await consumer.getmany(partition, timeout_ms=POLL_MS, max_records=READ_AT_ONCE)
                found += records.get(partition, ())


def _encoded(value: bytes | str | None) -> bytes | None:
    return value.encode() if isinstance(value, str) else value
