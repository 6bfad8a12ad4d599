"""All logs of one broker, in one directory.

    meta.properties, .lock, .kafka_cleanshutdown     see checkpoints.py
    four checkpoints                                 see directory_checkpoints.py
    <topic>-<partition>/                             one log each
    <topic>-<partition>.<id>-delete/                 a deleted log, not yet removed
    <topic>-<partition>.<id>-stray/                  a log that no topic owned; never removed by the broker

Open and close are symmetric: closing cleanly writes what each log needs to be opened without a scan,
makes it all durable at once, and leaves the clean-shutdown marker; opening removes the marker before
the first append, so that whatever happens next counts as a crash until the next clean close.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping
from uuid import UUID

from ottla.common.clock import Clock
from ottla.common.ids import TopicPartition, new_uuid, parse_uuid, uuid_text
from ottla.log.boot_id import BOOT, DOUBTFUL, is_same_boot, remove_boot_id, write_boot_id
from ottla.log.checkpoints import (
    CLEAN_SHUTDOWN,
    META_PROPERTIES,
    MetaProperties,
    encode_partition_metadata,
    write_atomically,
)
from ottla.log.directory_checkpoints import DirectoryCheckpoints
from ottla.log.disk import Disk
from ottla.log.file_names import (
    PARTITION_METADATA,
    deleted_dir_name,
    is_deleted_dir,
    is_stray_dir,
    parse_partition_dir,
    stray_dir_name,
)
from ottla.log.file_pool import open_file_limit
from ottla.log.loading.loader import create_log, open_log
from ottla.log.log import Log
from ottla.log.log_config import LogConfig
from ottla.log.producer_limit import ProducerLimit
from ottla.log.storage import Storage, is_transient
from ottla.protocol.errors import KafkaStorageError

logger = logging.getLogger(__name__)

_LOCK = ".lock"
_MARKER = b'{"version":0,"brokerEpoch":-1}'


class LogDirectoryError(Exception):
    """The directory cannot be used at all; the message says why and what to do."""


def lock_directory(disk: Disk, path: str) -> Callable[[], None]:
    """Take the directory for this process; return what releases it. LogDirectoryError if another has it."""
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
        raise LogDirectoryError(f"log directory {path} cannot be used: {error}") from error
    return release


class LogDirectory:
    """The logs of one broker."""

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
        self.checkpoints = DirectoryCheckpoints(disk, path, self.logs)
        self.producer_limit = self.storage.producer_limit = ProducerLimit(self._count_producers, clock)
        self.high_watermarks: dict[TopicPartition, int] = {}
        """As they were checkpointed before this start."""
        self.was_clean = False
        """Whether the stop before this start was clean."""
        self.may_have_lost_records = False
        """Whether the machine lost power since then, the disk failed, or a log was damaged."""
        self.seems_whole = False
        """Whether, of these, only the disk failed: the machine has run on, and the logs are in order."""
        self._disk = disk
        self._clock = clock
        self._identity = (node_id, cluster_id)
        self.directory_id = directory_id
        """The id of this directory, once it is open; until then, the one that the cluster knows."""
        self._has_copies: Callable[[TopicPartition], bool] = lambda _: False
        self._release: Callable[[], None] | None = None
        self._worthless: set[TopicPartition] = set()
        """Of these a directory may be left that was to be deleted, or was never finished."""

    def _count_producers(self) -> int:
        return sum(len(log.producers) for log in self.logs.values())

    # Opening
    def open(
        self,
        config_for: Callable[[str], LogConfig],
        lock: Callable[[], None] | None = None,
        is_replicated: Callable[[TopicPartition], bool] = lambda _: False,
    ) -> None:
        """Lock the directory, check its owner, and open every log in it.

        `lock` releases the directory's lock, if it is already held (`lock_directory`). `is_replicated`
        returns whether other brokers have a copy of a partition: such a log is truncated where it is damaged.
        """
        try:
            if not self._disk.exists(self.path):
                self._disk.make_dir(self.path)
                self._disk.fsync_dir(os.path.dirname(self.path))
            self._release = lock or lock_directory(self._disk, self.path)
            self._check_owner()
            self._has_copies = is_replicated
            self._open_logs(config_for)
        except OSError as error:
            self._unlock()
            raise LogDirectoryError(f"log directory {self.path} cannot be used: {error}") from error
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
                f"{path} cannot be read: {problem}. It says whose logs these are; restore it, "
                f"or remove it if they belong to node {node_id} of cluster {cluster_id}"
            ) from problem
        if (meta.node_id, meta.cluster_id) != self._identity:
            raise LogDirectoryError(
                f"log directory {self.path} belongs to node {meta.node_id} of cluster {meta.cluster_id}, "
                f"this is node {node_id} of cluster {cluster_id}"
            )
        self.directory_id = uuid_text(meta.directory_id)

    def _has_logs(self) -> bool:
        return any(
            entry.is_dir and parse_partition_dir(entry.name) is not None
            for entry in self._disk.list_dir(self.path)
        )

    def _open_logs(self, config_for: Callable[[str], LogConfig]) -> None:
        disk, marker = self._disk, f"{self.path}/{CLEAN_SHUTDOWN}"
        self.was_clean = disk.exists(marker)
        has_run_on = is_same_boot(disk, self.path)
        has_failed = is_same_boot(disk, self.path, DOUBTFUL)
        remove_boot_id(disk, self.path)
        self.checkpoints.read()
        self.high_watermarks = dict(self.checkpoints.high_watermarks)
        for entry in disk.list_dir(self.path):
            if not entry.is_dir or is_deleted_dir(entry.name):
                continue
            partition = parse_partition_dir(entry.name)
            if partition is not None:
                self._open_log(partition, config_for(partition.topic))
            else:
                what = "belongs to no topic" if is_stray_dir(entry.name) else "is not a partition's directory"
                logger.warning(
                    "%s/%s %s and is left alone; remove it by hand if it is of no use",
                    self.path, entry.name, what,
                )  # fmt: skip
        self.checkpoints.opened(self.failed)
        for log in self.logs.values():
            self._lower_checkpoints(log)
        is_damaged = bool(self.failed) or any(log.is_damaged for log in self.logs.values())
        self.may_have_lost_records = is_damaged or not (self.was_clean or has_run_on)
        self.seems_whole = self.may_have_lost_records and has_failed and not is_damaged
        if self.seems_whole:
            self.write_boot_id(DOUBTFUL)
        elif not self.may_have_lost_records:
            self.write_boot_id()
        disk.remove(marker)
        disk.fsync_dir(self.path)
        how = "without a scan, after a clean stop" if self.was_clean else "and checked, after an unclean stop"
        if self.logs:
            logger.info("%s: %d logs opened %s", self.path, len(self.logs), how)

    def write_boot_id(self, name: str = BOOT) -> None:
        """Let the next start trust these logs, if the machine runs till then.

        That is right if nothing is missing, or when the cluster knows what this start found missing: else, a
        second start would find the logs in order that the first one mended, and say so.
        """
        if self.storage.offline_reason is not None:
            return
        try:
            write_boot_id(self._disk, self.path, name)
        except OSError as error:
            logger.warning("the next start of %s will take it that records are lost: %s", self.path, error)

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
                is_replicated=self._has_copies(partition),
            )
        except OSError as error:
            self.failed[partition] = error
            logger.error("the log of %s cannot be opened: %s", partition, error)
            return
        self._adopt(log)

    def _adopt(self, log: Log) -> None:
        log.on_truncate = self._prepare_truncation
        self.logs[log.topic_partition] = log

    def _prepare_truncation(self, log: Log, end_offset: int) -> None:
        """Lower what the checkpoints say of a log, durably, before it is cut off at `end_offset`."""
        if log.recovery_point == end_offset:
            self._write(self.checkpoints.capture_recovery_points())
        for write in self.checkpoints.lower(log, end_offset):
            self._write(write)

    def _lower_checkpoints(self, log: Log) -> None:
        """Let no checkpoint speak of records that were lost when the log was opened."""
        for write in self.checkpoints.lower(log, log.log_end_offset):
            self._write(write)

    # One log
    def get(self, partition: TopicPartition) -> Log | None:
        """Return the log of a partition, or None; KafkaStorageError if it is there and cannot be opened."""
        if partition in self.failed:
            raise KafkaStorageError(f"the log of {partition} cannot be opened: {self.failed[partition]}")
        return self.logs.get(partition)

    def retry_open(self, partition: TopicPartition, config: LogConfig) -> None:
        """Try a log again that could not be opened for want of room, descriptors or memory."""
        error = self.failed.get(partition)
        if error is not None and is_transient(error):
            del self.failed[partition]
            self._open_log(partition, config)
            if partition in self.logs:
                self._lower_checkpoints(self.logs[partition])

    def create(self, partition: TopicPartition, topic_id: UUID | None, config: LogConfig) -> Log:
        """Create the log of a new partition; nothing of an earlier one of that name becomes part of it."""
        if partition in self.logs or partition in self.failed:
            raise KafkaStorageError(f"{partition} has a log already")
        self.storage.check_writable()
        if self.checkpoints.still_name(partition):
            self.write_checkpoints()
        directory = f"{self.path}/{partition}"
        if self._disk.exists(directory):
            self._move_away(partition, is_worthless=partition in self._worthless)
        try:
            log = create_log(self.storage, directory, partition, topic_id, config, self._clock)
        except OSError as error:
            self._worthless.add(partition)
            raise self.storage.append_failed(f"creating {directory}", error) from error
        self._adopt(log)
        return log

    def write_topic_id(self, log: Log, topic_id: UUID) -> None:
        """Note again whose log this is: the file that says so was lost or damaged."""
        log.topic_id = topic_id
        path = f"{log.path}/{PARTITION_METADATA}"
        try:
            write_atomically(self._disk, path, encode_partition_metadata(topic_id))
        except OSError as error:
            raise self.storage.write_failed(f"writing {path}", error) from error

    def delete(self, partition: TopicPartition) -> None:
        """Take a partition's log out at once; `purge_deleted` removes its files later.

        Neither is sure to survive a power cut before the checkpoints are written the next time.
        """
        log = self.logs.pop(partition, None)
        if log is not None:
            log.close(clean=False)
        if log is None and self.failed.pop(partition, None) is None:
            return
        self.checkpoints.forget(partition)
        self._worthless.add(partition)
        self._move_away(partition, is_worthless=True)

    def move_to_stray(self, partition: TopicPartition) -> str:
        """Take a log out and keep its directory under a name that is never opened; return that name."""
        self.logs.pop(partition).close(clean=False)
        self.checkpoints.forget(partition)
        return self._move_away(partition, is_worthless=False)

    def _move_away(self, partition: TopicPartition, *, is_worthless: bool) -> str:
        """Give a log's directory a name that is never opened, and return that."""
        name = deleted_dir_name(partition) if is_worthless else stray_dir_name(partition)
        try:
            self._disk.rename(f"{self.path}/{partition}", f"{self.path}/{name}")
        except OSError as error:
            raise self.storage.write_failed(f"renaming {self.path}/{partition}", error) from error
        self._worthless.discard(partition)
        return name

    def purge_deleted(self) -> int:
        """Remove the files of deleted logs and return how many logs that were. May run in a thread."""
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
        """Return what writes the checkpoints as of now; that may run in a thread. OSErrors pass through.

        It also makes durable what was deleted and set aside before.
        """
        return self.checkpoints.capture(high_watermarks)

    def capture_high_watermarks(self, high_watermarks: Mapping[TopicPartition, int]) -> Callable[[], None]:
        """Return what writes the high watermarks alone; that may run in a thread."""
        return self.checkpoints.capture_high_watermarks(high_watermarks)

    def write_checkpoints(self, high_watermarks: Mapping[TopicPartition, int] | None = None) -> None:
        """Do that now, on the loop; KafkaStorageError if it fails."""
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
        """Close every log; return whether the next start can do without recovery."""
        for log in self.logs.values():
            try:
                log.close(clean=clean and self.storage.offline_reason is None)
            except KafkaStorageError as error:
                logger.error("%s was not closed cleanly: %s", log.topic_partition, error)
                clean = False
        clean = clean and self.storage.offline_reason is None and not self.failed
        try:
            if clean:
                self._leave_marker(high_watermarks)
        except OSError as error:
            logger.error("log directory %s was not closed cleanly: %s", self.path, error)
            clean = False
        self._unlock()
        return clean

    def _leave_marker(self, high_watermarks: Mapping[TopicPartition, int] | None) -> None:
        self._disk.sync_all(self.path)
        for log in self.logs.values():
            log.recovery_point = log.log_end_offset
        self.capture_checkpoints(high_watermarks)()
        write_atomically(self._disk, f"{self.path}/{CLEAN_SHUTDOWN}", _MARKER)
