"""All log directories of one broker: where each log is, where a new one goes, and what is offline.

One directory is the common case, and everything is passed on to it. With several (`log.dirs=/a,/b`):

- each has its own lock, id, checkpoints and clean-shutdown marker, and keeps working when another fails;
- a new log is placed by free space, shared by the replicas that are there already;
- a log that is in two directories is refused: it is not known which copy is the right one;
- replicas of a directory that fails, or is unusable at the start, are offline. They are never created again
  in another directory meanwhile: the copy would be empty, and the disk may be repaired (decision 0210).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from uuid import UUID

from ottla.common.clock import Clock
from ottla.common.ids import TopicPartition
from ottla.log.directories.log_copy import complete_moves
from ottla.log.directories.log_directory import LogDirectory, LogDirectoryError, LogDirectoryUnusable
from ottla.log.log import Log
from ottla.log.log_config import LogConfig
from ottla.log.producers.producer_limit import ProducerLimit
from ottla.log.storage import Storage
from ottla.protocol.errors import KafkaStorageError

logger = logging.getLogger(__name__)

Unlock = Callable[[], None]


class LogDirectories:
    """The log directories of one broker. `unusable` are paths that could not even be locked, with reasons."""

    def __init__(
        self, directories: Sequence[LogDirectory], clock: Clock, unusable: Mapping[str, str] | None = None
    ) -> None:
        self.directories = list(directories)
        self.unusable = dict(unusable or {})
        """Directories that could not be opened, and why."""
        self.offline: set[TopicPartition] = set()
        """Replicas that are in a directory that is offline."""
        self.lost: set[TopicPartition] = set()
        """Replicas that the cluster expects here, and that were in a directory that is gone."""
        self.missing_ids: frozenset[str] = frozenset()
        """The ids that the cluster knows and that no usable directory has, while some are unusable."""
        self.preferred: dict[TopicPartition, str] = {}
        """Where an administrator wants logs that do not exist yet."""
        self.unfinished_moves: dict[TopicPartition, str] = {}
        """Logs that were being moved to another directory when the broker stopped."""
        self.producer_limit = self.directories[0].producer_limit
        if len(self.directories) > 1:
            self.producer_limit = ProducerLimit(self._count_producers, clock)
            for each in self.directories:
                each.producer_limit = each.storage.producer_limit = self.producer_limit

    def _count_producers(self) -> int:
        return sum(len(log.producers) for each in self.directories for log in each.logs.values())

    @property
    def paths(self) -> list[str]:
        """Return the paths of all directories, usable or not."""
        return [*(each.path for each in self.directories), *self.unusable]

    # Opening
    def open(
        self,
        config_for: Callable[[str], LogConfig],
        locks: Mapping[str, Unlock] | None = None,
        is_replicated: Callable[[TopicPartition], bool] = lambda _: False,
    ) -> None:
        """Open every directory; one whose disk cannot be used is left out, unless it is the last one."""
        self._complete_moves()
        self._refuse_duplicates()
        is_one_of_several = len(self.paths) > 1
        for each in list(self.directories):
            lock = (locks or {}).get(each.path)
            try:
                each.open(config_for, lock, is_replicated, is_one_of_several=is_one_of_several)
            except LogDirectoryUnusable as error:
                self._leave_out(each, str(error), error)

    def _leave_out(self, directory: LogDirectory, reason: str, error: Exception) -> None:
        if len(self.directories) == 1:
            raise error
        self.directories.remove(directory)
        self.unusable[directory.path] = reason
        logger.error("%s; the broker starts without it, and its replicas are offline", reason)

    def _complete_moves(self) -> None:
        """Complete the moves between directories that a crash interrupted."""
        disk = self.directories[0].storage.disk
        self.unfinished_moves, failed = complete_moves(
            disk, [each.path for each in self.directories if disk.exists(each.path)]
        )
        # Offline until the next start: a log that is created in its place would be empty.
        self.offline.update(failed)
        for each in self.directories:
            each.unnamed = {at: error for at, (path, error) in failed.items() if path == each.path}

    def _refuse_duplicates(self) -> None:
        """Raise LogDirectoryError if two directories have a log of the same partition."""
        if len(self.directories) == 1:
            return
        holders: dict[TopicPartition, str] = {}
        for each in list(self.directories):
            try:
                found = each.partitions_on_disk()
            except OSError as error:
                self._leave_out(each, f"log directory {each.path} cannot be used: {error}", error)
                continue
            for partition in found:
                first = holders.setdefault(partition, each.path)
                if first != each.path:
                    raise LogDirectoryError(
                        f"{partition} is in two log directories, {first} and {each.path}: one is a former "
                        "copy, from a disk that was away. Compare the newest files of both (ls -l), keep the "
                        f"current one, and rename the other, for example: "
                        f"mv '{each.path}/{partition}' '{each.path}/{partition}.{'0' * 32}-stray'"
                    )

    def compare(self, known: frozenset[str], expected: Iterable[TopicPartition]) -> None:
        """Find what is missing, after `open`: `known` are the directory ids in the metadata, `expected` the
        replicas that it has of this broker.

        With an unusable directory, what was not found is in it: offline. Otherwise a known directory is gone
        for good, or was replaced: what is in none that the cluster knows is lost, and will be copied again.
        """
        ids = {each.directory_id for each in self.directories}
        gone = known - ids
        if self.unusable:
            self.missing_ids = gone
        elif known.isdisjoint(ids):
            return  # a new broker, or one with nothing left of what it had: known by the ids alone
        for each in expected:
            holder = self._holder(each)
            if holder is not None and holder.directory_id not in known:
                self.lost.add(each)
            elif holder is None and gone:
                (self.offline if self.unusable else self.lost).add(each)

    # What the broker registers
    @property
    def directory_ids(self) -> list[str]:
        """Return the ids of all directories, with those that are offline last."""
        return [each.directory_id for each in self.directories] + sorted(self.missing_ids)

    @property
    def was_clean(self) -> bool:
        """Return whether the shutdown before this start was clean, in all directories that existed."""
        return all(each.was_clean for each in self._existed())

    @property
    def may_have_lost_records(self) -> bool:
        """Return whether logs may have lost records in one of the directories."""
        return any(each.may_have_lost_records for each in self._existed())

    @property
    def seems_whole(self) -> bool:
        """Return whether the logs that may have lost records seem complete."""
        doubtful = [each for each in self._existed() if each.may_have_lost_records]
        return bool(doubtful) and all(each.seems_whole for each in doubtful)

    def _existed(self) -> list[LogDirectory]:
        """Return the directories that are not new; what was in a replaced one is lost, not unclean."""
        return [each for each in self.directories if not each.is_new] or self.directories

    def write_boot_id(self) -> None:
        """Store the boot id in each directory; see LogDirectory."""
        for each in self.directories:
            each.write_boot_id()

    # Offline directories
    @property
    def offline_reasons(self) -> dict[str, str]:
        """Return the directories that are offline, with the reasons."""
        failed = {
            each.path: each.storage.offline_reason
            for each in self.directories
            if each.storage.offline_reason is not None
        }
        return {**self.unusable, **failed}

    @property
    def are_all_offline(self) -> bool:
        """Return whether no directory is left that can be written."""
        return all(each.storage.offline_reason is not None for each in self.directories)

    @property
    def full(self) -> list[LogDirectory]:
        """Return the directories that are online and full."""
        return [
            each for each in self.directories if each.storage.is_full and each.storage.offline_reason is None
        ]

    @property
    def is_any_writable(self) -> bool:
        """Return whether one of the directories is online and not full."""
        return any(
            each.storage.offline_reason is None and not each.storage.is_full for each in self.directories
        )

    def take_offline(self, storage: Storage) -> list[TopicPartition]:
        """Record that a directory has failed; return its replicas."""
        found = [
            partition
            for each in self.directories
            if each.storage is storage
            for partition in (*each.logs, *each.failed)
        ]
        self.offline.update(found)
        return found

    # One log
    @property
    def logs(self) -> Mapping[TopicPartition, Log]:
        """Return all logs."""
        if len(self.directories) == 1:
            return self.directories[0].logs
        return {partition: log for each in self.directories for partition, log in each.logs.items()}

    @property
    def failed(self) -> Mapping[TopicPartition, OSError]:
        """Return the logs that could not be opened, and why."""
        if len(self.directories) == 1:
            return self.directories[0].failed
        return {partition: error for each in self.directories for partition, error in each.failed.items()}

    def _holder(self, partition: TopicPartition) -> LogDirectory | None:
        for each in self.directories:
            if partition in each.logs or partition in each.failed:
                return each
        return None

    def directory_of(self, log: Log) -> LogDirectory:
        """Return the directory that has a log."""
        return next(each for each in self.directories if each.storage is log.storage)

    def get(self, partition: TopicPartition) -> Log | None:
        """Return the log of a partition, or None; KafkaStorageError if it exists and cannot be opened."""
        if partition in self.offline:
            raise KafkaStorageError(f"the log directory with the log of {partition} is offline")
        holder = self._holder(partition)
        return None if holder is None else holder.get(partition)

    def retry_open(self, partition: TopicPartition, config: LogConfig) -> None:
        """Retry a log that could not be opened because space, descriptors or memory ran out."""
        holder = self._holder(partition)
        if holder is not None:
            holder.retry_open(partition, config)

    def create(self, partition: TopicPartition, topic_id: UUID | None, config: LogConfig) -> Log:
        """Create the log of a new partition in the directory that has most space for it."""
        return self._place(partition).create(partition, topic_id, config)

    def _place(self, partition: TopicPartition) -> LogDirectory:
        holder = self._holder(partition)
        if holder is not None or len(self.directories) == 1:
            return holder or self.directories[0]
        online = [each for each in self.directories if each.storage.offline_reason is None]
        preferred = self.preferred.pop(partition, None)
        for each in online:
            if each.path == preferred:
                return each
        if partition in self.lost:  # into the new disk: should it hide a mount, no copy is left beside it
            online = [each for each in online if each.is_new] or online
        online = [each for each in online if not each.storage.is_full] or online or self.directories
        return max(online, key=_free_bytes_per_replica)

    def write_topic_id(self, log: Log, topic_id: UUID) -> None:
        """Restore the topic id of a log whose partition.metadata was lost or damaged."""
        self.directory_of(log).write_topic_id(log, topic_id)

    def delete(self, partition: TopicPartition) -> None:
        """Remove a partition's log immediately; its files are removed later."""
        self.forget_offline(partition)
        self.preferred.pop(partition, None)
        holder = self._holder(partition)
        if holder is not None:
            holder.delete(partition)

    def forget_offline(self, partition: TopicPartition) -> None:
        """Forget a replica in an offline directory: this broker no longer has one."""
        self.offline.discard(partition)
        self.lost.discard(partition)

    def move_to_stray(self, partition: TopicPartition) -> str:
        """Close a log and rename its directory, so that it is never opened; return the new path."""
        holder = self._holder(partition)
        assert holder is not None, f"{partition} has no log"
        return f"{holder.path}/{holder.move_to_stray(partition)}"

    def take_high_watermark(self, partition: TopicPartition) -> int:
        """Return the high watermark that was checkpointed before this start, once; 0 without one."""
        return max(each.high_watermarks.pop(partition, 0) for each in self.directories)

    # Checkpoints
    def capture_checkpoints(self) -> Callable[[], None]:
        """Return a function that writes the checkpoints as of now; it may run in a thread, and raises
        OSError.
        """
        return self._together([each.capture_checkpoints() for each in self._online()])

    def capture_high_watermarks(self, high_watermarks: Mapping[TopicPartition, int]) -> Callable[[], None]:
        """Return a function that writes only the high watermarks; it may run in a thread."""
        return self._together(
            [each.capture_high_watermarks(self._part(each, high_watermarks)) for each in self._online()]
        )

    def write_checkpoints(self) -> None:
        """Write the checkpoints on the loop; KafkaStorageError if that fails."""
        for each in self._online():
            each.write_checkpoints()

    def _online(self) -> list[LogDirectory]:
        if len(self.directories) == 1:
            return self.directories
        return [each for each in self.directories if each.storage.offline_reason is None]

    def _part(
        self, directory: LogDirectory, offsets: Mapping[TopicPartition, int]
    ) -> Mapping[TopicPartition, int]:
        if len(self.directories) == 1:
            return offsets
        return {partition: offsets[partition] for partition in directory.logs if partition in offsets}

    @staticmethod
    def _together(writes: Sequence[Callable[[], None]]) -> Callable[[], None]:
        """Return a function that does all writes, whichever of them fails, and then raises the failure."""
        if len(writes) == 1:
            return writes[0]

        def write() -> None:
            failures = []
            for each in writes:
                try:
                    each()
                except OSError as error:
                    failures.append(error)
            if failures:
                raise failures[0]

        return write

    # Closing
    def close(
        self, *, clean: bool = True, high_watermarks: Mapping[TopicPartition, int] | None = None
    ) -> bool:
        """Close every directory; return whether the next start needs no recovery."""
        is_clean = True
        for each in self.directories:
            part = None if high_watermarks is None else self._part(each, high_watermarks)
            is_clean &= each.close(clean=clean, high_watermarks=part)
        return is_clean


def _free_bytes_per_replica(directory: LogDirectory) -> float:
    """Return the free space of a directory, divided by the replicas that grow in it."""
    try:
        free_bytes = directory.storage.disk.volume_bytes(directory.path)[1]
    except OSError:
        return 0.0
    return free_bytes / (1 + len(directory.logs))
