"""Writes the markers of decided transactions: to the leaders of their partitions, until all have them.

A decision is committed before the first marker leaves, so there is no way back and no giving up: a
partition whose leader cannot be reached, or has none, is tried again for as long as this broker
coordinates the transaction. After a failover the next coordinator writes all markers again; a second
one in a partition changes nothing. A partition that has been deleted needs none.

One refusal cannot pass: INVALID_PRODUCER_EPOCH, from a partition that has seen a higher epoch of the producer
than the coordinator knows. Then the end of `__transaction_state` was lost when all its replicas lost power
(decision 90). Such a partition gets an abort marker in the last epoch instead, which ends whatever is open
there, and the producer id is used no more. Every other refusal can pass, perhaps only when an operator has
acted: the log names the partitions and the errors.

`done` is called when all are written. If that is at once, because every partition is led from here and has
no other replica, it takes no task. Otherwise it is one per transaction: there are never more of them than
transactional ids whose clients wait.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Iterable
from typing import Any, Protocol

from kio.schema.errors import ErrorCode
from kio.schema.write_txn_markers.v2.request import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)

from ottla.common.ids import TopicPartition
from ottla.coordinator.marker_appender import MarkerAppender
from ottla.coordinator.transaction.requests import WriteMarkers
from ottla.coordinator.transaction.transaction import LAST_EPOCH, Producer
from ottla.metadata.state import ClusterState
from ottla.protocol.errors import KafkaError
from ottla.protocol.records.control import Marker
from ottla.protocol.types import ProducerId, TopicName, i8, i16, i32

logger = logging.getLogger(__name__)

CHANNEL = "transaction markers"
"""A connection of their own: the response comes with the commit, which may take as long as a failover."""
RETRY_MIN_S = 0.02
RETRY_MAX_S = 1.0
MAX_IMMEDIATE = 20
"""The largest transaction whose markers are written in one iteration of the event loop."""
ATTEMPTS_PER_WARNING = 5
"""After how many attempts a warning is logged."""

Done = Callable[[WriteMarkers], None]
Key = tuple[int, str]
"""The partition of `__transaction_state`, and the transactional id."""
Problems = dict[TopicPartition, ErrorCode]
"""Why partitions have no marker yet."""
MAX_NAMED = 5
"""How many partitions a log line names."""


class BrokerRequests(Protocol):
    """Requests to other brokers."""

    async def call(self, node_id: int, api_key: int, version: int, request: Any, *, channel: str) -> Any:
        """Return the response to a request of one of kio's classes; raise KafkaError or OSError."""
        ...


