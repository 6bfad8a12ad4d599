"""Read and write Kafka's small text files safely.

In a log directory:

    recovery-point-offset-checkpoint   per partition, the offset below which its log is flushed
    log-start-offset-checkpoint        per partition, where its log starts, if later than its first segment
    replication-offset-checkpoint      high watermarks
    meta.properties                    which broker and cluster own the directory
    .kafka_cleanshutdown               written by a clean shutdown, removed at the next start

In a partition's directory: `leader-epoch-checkpoint` (see epoch_cache.py) and `partition.metadata`.

A checkpoint has a version line (0), a line with the number of entries, and one line per entry: `topic
partition offset`. Files are replaced atomically: written under a temporary name, fsynced, renamed. They have
no checksum; one that does not parse is renamed to `.corrupt` and treated as missing, which only means more
work at recovery.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from os.path import dirname
from threading import Lock
from typing import NamedTuple, TypeVar
from uuid import UUID

from ottla.common.ids import TopicPartition, parse_uuid, uuid_text
from ottla.log.disk import Disk
from ottla.log.file_names import CORRUPT, TEMPORARY

logger = logging.getLogger(__name__)

RECOVERY_POINTS = "recovery-point-offset-checkpoint"
LOG_STARTS = "log-start-offset-checkpoint"
HIGH_WATERMARKS = "replication-offset-checkpoint"
META_PROPERTIES = "meta.properties"
CLEAN_SHUTDOWN = ".kafka_cleanshutdown"

T = TypeVar("T")


def write_atomically(disk: Disk, path: str, data: bytes, *, mode: int = 0o644) -> None:
    """Replace a file. After a crash it has the old or the new contents; after this returns, the new ones."""
    beside = path + TEMPORARY
    disk.write_file(beside, data, sync=True, mode=mode)
    disk.rename(beside, path)
    disk.fsync_dir(dirname(path))


def read_or_rename_corrupt(disk: Disk, path: str, decode: Callable[[bytes], T]) -> T | None:
    """Return the decoded file, or None if it is missing or does not parse."""
    try:
        data = disk.read_file(path)
    except FileNotFoundError:
        return None
    try:
        return decode(data)
    except ValueError as problem:
        logger.error("cannot parse %s, renamed to %s%s: %s", path, path, CORRUPT, problem)
        disk.rename(path, path + CORRUPT)
        return None


def encode_lines(lines: Iterable[str]) -> bytes:
    """Return the contents of a checkpoint file with these entries."""
    entries = list(lines)
    return "".join(f"{line}\n" for line in ("0", str(len(entries)), *entries)).encode()


def decode_lines(data: bytes) -> list[str]:
    """Return a checkpoint file's entries; ValueError unless it is complete."""
    lines = data.decode("ascii").split("\n")
    if len(lines) < 3 or lines[-1] != "" or lines[0] != "0":
        raise ValueError("it does not start with version 0, or is truncated")
    if int(lines[1]) != len(lines) - 3:
        raise ValueError(f"it states {lines[1]} entries and has {len(lines) - 3}")
    return lines[2:-1]


def encode_offsets(offsets: Mapping[TopicPartition, int]) -> bytes:
    """Return the contents of a checkpoint file with one offset per partition."""
    return encode_lines(f"{key.topic} {key.partition} {offset}" for key, offset in offsets.items())


def decode_offsets(data: bytes) -> dict[TopicPartition, int]:
    """Return one offset per partition; ValueError if the file does not parse."""
    offsets = {}
    for line in decode_lines(data):
        topic, partition, offset = line.split(" ")
        if not 0 <= int(offset) < 1 << 63:
            raise ValueError(f"{offset} is not an offset")
        offsets[TopicPartition(topic, int(partition))] = int(offset)
    return offsets


class CheckpointFile:
    """A checkpoint that is captured on the loop and may be written in a thread; the latest capture wins."""

    def __init__(self, disk: Disk, path: str) -> None:
        self._disk = disk
        self._path = path
        self._lock = Lock()
        self._captured = 0
        self._written = 0

    def capture(self, offsets: Mapping[TopicPartition, int]) -> Callable[[], None]:
        """Return a function that writes these offsets, unless later ones have been written by then."""
        self._captured += 1
        number, data = self._captured, encode_offsets(offsets)

        def write() -> None:
            with self._lock:
                if number > self._written:
                    write_atomically(self._disk, self._path, data)
                    self._written = number

        return write


def encode_partition_metadata(topic_id: UUID) -> bytes:
    """Return the contents of partition.metadata."""
    return f"version: 0\ntopic_id: {uuid_text(topic_id)}".encode()


def decode_partition_metadata(data: bytes) -> UUID:
    """Return the topic id in partition.metadata; ValueError if the file does not parse."""
    fields = dict(line.split(": ", 1) for line in data.decode("ascii").split("\n") if line)
    if int(fields.get("version", "-1")) < 0 or "topic_id" not in fields:
        raise ValueError("it lacks a version or a topic_id")
    topic_id = parse_uuid(fields["topic_id"])
    if topic_id.int == 0:
        raise ValueError("the topic id is zero")
    return topic_id


class MetaProperties(NamedTuple):
    """The owner of a log directory."""

    node_id: int
    cluster_id: str
    directory_id: UUID

    def encode(self) -> bytes:
        """Return the contents of meta.properties."""
        return (
            f"#\nversion=1\nnode.id={self.node_id}\ncluster.id={self.cluster_id}\n"
            f"directory.id={uuid_text(self.directory_id)}\n"
        ).encode()

    @classmethod
    def decode(cls, data: bytes) -> MetaProperties:
        """Return what `encode` wrote; ValueError if it does not parse."""
        lines = [line.strip() for line in data.decode("utf-8").split("\n")]
        fields = dict(line.split("=", 1) for line in lines if line and not line.startswith("#"))
        missing = {"version", "node.id", "cluster.id", "directory.id"} - fields.keys()
        if missing:
            raise ValueError(f"it lacks {', '.join(sorted(missing))}")
        if fields["version"] != "1":
            raise ValueError(f"version {fields['version']} is unknown")
        return cls(int(fields["node.id"]), fields["cluster.id"], parse_uuid(fields["directory.id"]))
