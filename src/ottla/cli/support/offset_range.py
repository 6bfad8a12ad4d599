"""Where to start and to stop reading: the values of `consume --offset`.

start, end     the first record; new records only
42             that offset (of one partition)
-10            the last ten records of each partition
@1700000000000, @2026-11-15, @2026-11-15T13:00:00+01:00
               the first record at or after that time: milliseconds, or ISO 8601 (UTC by default)
0=42,3=17      an offset for each of some partitions: printed by Ctrl-C, to resume
a:b            from one of them to just before another: 10:20, -100:end, @2026-11-15:@2026-11-16
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from ottla.cli.support.problem_kinds import NO_SUCH_OFFSET
from ottla.cli.support.problems import Problem
from ottla.client.cluster import Cluster
from ottla.client.offsets import list_offsets
from ottla.common.ids import TopicPartition

Range = tuple[int, int]

_EACH = re.compile(r"\d{1,9}=\d{1,18}(,\d{1,9}=\d{1,18})*", re.ASCII)


@dataclass(frozen=True, slots=True)
class Start:
    """Where to start: exactly one of the fields is set."""

    at_offset: int | None = None
    last: int | None = None
    at_time_ms: int | None = None
    each: Mapping[int, int] = field(default_factory=dict)
    """An offset by partition."""


@dataclass(frozen=True, slots=True)
class Span:
    """Where to start and before what to stop; None: never."""

    start: Start
    stop: Start | None = None


FROM_START = Start(at_offset=0)
FROM_END = Start(last=0)


def parse_span(text: str) -> Span:
    """Return the meaning of `--offset TEXT`; ValueError says what is allowed."""
    first, stop = _halves(text.strip())
    if stop is None:
        return Span(parse_start(first))
    start, end = parse_start(first or "start"), parse_start(stop or "end")
    if start.each or end.each:
        raise ValueError(f"{text!r}: P=N cannot be part of a range")
    if start.at_offset is not None and end.at_offset is not None and end.at_offset < start.at_offset:
        raise ValueError(f"{text!r} ends before it starts")
    return Span(start, end)


def _halves(text: str) -> tuple[str, str | None]:
    """Return both sides of the colon; those inside of times do not count."""
    if not text.startswith("@"):
        first, colon, stop = text.partition(":")
        return first, stop if colon else None
    found = re.fullmatch(r"(@.+?):(@.+|end|latest)", text)
    return (found[1], found[2]) if found else (text, None)


def parse_start(text: str) -> Start:
    """Return the meaning of one position; ValueError says what is allowed."""
    word = text.strip()
    if word in ("start", "beginning", "earliest"):
        return FROM_START
    if word in ("end", "latest"):
        return FROM_END
    if word.startswith("@"):
        return Start(at_time_ms=parse_time_ms(word[1:]))
    if _EACH.fullmatch(word):
        pairs = [each.split("=") for each in word.split(",")]
        return Start(each={int(partition): int(offset) for partition, offset in pairs})
    digits = word.removeprefix("-")
    if not (digits.isascii() and digits.isdigit()) or int(digits) >= 2**63:
        raise ValueError(
            f"{text!r} is not an offset: write start, end, N, -N (the last N), @TIME, or FROM:TO of these"
        )
    return Start(last=int(digits)) if word.startswith("-") else Start(at_offset=int(digits))


async def positions(
    cluster: Cluster, start: Start, ranges: dict[TopicPartition, Range]
) -> dict[TopicPartition, int]:
    """Return the start offset of each partition, given its range."""
    if start.at_time_ms is not None:
        found = await list_offsets(cluster, dict.fromkeys(ranges, start.at_time_ms))
        return {
            each: found[each].offset if found[each].offset >= 0 else end for each, (_, end) in ranges.items()
        }
    if start.last is not None:
        return {each: max(first, end - start.last) for each, (first, end) in ranges.items()}
    if start is FROM_START:
        return {each: first for each, (first, _) in ranges.items()}
    if start.each:
        return {each: _checked(each, start.each[each.partition], *span) for each, span in ranges.items()}
    return {each: _checked(each, start.at_offset or 0, *span) for each, span in ranges.items()}


async def ends(
    cluster: Cluster, stop: Start, ranges: dict[TopicPartition, Range]
) -> dict[TopicPartition, int]:
    """Return the offset before which to stop in each partition; it may not exist yet."""
    if stop.at_offset is not None and stop is not FROM_START:
        return dict.fromkeys(ranges, stop.at_offset)
    return await positions(cluster, stop, ranges)


def check_fits(start: Start, partitions: Sequence[TopicPartition]) -> None:
    """Reject one offset for several partitions: it has a different meaning in each."""
    if start.at_offset is not None and start is not FROM_START and len(partitions) > 1:
        topic = partitions[0].topic
        raise Problem(
            f"an offset belongs to one partition, but {topic} has {len(partitions)}",
            f"name one:  ottla consume {topic} --partition 0 --offset {start.at_offset}",
        )


def _checked(partition: TopicPartition, offset: int, first: int, end: int) -> int:
    if first <= offset <= end:
        return offset
    holds = f"it holds {first} to {end - 1}" if end > first else f"it is empty, the next offset is {end}"
    raise Problem(
        f"{partition} has no offset {offset}: {holds}",
        "read from the first record: --offset start",
        kind=NO_SUCH_OFFSET,
    )


def parse_time_ms(text: str) -> int:
    """Return a time as milliseconds since 1970; ValueError says how to write one."""
    if text.isascii() and text.isdigit():
        return int(text)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(
            f"{text!r} is not a time: write milliseconds since 1970 or a date such as 2026-11-15T13:00:00"
        ) from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return max(0, int(moment.timestamp() * 1000))
