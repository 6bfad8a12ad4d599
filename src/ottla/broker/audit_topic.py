"""Write the audit log to the topic `__audit`, in the background.

Lines wait in a bounded queue for one task, which appends them in batches: directly if this broker leads the
topic's partition, otherwise by a Produce request to the leader. While there is no leader it retries. If the
queue is full, lines are dropped and counted in the broker's log: a request never waits for the audit log. A
batch that is too large for the topic is divided.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from datetime import timedelta
from typing import TYPE_CHECKING, Any, cast

from kio.schema.produce.v11.request import PartitionProduceData, ProduceRequest, TopicProduceData

from ottla.common.tasks import cancel_and_wait
from ottla.common.topic_names import AUDIT_TOPIC
from ottla.controller.machine import NewTopic
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.errors import (
    KafkaError,
    MessageTooLarge,
    NotLeaderOrFollower,
    RecordListTooLarge,
    TopicAlreadyExists,
)
from ottla.protocol.records.batch import check_batch
from ottla.protocol.records.records import Record, encode_batch
from ottla.protocol.types import TopicName, i16, i32
from ottla.wire.errors import raise_for

if TYPE_CHECKING:
    from ottla.api.support.context import Services

log = logging.getLogger(__name__)

MAX_QUEUED = 10_000
LINES_PER_BATCH = 200
RETRY_S = 0.2
STOP_GRACE_S = 2.0
PRODUCE_VERSION = 11
TIMEOUT_MS = 10_000
CHANNEL = "audit"
RETENTION_MS = "2592000000"
"""30 days; a topic that exists keeps its own."""


class AuditTopic:
    """Appends lines to `__audit`."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._lines: deque[tuple[int, str]] = deque()
        self._wake = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()
        self._task: asyncio.Task[None] | None = None
        self._dropped = 0

    def start(self) -> None:
        """Start to write."""
        self._task = asyncio.create_task(self._run(), name="audit topic")

    async def stop(self) -> None:
        """Write what is queued, for a moment; then stop."""
        task, self._task = self._task, None
        if task is None:
            return
        try:
            async with asyncio.timeout(STOP_GRACE_S):
                await self._idle.wait()
        except TimeoutError:
            log.warning("%d lines of the audit log were not written to %s", len(self._lines), AUDIT_TOPIC)
        await cancel_and_wait(task)

    def write(self, line: str) -> None:
        """Queue a line."""
        if len(self._lines) >= MAX_QUEUED:
            if not self._dropped:
                log.error("%s takes no records: lines of the audit log are dropped", AUDIT_TOPIC)
            self._dropped += 1
            return
        self._lines.append((self._services.clock.wall_ms(), line))
        self._idle.clear()
        self._wake.set()

    async def _run(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            count = LINES_PER_BATCH
            while self._lines:
                part = [self._lines[index] for index in range(min(len(self._lines), count))]
                try:
                    await self._append(part)
                except (MessageTooLarge, RecordListTooLarge) as error:
                    await asyncio.sleep(0)
                    if len(part) > 1:
                        count = len(part) // 2
                        continue
                    log.error("a line of the audit log is too large for %s: %s", AUDIT_TOPIC, error)
                except KafkaError as error:
                    log.debug("cannot write to %s, retrying: %s", AUDIT_TOPIC, error)
                    await asyncio.sleep(RETRY_S)
                    continue
                count = min(2 * count, LINES_PER_BATCH)
                for _ in part:
                    self._lines.popleft()
                if self._dropped:
                    log.error("%d lines of the audit log were dropped", self._dropped)
                    self._dropped = 0
            self._idle.set()

    async def _append(self, lines: list[tuple[int, str]]) -> None:
        services = self._services
        if AUDIT_TOPIC not in services.cluster.image.topics:
            await self._create()
        known = services.cluster.image.partition(AUDIT_TOPIC, 0)
        if known is None or known.leader < 0:
            raise NotLeaderOrFollower(f"{AUDIT_TOPIC} has no leader")
        records = [Record(at, time_ms, None, line.encode()) for at, (time_ms, line) in enumerate(lines)]
        batch = encode_batch(records)
        if known.leader == services.node_id:
            partition = services.partitions.get(AUDIT_TOPIC, 0)
            partition.append(memoryview(batch), check_batch(memoryview(batch)))
            return
        if services.peers is None:
            raise NotLeaderOrFollower(f"{AUDIT_TOPIC} is led elsewhere")
        response = await services.peers.call(
            known.leader, ApiKey.PRODUCE, PRODUCE_VERSION, _request(bytes(batch)), channel=CHANNEL
        )
        raise_for(response.responses[0].partition_responses[0].error_code)

    async def _create(self) -> None:
        topic = NewTopic(AUDIT_TOPIC, 1, configs=(("retention.ms", RETENTION_MS),))
        (made,) = await self._services.controller.create_topics([topic])
        if isinstance(made, KafkaError) and not isinstance(made, TopicAlreadyExists):
            raise made


def _request(batch: bytes) -> ProduceRequest:
    data = PartitionProduceData(index=i32(0), records=cast("Any", batch))
    return ProduceRequest(
        transactional_id=None,
        acks=i16(-1),
        timeout=cast("Any", timedelta(milliseconds=TIMEOUT_MS)),
        topic_data=(TopicProduceData(name=TopicName(AUDIT_TOPIC), partition_data=(data,)),),
    )
