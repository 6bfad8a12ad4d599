"""All logs of one log directory: of a broker, unless it has several (log_directories.py).

    meta.properties, .lock, .kafka_cleanshutdown     see checkpoints.py
    four checkpoints                                 see directory_checkpoints.py
    <topic>-<partition>/                             one log each
    <topic>-<partition>.<id>-delete/                 a deleted log that is not removed yet
    <topic>-<partition>.<id>-stray/                  a log without a topic; never removed by the broker

A clean close writes what each log needs to be opened without a scan, makes everything durable at once, and
writes the clean-shutdown marker. Opening removes the marker before the first append, so that whatever happens
next counts as a crash until the next clean close.
"""

from __future__ import annotations

import logging
import os
from collections import ChainMap
from collections.abc import Callable, Mapping
from uuid import UUID

from ottla.common.clock import Clock
from ottla.common.ids import TopicPartition, new_uuid, parse_uuid, uuid_text
from ottla.log.boot_id import (
    BOOT_FILE,
    DISK_FAILED_FILE,
    is_same_boot,
    put_boot_id_back,
    set_boot_id_aside,
    write_boot_id,
)
from ottla.log.checkpoints import (
    CLEAN_SHUTDOWN,
    META_PROPERTIES,
    MetaProperties,
    encode_partition_metadata,
    write_atomically,
)
from ottla.log.directories.directory_checkpoints import DirectoryCheckpoints
from ottla.log.disk import Disk
from ottla.log.file_names import (
    PARTITION_METADATA,
    deleted_dir_name,
    is_deleted_dir,
    is_stray_dir,
    parse_moved_dir,
    parse_partition_dir,
    stray_dir_name,
)
from ottla.log.file_pool import open_file_limit
from ottla.log.loading.loader import create_log, open_log
from ottla.log.log import Log
from ottla.log.log_config import LogConfig
from ottla.log.producers.producer_limit import ProducerLimit
from ottla.log.storage import Storage, is_no_space, is_transient
from ottla.protocol.errors import KafkaStorageError

logger = logging.getLogger(__name__)

_LOCK = ".lock"
_MARKER = b'{"version":0,"brokerEpoch":-1}'


class LogDirectoryError(Exception):
    """The directory cannot be used; the message says why and what to do."""


class LogDirectoryUnusable(LogDirectoryError):
    """The disk is missing, or cannot be read or written; other directories of the broker may be usable."""


def lock_directory(disk: Disk, path: str) -> Callable[[], None]:
    """Lock the directory for this process; return a function that unlocks it. LogDirectoryError if it is in
    use.
    """
    file = f"{path}/{_LOCK}"
    try:
        release = disk.lock(file)
        if release is None:
            holder = disk.read_file(file).decode(errors="replace") or "another process"
            raise LogDirectoryError(
                f"log directory {path} is in use by {holder}: stop that broker, or use another directory"
            )
        disk.write_file(file, f"process {os.getpid()}".encode(), sync=False)
    except OSError as error:
        raise LogDirectoryUnusable(f"log directory {path} cannot be used: {error}") from error
    return release


