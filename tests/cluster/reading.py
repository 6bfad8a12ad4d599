"""Reading everything back: through a consumer as any client would, and from the files as they lie there."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from confluent_kafka import Consumer, KafkaException, TopicPartition
from tests.cluster.history import Place, Read
from tests.cluster.load import DEADLINE_S, client_config

from ottla.log import dump

AT_ONCE = 10_000


class Reader:
    """A consumer of its own that reads from given offsets to the end, checking every CRC."""

    def __init__(self, address: str, config: Mapping[str, Any] | None = None) -> None:
        defaults = {
            "group.id": "assigned by hand",
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            "auto.offset.reset": "error",
            "check.crcs": True,
            "fetch.wait.max.ms": 20,
        }
        self._consumer = Consumer(client_config(address, {**defaults, **(config or {})}))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._consumer.close()

    def ends(self, place: Place) -> tuple[int, int]:
        """Return where a partition starts and ends."""
        low, high = self._consumer.get_watermark_offsets(TopicPartition(*place), DEADLINE_S, cached=False)
        return low, high

    def read(self, positions: Mapping[Place, int], within_s: float = DEADLINE_S) -> dict[Place, list[Read]]:
        """Return all (offset, value) from the positions up to where each partition ends now."""
        ends = {place: self.ends(place)[1] for place in positions}
        found: dict[Place, list[Read]] = {place: [] for place in positions}
        unfinished = {place for place in positions if positions[place] < ends[place]}
        self._consumer.assign([TopicPartition(*place, positions[place]) for place in unfinished])
        deadline = time.monotonic() + within_s
        while unfinished:
            assert time.monotonic() < deadline, f"{unfinished} not read to their {ends} within {within_s:g} s"
            for message in self._consumer.consume(AT_ONCE, 0.05):
                error = message.error()
                if error is not None:
                    raise KafkaException(error)
                place, offset = (message.topic() or "", message.partition() or 0), message.offset() or 0
                if offset < ends[place]:
                    found[place].append((offset, message.value()))
                if offset + 1 >= ends[place]:
                    unfinished.discard(place)
        self._consumer.unassign()
        return found

    def read_one(self, place: Place, offset: int, within_s: float = DEADLINE_S) -> Read:
        """Return the first record at or after an offset."""
        self._consumer.assign([TopicPartition(*place, offset)])
        message = self._consumer.poll(within_s)
        assert message is not None, f"nothing at or after offset {offset} of {place} within {within_s:g} s"
        error = message.error()
        if error is not None:
            raise KafkaException(error)
        self._consumer.unassign()
        return message.offset() or 0, message.value()


def read_one(address: str, place: Place, offset: int, within_s: float = DEADLINE_S) -> Read:
    """Return the first record at or after an offset, as a consumer finds it that begins there."""
    with Reader(address) as reader:
        return reader.read_one(place, offset, within_s)


def segment_files(data: Path, place: Place, kind: str = ".log") -> list[Path]:
    """Return a partition's files of one kind, oldest first."""
    topic, partition = place
    return sorted((data / f"{topic}-{partition}").glob(f"*{kind}"))


def problems_in_files(data: Path, place: Place, *, from_segment: int = 0) -> list[str]:
    """Return what `ottla log dump` finds wrong with the .log files from a segment on: torn, bad CRC, gaps."""
    problems = []
    expected: int | None = None
    for path in segment_files(data, place)[from_segment:]:
        for report in dump.dump(path):
            if report.problem is not None:
                problems.append(f"{path} at {report.position}: {report.problem}")
            if isinstance(report, dump.BatchReport):
                if expected is not None and report.header.base_offset != expected:
                    problems.append(f"{path} has offset {report.header.base_offset} instead of {expected}")
                expected = report.header.next_offset
    return problems


def problems_with_helpers(data: Path, place: Place) -> list[str]:
    """Return what is wrong with the indexes, snapshots and leader epochs of a partition at rest."""
    return [
        f"{path} at {report.position}: {report.problem}"
        for kind in (".index", ".timeindex", ".snapshot", "leader-epoch-checkpoint")
        for path in segment_files(data, place, kind)
        for report in dump.dump(path)
        if report.problem is not None
    ]
