"""Appends transaction markers to the partitions that this broker leads.

A marker is a control batch that commits or aborts a producer's transaction in one partition. It goes through
the replication layer like any other batch. `__consumer_offsets` is the exception: there the group coordinator
appends it, since the marker also decides the offsets that groups have pending for the transaction.

Both users are above the log and below each other's layer: the transaction coordinator, for partitions led
from here (markers.py), and WriteTxnMarkers, for coordinators on other brokers.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Sequence

from kio.schema.errors import ErrorCode

from ottla.common.ids import TopicPartition
from ottla.common.topic_names import CONSUMER_OFFSETS_TOPIC
from ottla.coordinator.groups import GroupCoordinator
from ottla.protocol.errors import (
    CoordinatorLoadInProgress,
    CoordinatorNotAvailable,
    KafkaError,
    NotCoordinator,
    NotLeaderOrFollower,
    RequestTimedOut,
    UnknownServerError,
)
from ottla.protocol.records.control import Marker
from ottla.replication.registry import PartitionRegistry

logger = logging.getLogger(__name__)

COMMIT_TIMEOUT_S = 30.0
MARKERS_PER_SLICE = 200
"""How many markers are appended before other work of the event loop runs."""

Outcome = KafkaError | asyncio.Future[None] | None
"""Why a marker was not appended; or a future for its commit; or None if it is committed."""


class MarkerAppender:
    """Appends markers here."""

    def __init__(self, partitions: PartitionRegistry, groups: GroupCoordinator) -> None:
        self._partitions = partitions
        self._groups = groups

    def append(self, topic: str, index: int, marker: Marker) -> Outcome:
        """Append a marker to one partition."""
        try:
            if topic == CONSUMER_OFFSETS_TOPIC:
                return self._groups.end_transaction(index, marker)
            partition = self._partitions.get(topic, index)
            partition.check_in_sync()
            return partition.when_committed(partition.append_marker(marker).last_offset + 1)
        except (CoordinatorLoadInProgress, CoordinatorNotAvailable, NotCoordinator) as error:
            # Senders of markers expect the errors of partitions, and retry.
            return NotLeaderOrFollower(str(error))
        except KafkaError as error:
            return error
        except Exception as error:
            logger.error("Cannot append the transaction marker to %s-%d", topic, index, exc_info=error)
            return UnknownServerError("the broker failed; its log says why")

    def append_committed(self, marker: Marker, partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
        """Append a marker to those of the partitions that commit it at once; return which those were."""
        done = []
        for topic_partition in partitions:
            topic, index = topic_partition
            try:
                partition = self._partitions.get(topic, index)
                if not partition.commits_immediately:
                    continue
                if topic == CONSUMER_OFFSETS_TOPIC:
                    if self._groups.end_transaction(index, marker) is not None:
                        continue
                else:
                    partition.append_marker(marker)
            except Exception:
                continue  # it is sent again in the background, which reports what goes wrong
            done.append(topic_partition)
        return done

    async def append_all(self, markers: Sequence[tuple[Marker, TopicPartition]]) -> list[ErrorCode]:
        """Append markers, and return the result of each once they are committed."""
        outcomes: list[Outcome] = []
        for marker, (topic, index) in markers:
            outcomes.append(self.append(topic, index, marker))
            if len(outcomes) % MARKERS_PER_SLICE == 0:
                await asyncio.sleep(0)
        commits = [each for each in outcomes if isinstance(each, asyncio.Future)]
        if commits:
            try:
                await asyncio.wait(commits, timeout=COMMIT_TIMEOUT_S)
            except asyncio.CancelledError:
                for commit in commits:
                    _abandon(commit)
                raise
        return [_error_code(each) for each in outcomes]


def _abandon(commit: asyncio.Future[None]) -> None:
    """Stop waiting for a commit, and retrieve its error, which asyncio would log as unhandled."""
    if not commit.cancel() and not commit.cancelled():
        commit.exception()


def _error_code(outcome: Outcome) -> ErrorCode:
    if outcome is None:
        return ErrorCode.none
    if isinstance(outcome, KafkaError):
        return outcome.code
    if not outcome.done():
        outcome.cancel()
        return RequestTimedOut.code
    error = outcome.exception()
    if error is None:
        return ErrorCode.none
    return error.code if isinstance(error, KafkaError) else UnknownServerError.code