class LogDirectory:
    """The logs of one broker in one directory."""

    def __init__(
        self,
        path: str,
        disk: Disk,
        clock: Clock,
        *,
        node_id: int,
        cluster_id: str,
        directory_id: str = "",
        max_open_files: int | None = None,
    ) -> None:
        self.path = path = os.path.abspath(path)
        self.storage = Storage(disk, path, max_open_files=max_open_files or open_file_limit())
        self.logs: dict[TopicPartition, Log] = {}
        self.failed: dict[TopicPartition, OSError] = {}
        """Logs that could not be opened, and why; the others are served."""
        self.unnamed: dict[TopicPartition, OSError] = {}
        """Logs that were moved here and could not get their name, and why; the next start tries again."""
        self.checkpoints = DirectoryCheckpoints(disk, path, self.logs)
        self.producer_limit = self.storage.producer_limit = ProducerLimit(self._count_producers, clock)
        self.high_watermarks: dict[TopicPartition, int] = {}
        """As they were checkpointed before this start."""
        self.was_clean = False
        """Whether the shutdown before this start was clean."""
        self.may_have_lost_records = False
        """Whether the machine lost power since then, the disk failed, or a log was damaged."""
        self.seems_whole = False
        """Whether only the disk failed: the machine has kept running, and the logs are intact."""
        self._disk = disk
        self._clock = clock
        self._identity = (node_id, cluster_id)
        self.directory_id = directory_id
        """The id of this directory once it is open; before that, the one that the cluster knows."""
        self.is_new = False
        """Whether this start gave the directory its id: a new disk, or an empty one in place of another."""
        self._is_replicated: Callable[[TopicPartition], bool] = lambda _: False
        self._release: Callable[[], None] | None = None
        self._disposable: set[TopicPartition] = set()
        """Partitions of which a deleted or incomplete directory may be left."""

    def _count_producers(self) -> int:
        return sum(len(log.producers) for log in self.logs.values())

    # Opening
    def open(
        self,
        config_for: Callable[[str], LogConfig],
        lock: Callable[[], None] | None = None,
        is_replicated: Callable[[TopicPartition], bool] = lambda _: False,
        *,
        is_one_of_several: bool = False,
    ) -> None:
        """Lock the directory, check its owner, and open every log in it.

        `lock` releases the directory's lock, if it is already held (`lock_directory`). `is_replicated`
        returns whether other brokers have a copy of a partition: such a log is truncated where it is damaged.
        One of several directories is unusable if a log cannot be opened because the disk is full: otherwise
        all of the broker's replicas would count as damaged.
        """
        try:
            if not self._disk.exists(self.path):
                self._disk.make_dir(self.path)
                self._disk.fsync_dir(os.path.dirname(self.path))
            self._release = lock or lock_directory(self._disk, self.path)
            self._check_owner()
            self._is_replicated = is_replicated
            self._open_logs(config_for, is_one_of_several=is_one_of_several)
        except OSError as error:
            self._unlock()
            raise LogDirectoryUnusable(f"log directory {self.path} cannot be used: {error}") from error
        except BaseException:
            self._unlock()
            raise

    def _unlock(self) -> None:
        if self._release is not None:
            self._release()
            self._release = None

    def _check_owner(self) -> None:
        path = f"{self.path}/{META_PROPERTIES}"
        node_id, cluster_id = self._identity
        if not self._disk.exists(path):
            is_known = self.directory_id and self._has_logs()  # only the file was removed
            self.is_new = not is_known
            meta = MetaProperties(
                node_id, cluster_id, parse_uuid(self.directory_id) if is_known else new_uuid()
            )
            write_atomically(self._disk, path, meta.encode())
            self.directory_id = uuid_text(meta.directory_id)
            return
        try:
            meta = MetaProperties.decode(self._disk.read_file(path))
        except ValueError as problem:
            raise LogDirectoryError(
                f"cannot parse {path}: {problem}. It identifies the owner of these logs; restore it, "
                f"or remove it if they belong to node {node_id} of cluster {cluster_id}"
            ) from problem
        if (meta.node_id, meta.cluster_id) != self._identity:
            raise LogDirectoryError(
                f"log directory {self.path} belongs to node {meta.node_id} of cluster {meta.cluster_id}, "
                f"this is node {node_id} of cluster {cluster_id}"
            )
        self.directory_id = uuid_text(meta.directory_id)

    def partitions_on_disk(self) -> list[TopicPartition]:
        """Return the partitions that have a log here, by the names of the directories; may raise OSError."""
        if not self._disk.exists(self.path):
            return []
        return [
            partition
            for entry in self._disk.list_dir(self.path)
            if entry.is_dir and (partition := parse_partition_dir(entry.name)) is not None
        ]

    def _has_logs(self) -> bool:
        return bool(self.partitions_on_disk())

    def _open_logs(self, config_for: Callable[[str], LogConfig], *, is_one_of_several: bool) -> None:
        disk, marker = self._disk, f"{self.path}/{CLEAN_SHUTDOWN}"
        self.was_clean = disk.exists(marker)
        is_same_boot_id = is_same_boot(disk, self.path)
        had_disk_failure = is_same_boot(disk, self.path, DISK_FAILED_FILE)
        set_boot_id_aside(disk, self.path)
        self.checkpoints.read()
        self.high_watermarks = dict(self.checkpoints.high_watermarks)
        for entry in disk.list_dir(self.path):
            is_hidden = entry.name.startswith(".")  # files of services that `ottla up` runs
            if not entry.is_dir or is_hidden or is_deleted_dir(entry.name) or parse_moved_dir(entry.name):
                continue
            partition = parse_partition_dir(entry.name)
            if partition is not None:
                self._open_log(partition, config_for(partition.topic))
            else:
                what = "belongs to no topic" if is_stray_dir(entry.name) else "is not a partition's directory"
                logger.warning(
                    "ignoring %s/%s, which %s; remove it if it is not needed",
                    self.path, entry.name, what,
                )  # fmt: skip
        self.checkpoints.set_unopened(ChainMap(self.failed, self.unnamed))
        for log in self.logs.values():
            self._lower_checkpoints(log)
        if is_one_of_several:
            self._refuse_if_full(is_intact=is_same_boot_id)
        is_damaged = bool(self.failed) or any(log.is_damaged for log in self.logs.values())
        self.may_have_lost_records = is_damaged or not (self.was_clean or is_same_boot_id)
        self.seems_whole = self.may_have_lost_records and had_disk_failure and not is_damaged
        if self.seems_whole:
            self.write_boot_id(DISK_FAILED_FILE)
        elif not self.may_have_lost_records:
            if is_same_boot_id:
                put_boot_id_back(disk, self.path)
            self.write_boot_id()
        disk.remove(marker)
        disk.fsync_dir(self.path)
        how = "after a clean shutdown" if self.was_clean else "with recovery, after an unclean shutdown"
        if self.logs:
            logger.info("%s: %d logs opened %s", self.path, len(self.logs), how)

    def _refuse_if_full(self, *, is_intact: bool) -> None:
        """Raise the error of a log that found no space; a later start finds everything as it was."""
        full = [each for each in self.failed.values() if is_no_space(each)]
        if not full:
            return
        is_damaged = any(log.is_damaged for log in self.logs.values()) or len(full) < len(self.failed)
        for log in self.logs.values():
            log.close(clean=False)
        if is_intact and not is_damaged:
            put_boot_id_back(self._disk, self.path)
        raise full[0]

    def write_boot_id(self, name: str = BOOT_FILE) -> None:
        """Store the boot id, so that the next start trusts these logs if the machine keeps running.

        Call it only if nothing is missing, or after the cluster knows what this start found missing:
        otherwise a second start would find the logs that the first one repaired, and report them as complete.
        """
        if self.storage.offline_reason is not None or is_same_boot(self._disk, self.path, name):
            return  # a full disk has no space to write it again
        try:
            write_boot_id(self._disk, self.path, name)
        except OSError as error:
            logger.warning(
                "cannot write the boot id of %s, so the next start will assume lost records: %s",
                self.path, error,
            )  # fmt: skip

    def _open_log(self, partition: TopicPartition, config: LogConfig) -> None:
        try:
            log = open_log(
                self.storage,
                f"{self.path}/{partition}",
                partition,
                config,
                self._clock,
                is_clean=self.was_clean,
                recovery_point=self.checkpoints.recovery_points.get(partition, 0),
                log_start_offset=self.checkpoints.log_starts.get(partition, 0),
                is_replicated=self._is_replicated(partition),
            )
        except OSError as error:
            self.failed[partition] = error
            logger.error("cannot open the log of %s: %s", partition, error)
            return
        self._add(log)

    def _add(self, log: Log) -> None:
        log.on_truncate = self._prepare_truncation
        self.logs[log.topic_partition] = log

    def _prepare_truncation(self, log: Log, end_offset: int) -> None:
        """Lower the checkpoints of a log durably, before it is truncated to `end_offset`."""
        if log.recovery_point == end_offset:
            self._write(self.checkpoints.capture_recovery_points())
        for write in self.checkpoints.lower(log, end_offset):
            self._write(write)

    def _lower_checkpoints(self, log: Log) -> None:
        """Lower the checkpoints of a log that lost records when it was opened."""
        for write in self.checkpoints.lower(log, log.log_end_offset):
            self._write(write)

    # One log
    def get(self, partition: TopicPartition) -> Log | None:
        """Return the log of a partition, or None; KafkaStorageError if it exists and cannot be opened."""
        if partition in self.failed:
            raise KafkaStorageError(f"the log of {partition} cannot be opened: {self.failed[partition]}")
        return self.logs.get(partition)

    def retry_open(self, partition: TopicPartition, config: LogConfig) -> None:
        """Retry a log that could not be opened because space, descriptors or memory ran out."""
        error = self.failed.get(partition)
        if error is not None and is_transient(error):
            del self.failed[partition]
            self._open_log(partition, config)
            if partition in self.logs:
                self._lower_checkpoints(self.logs[partition])

    def create(self, partition: TopicPartition, topic_id: UUID | None, config: LogConfig) -> Log:
        """Create the log of a new partition; nothing of an earlier log with that name is reused."""
        if partition in self.logs or partition in self.failed:
            raise KafkaStorageError(f"{partition} has a log already")
        self.storage.check_writable()
        if self.checkpoints.has_stale_entry(partition):
            self.write_checkpoints()
        directory = f"{self.path}/{partition}"
        if self._disk.exists(directory):
            self._rename_aside(partition, is_disposable=partition in self._disposable)
        try:
            log = create_log(self.storage, directory, partition, topic_id, config, self._clock)
        except OSError as error:
            self._disposable.add(partition)
            raise self.storage.append_failed(f"creating {directory}", error) from error
        self._add(log)
        return log

    def write_topic_id(self, log: Log, topic_id: UUID) -> None:
        """Restore the topic id of a log whose partition.metadata was lost or damaged."""
        log.topic_id = topic_id
        path = f"{log.path}/{PARTITION_METADATA}"
        try:
            write_atomically(self._disk, path, encode_partition_metadata(topic_id))
        except OSError as error:
            raise self.storage.write_failed(f"writing {path}", error) from error

    def delete(self, partition: TopicPartition) -> None:
        """Remove a partition's log immediately; `purge_deleted` removes its files later.

        Neither survives a power failure for certain before the checkpoints are written again.
        """
        log = self.logs.pop(partition, None)
        if log is not None:
            log.close(clean=False)
        if log is None and self.failed.pop(partition, None) is None:
            return
        self.checkpoints.forget(partition)
        self._disposable.add(partition)
        self._rename_aside(partition, is_disposable=True)

    def open_moved(self, partition: TopicPartition, config: LogConfig, log_start_offset: int) -> Log:
        """Open a complete and durable copy of a log that was moved here; may raise OSError."""
        log = open_log(
            self.storage,
            f"{self.path}/{partition}",
            partition,
            config,
            self._clock,
            is_clean=True,
            log_start_offset=log_start_offset,
        )
        self._add(log)
        return log

    def keep_unnamed(self, partition: TopicPartition, log_start_offset: int, error: OSError) -> None:
        """Keep the checkpoints of a log that was moved here and cannot be opened before the next start."""
        self.unnamed[partition] = error
        self.checkpoints.log_starts[partition] = log_start_offset

    def move_to_stray(self, partition: TopicPartition) -> str:
        """Close a log and rename its directory, so that it is never opened; return the new name."""
        self.logs.pop(partition).close(clean=False)
        self.checkpoints.forget(partition)
        return self._rename_aside(partition, is_disposable=False)

    def _rename_aside(self, partition: TopicPartition, *, is_disposable: bool) -> str:
        """Rename a log's directory, so that it is never opened; return the new name."""
        name = deleted_dir_name(partition) if is_disposable else stray_dir_name(partition)
        try:
            self._disk.rename(f"{self.path}/{partition}", f"{self.path}/{name}")
        except OSError as error:
            raise self.storage.write_failed(f"renaming {self.path}/{partition}", error) from error
        self._disposable.discard(partition)
        return name

    def purge_deleted(self) -> int:
        """Remove the files of deleted logs and return the number of logs. May run in a thread."""
        names = [entry.name for entry in self._disk.list_dir(self.path) if is_deleted_dir(entry.name)]
        for name in names:
            directory = f"{self.path}/{name}"
            for entry in self._disk.list_dir(directory):
                self._disk.remove(f"{directory}/{entry.name}")
            self._disk.remove_dir(directory)
        return len(names)

    # Checkpoints
    def capture_checkpoints(
        self, high_watermarks: Mapping[TopicPartition, int] | None = None
    ) -> Callable[[], None]:
        """Return a function that writes the checkpoints as of now; it may run in a thread, and raises
        OSError.

        It also makes earlier deletions and renames durable.
        """
        return self.checkpoints.capture(high_watermarks)

    def capture_high_watermarks(self, high_watermarks: Mapping[TopicPartition, int]) -> Callable[[], None]:
        """Return a function that writes only the high watermarks; it may run in a thread."""
        return self.checkpoints.capture_high_watermarks(high_watermarks)

    def write_checkpoints(self, high_watermarks: Mapping[TopicPartition, int] | None = None) -> None:
        """Write the checkpoints on the loop; KafkaStorageError if that fails."""
        self._write(self.capture_checkpoints(high_watermarks))

    def _write(self, write: Callable[[], None]) -> None:
        try:
            write()
        except OSError as error:
            raise self.storage.write_failed(f"writing checkpoints in {self.path}", error) from error

    # Closing
    def close(
        self, *, clean: bool = True, high_watermarks: Mapping[TopicPartition, int] | None = None
    ) -> bool:
        """Close every log; return whether the next start needs no recovery."""
        for log in self.logs.values():
            try:
                log.close(clean=clean and self.storage.offline_reason is None)
            except KafkaStorageError as error:
                logger.error("cannot close the log of %s cleanly: %s", log.topic_partition, error)
                clean = False
        clean = clean and self.storage.offline_reason is None and not self.failed
        try:
            if clean:
                self._write_clean_shutdown_marker(high_watermarks)
        except OSError as error:
            logger.error("cannot close log directory %s cleanly: %s", self.path, error)
            clean = False
        self._unlock()
        return clean

    def _write_clean_shutdown_marker(self, high_watermarks: Mapping[TopicPartition, int] | None) -> None:
        self._disk.sync_all(self.path)
        for log in self.logs.values():
            log.recovery_point = log.log_end_offset
        self.capture_checkpoints(high_watermarks)()
        write_atomically(self._disk, f"{self.path}/{CLEAN_SHUTDOWN}", _MARKER)
