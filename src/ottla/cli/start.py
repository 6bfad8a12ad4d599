"""Where to begin reading: the values of `consume --offset`.

start, end     the first record there is; what comes from now on
42             that offset (of one partition)
-10            the last ten of each partition
@1700000000000, @2026-11-15, @2026-11-15T13:00:00+01:00
               the first record at or after that time: milliseconds, or ISO 8601 (UTC unless it says)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from ottla.cli.problems import Problem
from ottla.client.cluster import Cluster
from ottla.client.offsets import list_offsets
from ottla.common.ids import TopicPartition

Range = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Start:
    """Where to begin: exactly one of the fields is set."""

    at_offset: int | None = None
    last: int | None = None
    at_time_ms: int | None = None


FROM_START = Start(at_offset=0)
FROM_END = Start(last=0)


def parse_start(text: str) -> Start:
    """Return what `--offset TEXT` means; ValueError says what it may be."""
    word = text.strip()
    if word in ("start", "beginning", "earliest"):
        return FROM_START
    if word in ("end", "latest"):
        return FROM_END
    if word.startswith("@"):
        return Start(at_time_ms=parse_time_ms(word[1:]))
    digits = word.removeprefix("-")
    if not (digits.isascii() and digits.isdigit()) or int(digits) >= 2**63:
        raise ValueError(f"{text!r} is no offset: write start, end, N, -N (the last N) or @TIME")
    return Start(last=int(digits)) if word.startswith("-") else Start(at_offset=int(digits))


async def positions(
    cluster: Cluster, start: Start, ranges: dict[TopicPartition, Range]
) -> dict[TopicPartition, int]:
    """Return the offset to begin at in each partition, given where each starts and ends."""
    if start.at_time_ms is not None:
        found = await list_offsets(cluster, dict.fromkeys(ranges, start.at_time_ms))
        return {
            each: found[each].offset if found[each].offset >= 0 else end for each, (_, end) in ranges.items()
        }
    if start.last is not None:
        return {each: max(first, end - start.last) for each, (first, end) in ranges.items()}
    if start is FROM_START:
        return {each: first for each, (first, _) in ranges.items()}
    return {each: _checked(each, start.at_offset or 0, *span) for each, span in ranges.items()}


def check_fits(start: Start, partitions: Sequence[TopicPartition]) -> None:
    """Refuse one offset for several partitions: it would mean something else in each of them."""
    if start.at_offset is not None and start is not FROM_START and len(partitions) > 1:
        topic = partitions[0].topic
        raise Problem(
            f"an offset belongs to one partition, and {topic} has {len(partitions)}",
            f"say which one:  ottla consume {topic} --partition 0 --offset {start.at_offset}",
        )


def _checked(partition: TopicPartition, offset: int, first: int, end: int) -> int:
    if first <= offset <= end:
        return offset
    holds = f"it holds {first} to {end - 1}" if end > first else f"it is empty, the next offset is {end}"
    raise Problem(
        f"{partition} has no offset {offset}: {holds}",
        "read what there is: --offset start",
    )


def parse_time_ms(text: str) -> int:
    """Return a moment as milliseconds since 1970; ValueError says how to write one."""
    if text.isascii() and text.isdigit():
        return int(text)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(
            f"{text!r} is no time: write milliseconds since 1970 or a date such as 2026-11-15T13:00:00"
        ) from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return max(0, int(moment.timestamp() * 1000))
