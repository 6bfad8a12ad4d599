"""The position of a streaming query, as it is stored in Spark's checkpoint, and arithmetic on it.

The format is that of Spark's Kafka source, `{"topic": {"0": 17}}`, with three more entries whose names no
topic can have:

    "@ids"    the id of each topic: one that was deleted and recreated is another topic
    "@group"  the consumer group that progress is committed to
    "@from"   where the query began; only until the end of the first batch

Spark asks for the initial offset again when the first batch is replayed after a crash, and by then `latest`
has moved. So the end of the first batch also stores its start.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from ottla.common.ids import TopicPartition

IDS, GROUP, FROM = "@ids", "@group", "@from"
SECONDS = "@seconds"
"""In the reported end of the topics: the age of the oldest record that the query has not read."""

Positions = Mapping[TopicPartition, int]


@dataclass(frozen=True)
class SourceOffset:
    """The next offset to read of each partition."""

    positions: dict[TopicPartition, int]
    topic_ids: dict[str, str] = field(default_factory=dict)
    group: str | None = None
    began: dict[TopicPartition, int] | None = None
    """Where the query began, if nothing before the end of its first batch has been read."""

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> SourceOffset:
        """Decode what `to_json` has written, or Spark's Kafka source."""
        return cls(
            _positions(value),
            dict(value.get(IDS, {})),
            value.get(GROUP),
            _positions(value[FROM]) if FROM in value else None,
        )

    def to_json(self) -> dict[str, Any]:
        """Return the form for the checkpoint; equal offsets give equal texts."""
        found = nested(self.positions)
        if self.topic_ids:
            found[IDS] = dict(sorted(self.topic_ids.items()))
        if self.group is not None:
            found[GROUP] = self.group
        if self.began is not None:
            found[FROM] = nested(self.began)
        return found

    def advanced_to(self, positions: Positions, topic_ids: Mapping[str, str]) -> SourceOffset:
        """Return the end of the next batch; it includes the start if nothing was read before it."""
        is_first = self.began is not None and self.began == self.positions
        return replace(
            self,
            positions=dict(positions),
            topic_ids=dict(topic_ids),
            began=self.began if is_first else None,
        )


def nested(positions: Positions) -> dict[str, Any]:
    """Return positions by topic and partition, in order."""
    found: dict[str, Any] = {}
    for (topic, partition), offset in sorted(positions.items()):
        found.setdefault(topic, {})[str(partition)] = offset
    return found


def _positions(value: Mapping[str, Any]) -> dict[TopicPartition, int]:
    return {
        TopicPartition(topic, int(partition)): int(offset)
        for topic, partitions in value.items()
        if not topic.startswith("@")
        for partition, offset in partitions.items()
    }


def parse_positions(option: str, text: str) -> dict[TopicPartition, int]:
    """Parse an option such as `{"orders": {"0": 23, "1": -1}}`; raise ValueError if it is invalid."""
    try:
        value = json.loads(text)
        if not isinstance(value, dict) or not all(isinstance(each, dict) for each in value.values()):
            raise ValueError
        found = _positions(value)
    except (ValueError, TypeError, AttributeError):
        raise ValueError(f'{option} must look like {{"topic": {{"0": 23, "1": 45}}}}, not {text!r}') from None
    return found


def parse_assignment(text: str) -> frozenset[TopicPartition]:
    """Parse the option `assign`, such as `{"orders": [0, 1]}`; raise ValueError if it is invalid."""
    try:
        value = json.loads(text)
        return frozenset(
            TopicPartition(topic, int(each)) for topic, partitions in value.items() for each in partitions
        )
    except (ValueError, TypeError, AttributeError):
        raise ValueError(f'assign must look like {{"topic": [0, 1]}}, not {text!r}') from None


def limit_by_lag(start: Positions, latest: Positions, most: int) -> dict[TopicPartition, int]:
    """Return the end of a batch of `most` records: each partition gets its share of the whole lag.

    Every partition with lag gets at least one record, so that none starves.
    """
    lags = {each: max(end - start.get(each, end), 0) for each, end in latest.items()}
    total = sum(lags.values())
    if total <= most:
        return dict(latest)
    ends: dict[TopicPartition, int] = {}
    for each, lag in lags.items():
        begin = start.get(each, latest[each])
        share = max(1, most * lag // total) if lag else 0
        ends[each] = min(begin + share, latest[each]) if lag else min(begin, latest[each])
    return ends


def count_between(start: Positions, end: Positions) -> int:
    """Return how many offsets lie between two positions."""
    return sum(max(offset - start.get(each, offset), 0) for each, offset in end.items())


def check_all_given(option: str, given: Iterable[TopicPartition], there: Iterable[TopicPartition]) -> None:
    """Raise ValueError unless an option names exactly the existing partitions."""
    named, existing = set(given), set(there)
    if named == existing:
        return
    wrong = ", ".join(map(str, sorted(named - existing))) or "none"
    left_out = ", ".join(map(str, sorted(existing - named))) or "none"
    raise ValueError(
        f"{option} must name every partition of the topics, and no others. Unknown: {wrong}. "
        f"Missing: {left_out} (write -2 for earliest, -1 for latest)"
    )
