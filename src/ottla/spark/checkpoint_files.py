"""The files of a query's checkpoint on a local disk: its id, its batches, and the positions of its sources.

    metadata            {"id": "<query id>"}
    offsets/<batch>     `v1`, settings as JSON, then one line for each source: where the batch ends
    commits/<batch>     exists when the batch is done

A query starts its next batch where the last batch ended. So positions are changed in the file of the last
batch that is done; the file of a batch that was planned and not done is deleted.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from ottla.common.ids import TopicPartition
from ottla.spark.errors import SparkError
from ottla.spark.source.offsets import SourceOffset

VERSION = "v1"
NOTHING = "-"


class CheckpointProblem(SparkError):
    """A checkpoint that cannot be read, or not be changed now."""


@dataclass(frozen=True)
class Batch:
    """One batch of a query."""

    number: int
    settings: str
    """The settings line, kept as it is."""
    sources: tuple[str, ...]
    """The end of the batch for each source: JSON, or `-`."""

    @property
    def offsets(self) -> dict[int, SourceOffset]:
        """The ends of the sources that read topics, by the number of the source."""
        found = {index: _source_offset(text) for index, text in enumerate(self.sources)}
        return {index: each for index, each in found.items() if each is not None}

    @property
    def positions(self) -> dict[TopicPartition, int]:
        """The next offset of every partition that the query reads."""
        return {each: at for source in self.offsets.values() for each, at in source.positions.items()}

    def changed(self, change: Callable[[SourceOffset], SourceOffset]) -> Batch:
        """Return a copy with other ends."""
        sources = list(self.sources)
        for index, source in self.offsets.items():
            sources[index] = json.dumps(change(source).to_json())
        return replace(self, sources=tuple(sources))

    def moved(self, positions: Mapping[TopicPartition, int]) -> Batch:
        """Return a copy whose sources are at other positions."""
        return self.changed(
            lambda source: replace(
                source,
                positions={each: positions.get(each, at) for each, at in source.positions.items()},
                began=None,
            )
        )

    def for_connector(self) -> Batch:
        """Return a copy that Spark's Kafka connector can read: without what only Ottla stores."""
        return self.changed(lambda source: SourceOffset(source.positions))


def is_checkpoint(folder: Path) -> bool:
    """Return whether a folder is the checkpoint of a query."""
    return (folder / "metadata").is_file() and (folder / "offsets").is_dir()


class CheckpointFiles:
    """The checkpoint of one query; hold its lock while you change it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        if not is_checkpoint(folder):
            raise CheckpointProblem(f"{folder} is not the checkpoint of a query on a local disk")

    @property
    def query_id(self) -> str:
        """The id of the query."""
        return str(json.loads((self.folder / "metadata").read_text(encoding="utf-8"))["id"])

    @property
    def planned(self) -> list[int]:
        """The batches that were planned, in order."""
        return _numbers(self.folder / "offsets")

    @property
    def last_done(self) -> Batch:
        """The last batch that is done; raise CheckpointProblem if there is none."""
        done = _numbers(self.folder / "commits")
        if not done:
            raise CheckpointProblem(
                f"the query of {self.folder} has finished no batch yet: set its startingOffsets instead"
            )
        return self.read(done[-1])

    @property
    def not_done(self) -> list[int]:
        """The batches that were planned and are not done."""
        done = _numbers(self.folder / "commits")
        return [each for each in self.planned if each > (done[-1] if done else -1)]

    def read(self, number: int) -> Batch:
        """Return a batch."""
        lines = (self.folder / "offsets" / str(number)).read_text(encoding="utf-8").splitlines()
        if len(lines) < 2 or lines[0] != VERSION:
            raise CheckpointProblem(f"{self.folder}/offsets/{number} is not of version {VERSION}")
        return Batch(number, lines[1], tuple(lines[2:]))

    def write(self, batch: Batch) -> None:
        """Replace the file of a batch."""
        file = self.folder / "offsets" / str(batch.number)
        beside = file.with_name(f".{file.name}.ottla")
        with beside.open("w", encoding="utf-8") as opened:
            opened.write("\n".join((VERSION, batch.settings, *batch.sources)))
            opened.flush()
            os.fsync(opened.fileno())
        # Hadoop's checksum is of the old contents; a file without one is not checked.
        file.with_name(f".{file.name}.crc").unlink(missing_ok=True)
        beside.replace(file)

    def drop_not_done(self) -> None:
        """Delete the plans of batches that are not done: they are planned again."""
        for number in reversed(self.not_done):
            file = self.folder / "offsets" / str(number)
            file.with_name(f".{file.name}.crc").unlink(missing_ok=True)
            file.unlink()

    def move(self, positions: Mapping[TopicPartition, int]) -> None:
        """Make the next batch start at other positions."""
        batch = self.last_done.moved(positions)
        self.drop_not_done()
        self.write(batch)

    def export(self) -> int:
        """Make the checkpoint readable for Spark's Kafka connector; return how many files changed."""
        changed = 0
        for number in self.planned:
            batch = self.read(number)
            plain = batch.for_connector()
            if plain.sources != batch.sources:
                self.write(plain)
                changed += 1
        return changed


def _numbers(folder: Path) -> list[int]:
    return (
        sorted(int(each.name) for each in folder.glob("*") if each.name.isdigit()) if folder.is_dir() else []
    )


def _source_offset(text: str) -> SourceOffset | None:
    try:
        value = json.loads(text)
        return SourceOffset.from_json(value) if isinstance(value, dict) else None
    except (ValueError, AttributeError, TypeError):
        return None  # of a source that reads no topics
