"""Names of files and directories, as in Kafka.

A partition's directory `<topic>-<partition>` has, for each segment, `<base offset>` in twenty digits with

    .log         the batches
    .index       offset -> position
    .timeindex   timestamp -> offset
    .txnindex    aborted transactions (only if there are any)
    .snapshot    producer state just before that offset

and two small text files. A further suffix says that a file is not, or no longer, part of the log:

    .cleaned     being written by the cleaner; worthless until it is complete
    .swap        complete, about to replace the segments that it covers
    .deleted     about to be removed
    .quarantine  bytes that recovery could not read, kept for inspection
"""

from __future__ import annotations

from ottla.common.ids import TopicPartition, new_uuid

LOG = ".log"
OFFSET_INDEX = ".index"
TIME_INDEX = ".timeindex"
TXN_INDEX = ".txnindex"
SNAPSHOT = ".snapshot"
SEGMENT_KINDS = (LOG, OFFSET_INDEX, TIME_INDEX, TXN_INDEX)

CLEANED = ".cleaned"
SWAP = ".swap"
DELETED = ".deleted"
QUARANTINE = ".quarantine"
TEMPORARY = ".tmp"
CORRUPT = ".corrupt"

EPOCH_CHECKPOINT = "leader-epoch-checkpoint"
PARTITION_METADATA = "partition.metadata"
HOLES = "ottla-holes-checkpoint"

_DELETED_DIR = "-delete"
_STRAY_DIR = "-stray"
_FUTURE_DIR = "-future"
_MOVED_DIR = "-moved"
_MAX_NAME = 255
_DIGITS = 20


def file_name(offset: int, kind: str) -> str:
    """Return the name of the file of this kind that starts at `offset`."""
    return f"{offset:020d}{kind}"


def offset_of(name: str, kind: str) -> int | None:
    """Return the offset in a file name of exactly this kind, or None."""
    digits = name[:_DIGITS]
    if name[_DIGITS:] == kind and digits.isdecimal() and digits.isascii() and len(digits) == _DIGITS:
        return int(digits)
    return None


def parse_partition_dir(name: str) -> TopicPartition | None:
    """Return the partition whose directory has this name, or None."""
    topic, dash, number = name.rpartition("-")
    if not dash or not topic or not (number.isdecimal() and number.isascii()):
        return None
    if number != str(int(number)):
        return None
    return TopicPartition(topic, int(number))


def deleted_dir_name(partition: TopicPartition) -> str:
    """Return a new name for the directory of a deleted partition."""
    return _fresh_dir_name(partition, _DELETED_DIR)


def stray_dir_name(partition: TopicPartition) -> str:
    """Return a new name for the directory of a log without a topic."""
    return _fresh_dir_name(partition, _STRAY_DIR)


def future_dir_name(partition: TopicPartition) -> str:
    """Return a name for the copy of a log that is moved here from another log directory."""
    return f"{partition}.{new_uuid().hex}{_FUTURE_DIR}"


def moved_dir_name(future: str) -> str:
    """Return the name of a copy that is complete and replaces the log in the other directory."""
    return future.removesuffix(_FUTURE_DIR) + _MOVED_DIR


def parse_future_dir(name: str) -> TopicPartition | None:
    """Return the partition of an incomplete copy, or None."""
    return _parse_copy(name, _FUTURE_DIR)


def parse_moved_dir(name: str) -> TopicPartition | None:
    """Return the partition of a complete copy, or None."""
    return _parse_copy(name, _MOVED_DIR)


def _parse_copy(name: str, suffix: str) -> TopicPartition | None:
    return parse_partition_dir(name.rpartition(".")[0]) if name.endswith(suffix) else None


def is_deleted_dir(name: str) -> bool:
    """Return whether a directory is left from a deleted partition."""
    return name.endswith(_DELETED_DIR)


def is_stray_dir(name: str) -> bool:
    """Return whether a directory is that of a log without a topic."""
    return name.endswith(_STRAY_DIR)


def _fresh_dir_name(partition: TopicPartition, suffix: str) -> str:
    """Return a name that no other directory has, shortened if the topic's name is very long."""
    tail = f"-{partition.partition}.{new_uuid().hex}{suffix}"
    return partition.topic[: _MAX_NAME - len(tail)] + tail
