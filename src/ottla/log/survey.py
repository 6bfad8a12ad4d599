"""What the data directory of a stopped broker has: read only, for rebuilding the metadata of a cluster.

For each replica the survey has the topic id, and where the log ends: the offset after the last batch with a
correct checksum, and the leader epoch of that batch. Of two replicas of a partition, the one with the greater
epoch, and with the greater end if they are equal, has everything that was committed (decision 0216). A log
that was being moved here from another directory when the broker was killed counts once its copy is complete.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from uuid import UUID

from ottla.common.ids import TopicPartition, uuid_text
from ottla.log.batch_walk import walk_batches
from ottla.log.checkpoints import (
    META_PROPERTIES,
    MetaProperties,
    decode_lines,
    decode_partition_metadata,
)
from ottla.log.disk import Disk
from ottla.log.file_names import (
    EPOCH_CHECKPOINT,
    LOG,
    PARTITION_METADATA,
    file_name,
    offset_of,
    parse_moved_dir,
    parse_partition_dir,
)
from ottla.protocol.errors import CorruptMessage
from ottla.protocol.records.batch import crc_of

NO_EPOCH = -1


@dataclass(frozen=True, slots=True)
class ReplicaSurvey:
    """One replica. `newest_epoch` is the greatest leader epoch that it has seen, with or without records."""

    topic_id: UUID | None
    last_epoch: int
    end_offset: int
    newest_epoch: int


@dataclass(frozen=True, slots=True)
class DirectorySurvey:
    """One broker's data directory."""

    path: str
    node_id: int
    cluster_id: str
    directory_id: str
    replicas: dict[TopicPartition, ReplicaSurvey] = field(default_factory=dict)


class NotADataDirectory(Exception):
    """The directory is not that of a broker; the message says why."""


def survey_directory(disk: Disk, path: str) -> DirectorySurvey:
    """Read a data directory; raise NotADataDirectory if no broker of a cluster owns it."""
    try:
        meta = MetaProperties.decode(disk.read_file(f"{path}/{META_PROPERTIES}"))
    except FileNotFoundError:
        raise NotADataDirectory(f"{path} has no {META_PROPERTIES}: it is not a broker's data") from None
    except ValueError as error:
        raise NotADataDirectory(f"{path}/{META_PROPERTIES} cannot be parsed: {error}") from None
    replicas = {
        partition: _survey_replica(disk, f"{path}/{entry.name}")
        for entry in disk.list_dir(path)
        if entry.is_dir
        and (partition := parse_partition_dir(entry.name) or parse_moved_dir(entry.name)) is not None
    }
    return DirectorySurvey(path, meta.node_id, meta.cluster_id, uuid_text(meta.directory_id), replicas)


def _survey_replica(disk: Disk, path: str) -> ReplicaSurvey:
    epochs = _checkpointed_epochs(disk, f"{path}/{EPOCH_CHECKPOINT}")
    found = (offset_of(entry.name, LOG) for entry in disk.list_dir(path) if not entry.is_dir)
    bases = sorted(base for base in found if base is not None)
    last_epoch, end_offset = NO_EPOCH, bases[-1] if bases else 0
    for base in reversed(bases):  # the last segment may be empty
        batches = list(_batches(disk, f"{path}/{file_name(base, LOG)}"))
        if batches:
            last_epoch, last_end = batches[-1]
            end_offset = max(end_offset, last_end)
            break
    if last_epoch == NO_EPOCH:
        last_epoch = max(epochs, default=NO_EPOCH)
    return ReplicaSurvey(_topic_id(disk, path), last_epoch, end_offset, max([last_epoch, *epochs]))


def _batches(disk: Disk, path: str) -> Iterator[tuple[int, int]]:
    """Yield (leader epoch, next offset) of each batch until the first that is damaged or cut off."""
    file = disk.open_read(path)
    try:
        for _, header, batch in walk_batches(file, 0, file.size()):
            if crc_of(batch) != header.crc:
                return
            yield header.leader_epoch, header.next_offset
    except CorruptMessage:
        return


def _topic_id(disk: Disk, path: str) -> UUID | None:
    try:
        return decode_partition_metadata(disk.read_file(f"{path}/{PARTITION_METADATA}"))
    except (FileNotFoundError, ValueError):
        return None


def _checkpointed_epochs(disk: Disk, path: str) -> list[int]:
    try:
        return [int(line.split(" ")[0]) for line in decode_lines(disk.read_file(path))]
    except (FileNotFoundError, ValueError):
        return []
