"""Move replicas between the log directories of this broker while they are served (KIP-113).

Each move is a task: it copies the log in rounds, in a thread, until little is missing, and then replaces it
at once (log_copy.py). Partitions, leaders and followers see another `Log`, nothing else. One log is copied at
a time, at the rate of `replica.alter.log.dirs.io.max.bytes.per.second`. A move ends without effect if its
replica goes away, or an error occurs; the log stays in place.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from ottla.common.ids import TopicPartition
from ottla.log.directories.log_copy import ROUND_BYTES, SMALL_BYTES, LogCopy
from ottla.log.directories.log_directories import LogDirectories
from ottla.log.directories.log_directory import LogDirectory
from ottla.protocol.errors import KafkaError, KafkaStorageError, LogDirNotFound
from ottla.replication.partition import Partition
from ottla.replication.registry import PartitionRegistry
from ottla.replication.throttle import Rate

logger = logging.getLogger(__name__)

RETRY_S = 0.1
"""After how long a log that is being compacted is tried again."""


MAX_NAME = 210
"""A copy has a name that is longer by an id and a suffix; file systems allow 255 bytes."""


class DirectoryMoves:
    """The moves of one broker; `is_busy` returns whether a log is being compacted."""

    def __init__(
        self,
        directories: LogDirectories,
        partitions: PartitionRegistry,
        is_busy: Callable[[TopicPartition], bool],
        take_offline: Callable[[TopicPartition], None],
        rate: Rate,
    ) -> None:
        self._directories = directories
        self._partitions = partitions
        self._is_busy = is_busy
        self._take_offline = take_offline
        self.rate = rate
        self._is_stopping = False
        self._copies: dict[TopicPartition, LogCopy] = {}
        self._tasks: dict[TopicPartition, asyncio.Task[None]] = {}
        self._one_at_a_time = asyncio.Lock()

    def resume(self) -> None:
        """Start the moves again that the last stop interrupted."""
        for partition, path in self._directories.unfinished_moves.items():
            try:
                self.move(self._partitions.get_replica(*partition), path)
            except KafkaError as error:
                logger.warning("not moving %s to %s any more: %s", partition, path, error)
        self._directories.unfinished_moves.clear()

    async def stop(self) -> None:
        """Interrupt all moves; the next start begins them again."""
        self._is_stopping = True
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def copies_in(self, directory: LogDirectory) -> list[LogCopy]:
        """Return the copies that are being made in a directory."""
        return [each for each in self._copies.values() if each.target is directory]

    def move(self, partition: Partition, path: str) -> None:
        """Begin to move a replica; one that is there already stays, and a move elsewhere is cancelled."""
        target = self.directory_at(path)
        place = partition.topic_partition
        if len(str(place)) > MAX_NAME:
            raise KafkaStorageError(f"{place} cannot be moved: the name of its copy would be too long")
        copy = self._copies.get(place)
        if copy is not None and copy.target is target:
            return
        if place in self._tasks:
            self._copies.pop(place, None)
            self._tasks.pop(place).cancel()
        source = self._directories.directory_of(partition.log)
        if source is not target:
            copy = self._copies[place] = LogCopy(partition.log, source, target)
            self._tasks[place] = asyncio.create_task(self._move(partition, copy), name=f"move {place}")

    def directory_at(self, path: str) -> LogDirectory:
        """Return the directory with this path; LogDirNotFound, or KafkaStorageError if it is offline."""
        for each in self._directories.directories:
            if each.path == path:
                each.storage.check_writable()
                return each
        if path in self._directories.unusable:
            raise KafkaStorageError(f"log directory {path} is offline")
        raise LogDirNotFound(f"{path} is not a log directory of this broker")

    async def _move(self, partition: Partition, copy: LogCopy) -> None:
        place, source, target = partition.topic_partition, copy.source, copy.target
        try:
            async with self._one_at_a_time:
                logger.info("moving %s from %s to %s", place, source.path, target.path)
                await asyncio.to_thread(copy.start)
                await self._copy(copy)
                partition.log = copy.finish()
                logger.info("moved %s from %s to %s", place, source.path, target.path)
        except KafkaStorageError as error:
            logger.error("cannot move %s to %s: %s", place, target.path, error)
            if partition.log is copy.log and copy.log.is_closed and place not in source.logs:
                self._give_up(partition)
        except OSError as error:
            target.storage.write_failed(f"moving {place} to {target.path}", error)
        finally:
            if self._copies.get(place) is copy:
                del self._copies[place]
            if self._tasks.get(place) is asyncio.current_task():
                del self._tasks[place]
            if not self._is_stopping:
                copy.discard()

    def _give_up(self, partition: Partition) -> None:
        """Take a replica offline whose copy cannot be opened; the next start finds it in its place."""
        try:
            is_here = self._partitions.get_replica(*partition.topic_partition) is partition
        except KafkaError:
            is_here = False
        if is_here:
            self._take_offline(partition.topic_partition)

    async def _copy(self, copy: LogCopy) -> None:
        """Copy until so little is missing that the rest can be done at once."""
        while True:
            if copy.log.is_closed or copy.source.storage.offline_reason is not None:
                raise KafkaStorageError("the replica is gone")
            copy.target.storage.check_writable()
            if self.rate.is_exhausted:
                await asyncio.sleep(RETRY_S)
                continue
            pieces = copy.missing(SMALL_BYTES if self.rate.is_limited else ROUND_BYTES)
            if pieces:
                await asyncio.to_thread(copy.copy, pieces)
                self.rate.record(sum(each.end - each.start for each in pieces))
            elif self._is_busy(copy.log.topic_partition):
                await asyncio.sleep(RETRY_S)
            is_here = not copy.log.is_closed and copy.source.storage.offline_reason is None
            if is_here and copy.is_nearly_complete and not self._is_busy(copy.log.topic_partition):
                return
