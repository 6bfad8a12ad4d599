"""The data directories of a broker: create and lock them, find their owner, set stray logs aside."""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ottla.common.clock import Clock
from ottla.common.ids import uuid_text
from ottla.log.checkpoints import META_PROPERTIES, MetaProperties
from ottla.log.directories.log_directories import LogDirectories, Unlock
from ottla.log.directories.log_directory import LogDirectory, LogDirectoryUnusable, lock_directory
from ottla.log.disk import Disk
from ottla.log.file_pool import open_file_limit
from ottla.metadata.image import ClusterImage
from ottla.protocol.errors import KafkaStorageError

log = logging.getLogger(__name__)


def set_stray_logs_aside(directories: LogDirectories, image: ClusterImage, node_id: int) -> None:
    """Close the logs whose topic was deleted or recreated, or whose replicas were moved to other brokers.

    A crash during a topic deletion leaves such logs, and so does a reassignment while this broker is down.
    Their directories are renamed to `-stray`, not removed: if the metadata is wrong, the records still
    exist. Their checkpoint entries are removed, because they would truncate a new topic of the same name.
    """
    for partition, stray in list(directories.logs.items()):
        owner = image.topics.get(partition.topic)
        is_ours = owner is not None and stray.topic_id in (None, owner.topic_id)
        placed = image.partition(*partition)
        if not is_ours or placed is None or node_id not in placed.replicas:
            kept_as = directories.move_to_stray(partition)
            log.warning(
                "%s belongs to no topic of this cluster (was the broker killed while it deleted one?), or "
                "not to this broker (were its replicas moved?); "
                "its records are kept in %s. The broker never removes them: when they are not needed, "
                "do it by hand: rm -r '%s'",
                partition, kept_as, kept_as,
            )  # fmt: skip
    try:
        directories.write_checkpoints()
    except KafkaStorageError as error:
        log.error("the checkpoints may still name deleted logs: %s", error)


class StartError(Exception):
    """The broker cannot start; the message says why and what to do."""


@dataclass(slots=True)
class PreparedDirectories:
    """The directories of a starting broker, by absolute path: locked, and with their ids; or unusable."""

    locks: dict[str, Unlock] = field(default_factory=dict)
    cluster_id: str | None = None
    ids: dict[str, str] = field(default_factory=dict)
    unusable: dict[str, str] = field(default_factory=dict)

    def unlock(self) -> None:
        """Release all locks."""
        for release in self.locks.values():
            release()

    def log_directories(
        self, disk: Disk, clock: Clock, node_id: int, cluster_id: str, known: frozenset[str]
    ) -> LogDirectories:
        """Return the directories, to be opened; `known` are the ids that the metadata has of this broker."""
        unseen = known.difference(self.ids.values())
        is_clear = len(unseen) == 1 and len(self.locks) - len(self.ids) == 1
        only_unseen = next(iter(unseen)) if is_clear else ""
        limit = max(1, open_file_limit() // len(self.locks))
        directories = [
            LogDirectory(
                path,
                disk,
                clock,
                node_id=node_id,
                cluster_id=cluster_id,
                directory_id=self.ids.get(path, only_unseen),
                max_open_files=limit,
            )
            for path in self.locks
        ]
        return LogDirectories(directories, clock, self.unusable)


def prepare_directories(disk: Disk, paths: Sequence[str]) -> PreparedDirectories:
    """Make and lock the directories. StartError if none is usable; LogDirectoryError if one is in use."""
    prepared = PreparedDirectories()
    try:
        for path in map(os.path.abspath, paths):
            try:
                make_directory(disk, Path(path))
                prepared.locks[path] = lock_directory(disk, path)
                cluster_id, directory_id = owner_of_logs(disk, Path(path))
            except (OSError, LogDirectoryUnusable) as error:
                _leave_out(prepared, path, error, is_only=len(paths) == 1)
                continue
            prepared.cluster_id = prepared.cluster_id or cluster_id
            if directory_id is not None:
                prepared.ids[path] = directory_id
        if not prepared.locks:
            raise StartError("no data directory can be used: " + "; ".join(prepared.unusable.values()))
    except BaseException:
        prepared.unlock()
        raise
    return prepared


def _leave_out(prepared: PreparedDirectories, path: str, error: Exception, *, is_only: bool) -> None:
    release = prepared.locks.pop(path, None)
    if release is not None:
        release()
    reason = str(error)
    if not isinstance(error, LogDirectoryUnusable):
        why = error.strerror if isinstance(error, OSError) else None
        reason = f"the data directory {path} cannot be made: {why or error}"
    if is_only:
        raise StartError(reason) from error
    prepared.unusable[path] = reason
    log.error(
        "%s. The broker starts without this directory, and its replicas are offline; check the disk and the "
        "mount, then restart the broker",
        reason, extra={"event": "log-directory-offline", "path": path},
    )  # fmt: skip


def warn_of_other_directories(directories: LogDirectories, known: frozenset[str], node_id: int) -> None:
    """Say that directories are others than the ones that this broker had before."""
    gone = known.difference(directories.directory_ids)
    if gone:
        new = [each.path for each in directories.directories if each.is_new] or directories.paths
        log.warning(
            "%s is not the log directory that broker %d had before (%s): its replicas are copied from "
            "other brokers. Is a disk not mounted? Then stop this broker, mount it, and start again",
            ", ".join(new), node_id, ", ".join(sorted(gone)),
        )  # fmt: skip


def make_directory(disk: Disk, data: Path) -> None:
    """Make the data directory so that a power failure cannot take it back, with all that is in it."""
    missing = [each for each in (data, *data.parents) if not disk.exists(str(each))]
    disk.make_dir(str(data))
    for each in reversed(missing):
        disk.fsync_dir(str(each.parent))


def owner_of_logs(disk: Disk, data: Path) -> tuple[str, str] | tuple[None, None]:
    """Return the cluster whose logs are in `data` and the id of the directory, if there are any."""
    try:
        meta = MetaProperties.decode(disk.read_file(str(data / META_PROPERTIES)))
    except (FileNotFoundError, ValueError):
        return None, None  # opening the log directory says what is wrong with the file
    return meta.cluster_id, uuid_text(meta.directory_id)