class MarkerWriter:
    """Writes the markers of decided transactions, and knows which partitions lack theirs."""

    def __init__(
        self, node_id: int, cluster: ClusterState, appender: MarkerAppender, brokers: BrokerRequests
    ) -> None:
        self._node_id = node_id
        self._cluster = cluster
        self._appender = appender
        self._brokers = brokers
        self._tasks: dict[Key, asyncio.Task[None]] = {}
        self._missing: dict[Key, set[TopicPartition]] = {}

    def begin(self, shard: int, coordinator_epoch: int, markers: WriteMarkers, done: Done) -> None:
        """Write the markers of a transaction: at once if that is possible, else in the background."""
        key = shard, markers.transactional_id
        writing = self._tasks.get(key)
        if writing is not None:
            writing.cancel()
        missing = set(markers.partitions)
        if len(missing) <= MAX_IMMEDIATE and self._is_done_here(missing, coordinator_epoch, markers, done):
            return
        self._missing[key] = missing
        task = asyncio.get_running_loop().create_task(
            self._write(key, coordinator_epoch, markers, done), name=f"markers of {markers.transactional_id}"
        )
        self._tasks[key] = task
        task.add_done_callback(lambda done: self._forget(key, done))

    def missing(self, shard: int, transactional_id: str) -> frozenset[TopicPartition] | None:
        """Return which partitions have no marker yet; None if no markers of this id are being written."""
        missing = self._missing.get((shard, transactional_id))
        return None if missing is None else frozenset(missing)

    def cancel(self, shard: int) -> None:
        """Stop: another broker coordinates these transactions now."""
        for key, task in self._tasks.items():
            if key[0] == shard:
                task.cancel()

    async def stop(self) -> None:
        """Stop all; the next start writes them again."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _forget(self, key: Key, task: asyncio.Task[None]) -> None:
        if self._tasks.get(key) is task:
            del self._tasks[key]
            del self._missing[key]
        if not task.cancelled() and task.exception() is not None:
            logger.error("Cannot write the markers of %s", key[1], exc_info=task.exception())

    def _is_done_here(
        self, missing: set[TopicPartition], coordinator_epoch: int, markers: WriteMarkers, done: Done
    ) -> bool:
        """Write what can be written at once, and take it out of `missing`; return whether that was all."""
        marker = Marker(*markers.producer, markers.is_commit, coordinator_epoch, markers.version)
        missing.difference_update(self._appender.append_committed(marker, missing))
        if missing:
            return False
        try:
            done(markers)
        except KafkaError:
            return False  # it is tried again, in the background
        return True

    async def _write(self, key: Key, coordinator_epoch: int, markers: WriteMarkers, done: Done) -> None:
        missing = self._missing[key]
        pause_s, attempts = RETRY_MIN_S, 0
        while True:
            problems = await self._send_to_leaders(missing, coordinator_epoch, markers)
            ahead = {at for at, code in problems.items() if code is ErrorCode.invalid_producer_epoch}
            if ahead:
                if not markers.retires_producer_id:
                    _log_lost_state(markers, ahead)
                    markers = markers._replace(retires_producer_id=True)
                problems |= await self._fence(ahead, missing, coordinator_epoch, markers)
            if ErrorCode.transaction_coordinator_fenced in problems.values():
                logger.info("%s has another coordinator now, which writes its markers", key[1])
                return
            if not missing:
                try:
                    done(markers)
                    return
                except KafkaError as error:
                    logger.info("Cannot complete the transaction of %s yet, retrying: %r", key[1], error)
            attempts += 1
            if attempts % ATTEMPTS_PER_WARNING == 0:
                _log_missing(key[1], missing, problems)
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, RETRY_MAX_S)

    async def _fence(
        self,
        ahead: set[TopicPartition],
        missing: set[TopicPartition],
        coordinator_epoch: int,
        markers: WriteMarkers,
    ) -> Problems:
        """End what is open in partitions that are ahead of the coordinator; take out of `missing` what is."""
        # No producer is ever given the last epoch, so no partition is ahead of it.
        fencing = Producer(markers.producer.producer_id, LAST_EPOCH)
        left = set(ahead)
        fence = markers._replace(producer=fencing, is_commit=False, version=0)
        problems = await self._send_to_leaders(left, coordinator_epoch, fence)
        missing -= ahead - left
        return problems

    async def _send_to_leaders(
        self, missing: set[TopicPartition], coordinator_epoch: int, markers: WriteMarkers
    ) -> Problems:
        """Send markers to all leaders; take out of `missing` what is done; return what went wrong."""
        by_leader: dict[int, list[TopicPartition]] = {}
        for each in sorted(missing):
            found = self._cluster.image.partition(each.topic, each.partition)
            if found is None:
                missing.discard(each)  # deleted
            elif found.leader >= 0:
                by_leader.setdefault(found.leader, []).append(each)
        attempts = [
            self._send(node_id, coordinator_epoch, markers, partitions, missing)
            for node_id, partitions in by_leader.items()
        ]
        if len(attempts) == 1:
            return await attempts[0]
        return {at: code for each in await asyncio.gather(*attempts) for at, code in each.items()}

    async def _send(
        self,
        node_id: int,
        coordinator_epoch: int,
        markers: WriteMarkers,
        partitions: list[TopicPartition],
        missing: set[TopicPartition],
    ) -> Problems:
        try:
            results = await self._deliver(node_id, coordinator_epoch, markers, partitions)
        except KafkaError as error:
            return dict.fromkeys(partitions, error.code)
        except OSError:
            return dict.fromkeys(partitions, ErrorCode.network_exception)
        except Exception:
            logger.exception("Cannot send markers to broker %d", node_id)
            return dict.fromkeys(partitions, ErrorCode.unknown_server_error)
        missing.difference_update(each for each, code in results.items() if code == ErrorCode.none)
        return {each: code for each, code in results.items() if code != ErrorCode.none}

    async def _deliver(
        self,
        node_id: int,
        coordinator_epoch: int,
        markers: WriteMarkers,
        partitions: list[TopicPartition],
    ) -> dict[TopicPartition, ErrorCode]:
        """Have markers appended by the leader, this broker or another one; return the result for each."""
        if node_id == self._node_id:
            marker = Marker(*markers.producer, markers.is_commit, coordinator_epoch, markers.version)
            codes = await self._appender.append_all([(marker, each) for each in partitions])
            return dict(zip(partitions, codes, strict=True))
        request = _request(coordinator_epoch, markers, partitions)
        version = WriteTxnMarkersRequest.__version__
        response = await self._brokers.call(
            node_id, WriteTxnMarkersRequest.__api_key__, version, request, channel=CHANNEL
        )
        return {
            TopicPartition(topic.name, each.partition_index): each.error_code
            for marker in response.markers
            for topic in marker.topics
            for each in topic.partitions
        }


def _log_lost_state(markers: WriteMarkers, ahead: Collection[TopicPartition]) -> None:
    logger.error(
        "%s: %s have seen a higher epoch than %s: the coordinator has lost the end of its log. What is open "
        "there is aborted, and the next producer gets a new producer id. See `ottla txn hanging`",
        markers.transactional_id,
        _some(ahead),
        markers.producer,
    )


def _log_missing(transactional_id: str, missing: Collection[TopicPartition], problems: Problems) -> None:
    names = ", ".join(sorted({each.name for each in problems.values()})) or "no leader"
    logger.warning(
        "%s: %d markers are not written yet, retrying (%s): %s",
        transactional_id,
        len(missing),
        _some(missing),
        names,
    )


def _some(partitions: Collection[TopicPartition]) -> str:
    names = sorted(map(str, partitions))
    return ", ".join(names[:MAX_NAMED]) + (", ..." if len(names) > MAX_NAMED else "")


def _request(
    coordinator_epoch: int, markers: WriteMarkers, partitions: Iterable[TopicPartition]
) -> WriteTxnMarkersRequest:
    topics: dict[str, list[i32]] = {}
    for topic, index in partitions:
        topics.setdefault(topic, []).append(i32(index))
    marker = WritableTxnMarker(
        producer_id=ProducerId(markers.producer.producer_id),
        producer_epoch=i16(markers.producer.epoch),
        transaction_result=markers.is_commit,
        topics=tuple(
            WritableTxnMarkerTopic(name=TopicName(name), partition_indexes=tuple(indexes))
            for name, indexes in topics.items()
        ),
        coordinator_epoch=i32(coordinator_epoch),
        transaction_version=i8(markers.version),
    )
    return WriteTxnMarkersRequest(markers=(marker,))
