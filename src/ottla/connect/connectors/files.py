"""Files on a disk: a source that follows lines and reads folders, and a sink with one file per batch.

The names of the sink's files are made of topic, partition and first offset. A batch that is written again
after a crash has the same offsets, so it replaces its own files: each record is in exactly one file.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ottla.common.clock import SystemClock
from ottla.connect.config.keys import HIGH, LONG, LOW, ConfigKey, at_least
from ottla.connect.connectors import file_formats
from ottla.connect.data.record import Record
from ottla.connect.errors import ConnectError
from ottla.connect.sdk import (
    Batch,
    Offsets,
    Refused,
    SinkConnector,
    SinkWriter,
    SourceConnector,
    SourceReader,
    partition_of,
)

READ_FORMATS = ("text", "jsonl", "csv", "parquet")
WRITE_FORMATS = ("jsonl", "csv", "parquet", "text")
WRITTEN_FILE_KEYS = (
    ConfigKey("format", default="jsonl", doc="The format to write.", importance=HIGH, values=WRITE_FORMATS),
    ConfigKey("flush.size", LONG, 1_000_000, "Maximum number of records per file.", check=at_least(1)),
    ConfigKey(
        "partition.by",
        default="none",
        doc="Create folders by record timestamp.",
        values=("none", "day", "hour"),
    ),
)
SETTLED_MS = 5_000


class FileSource(SourceConnector):
    """Reads text lines, JSON lines, CSV and Parquet; follows growing files."""

    keys = (
        ConfigKey("file", doc="A file, a folder, or a pattern such as /in/*.csv.", importance=HIGH),
        ConfigKey("topic", doc="The topic to write to.", importance=HIGH),
        ConfigKey(
            "format", default="text", doc="The format of the files.", importance=HIGH, values=READ_FORMATS
        ),
        ConfigKey("key.field", default="", doc="The field to use as the record key."),
        ConfigKey(
            "batch.max.bytes", LONG, 16 * 1024 * 1024, "Bytes of each file in one batch.", LOW, at_least(1024)
        ),
    )
    position_keys = ("file", "format", "task.number", "task.count")

    def task_configs(self, most: int) -> list[dict[str, str]]:
        """Return tasks that share the files of a folder; one task for one file."""
        count = most if is_many(self.settings["file"]) else 1
        return [
            {**self.config, "task.number": str(number), "task.count": str(count)} for number in range(count)
        ]

    def reader(self, task: Mapping[str, str]) -> SourceReader:
        """Return the reader."""
        chosen = self.settings
        return FileReader(
            chosen["file"],
            chosen["topic"],
            chosen["format"],
            chosen["key.field"],
            chosen["batch.max.bytes"],
            (int(task.get("task.number", "0")), int(task.get("task.count", "1"))),
        )

    def topics(self) -> list[str]:
        """Return the topic."""
        return [self.settings["topic"]]

    def check_offsets(self, offsets: Offsets) -> None:
        """Check that an offset has a position."""
        for partition, offset in offsets.items():
            if '"filename"' not in partition or not isinstance(offset.get("position"), int):
                raise ConnectError('the offsets of this connector: {"filename": PATH} {"position": NUMBER}')


def is_many(pattern: str) -> bool:
    """Return whether a setting may stand for several files."""
    return Path(pattern).is_dir() or glob.has_magic(pattern)


def files_of(pattern: str) -> list[str]:
    """Return the files that a setting stands for."""
    if Path(pattern).is_dir():
        pattern = os.path.join(glob.escape(pattern), "*")
    found = [each for each in glob.glob(pattern) if os.path.isfile(each)]
    return sorted(each for each in found if not os.path.basename(each).startswith((".", "_")))


class FileReader(SourceReader):
    """Reads files; a source partition is a file, its offset a position in bytes or row groups."""

    def __init__(
        self, pattern: str, topic: str, kind: str, key_field: str, max_bytes: int, share: tuple[int, int]
    ) -> None:
        self.pattern, self.topic, self.kind = pattern, topic, kind
        self.key_field, self.max_bytes, self.share = key_field, max_bytes, share

    def _is_ours(self, path: str) -> bool:
        number, count = self.share
        return count == 1 or sum(path.encode()) % count == number

    def latest(self, start: Offsets) -> Offsets:
        """Return how far the files can be read now."""
        end = dict(start)
        for path in files_of(self.pattern):
            if not self._is_ours(path):
                continue
            partition = partition_of(filename=path)
            position = start.get(partition, {}).get("position", 0)
            reached = self._end(path, position)
            if reached > position:
                end[partition] = {"position": reached}
        return end

    def _end(self, path: str, position: int) -> int:
        try:
            if self.kind == "parquet":
                return file_formats.parquet_groups(path)
            status = os.stat(path)
            if status.st_size <= position:
                return position
            is_settled = SystemClock().wall_ms() - status.st_mtime * 1000 > SETTLED_MS
            return file_formats.line_end(
                path, position, self.max_bytes, status.st_size if is_settled else None
            )
        except FileNotFoundError:
            return position

    def plan(self, start: Offsets, end: Offsets) -> Sequence[Any]:
        """Return a part for each file."""
        import json

        return [
            (
                json.loads(partition)["filename"],
                start.get(partition, {}).get("position", 0),
                offset["position"],
            )
            for partition, offset in sorted(end.items())
            if start.get(partition) != offset
        ]

    def read(self, part: Any) -> Iterator[Record]:
        """Yield the records of a part of a file."""
        path, begin, finish = part
        for value, schema in file_formats.READERS[self.kind](path, begin, finish):
            record = Record(self.topic, value, schema)
            if self.key_field:
                found = value.get(self.key_field) if isinstance(value, dict) else None
                record.key = found
                record.key_schema = None if schema is None else schema.field_map().get(self.key_field)
            yield record

    def read_arrow(self, part: Any) -> Iterator[Any] | None:
        """Yield lines without a Python object for each field."""
        return file_formats.text_batches(self.topic, *part) if self.kind == "text" else None


class FileSink(SinkConnector):
    """Writes JSON lines, CSV, Parquet or text: one file per partition and batch."""

    keys = (
        ConfigKey("path", doc="The folder to write to.", importance=HIGH),
        *WRITTEN_FILE_KEYS,
    )
    guarantee = "exactly once"
    interval_ms = 10_000

    @classmethod
    def check(cls, config: Mapping[str, str]) -> dict[str, str]:
        """Check that the folder can be made."""
        try:
            Path(config["path"]).mkdir(parents=True, exist_ok=True)
        except OSError as error:
            return {"path": f"the folder cannot be made: {error.strerror}"}
        return {}

    def writer(self, task: Mapping[str, str]) -> SinkWriter:
        """Return the writer."""
        chosen = self.settings
        return FileWriter(chosen["path"], chosen["format"], chosen["flush.size"], chosen["partition.by"])


class FileWriter(SinkWriter):
    """Writes files; a file appears when it is complete."""

    by_partition = True

    def __init__(self, path: str, kind: str, flush_size: int, partition_by: str) -> None:
        self.path, self.kind, self.flush_size, self.partition_by = path, kind, flush_size, partition_by

    def write(self, records: Iterator[Record], batch: Batch, refused: list[Refused]) -> Any:
        """Write the files of some partitions."""
        names = []
        for name, group in file_formats.grouped(records, self.flush_size, self.partition_by):
            data = file_formats.encode(self.kind, group, refused)
            if data is not None:
                self.store(f"{name}.{file_formats.EXTENSIONS[self.kind]}", data)
                names.append(name)
        return len(names)

    def store(self, name: str, data: bytes) -> None:
        """Make a file appear, whole."""
        target = Path(self.path) / name
        target.parent.mkdir(parents=True, exist_ok=True)
        temporary = target.with_name(f".{target.name}.tmp")
        with temporary.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(target)
