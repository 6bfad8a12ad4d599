"""Sends batches to the leaders of their partitions, and handles failures.

    BrokerSender   one per broker: sends requests, and reports the responses here
    Leaders        keeps the leaders of the partitions up to date
    expiry         batches that were not delivered within delivery_timeout_ms fail, with the reason

Everything happens on the producer's loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from kio.schema.errors import ErrorCode
from kio.schema.init_producer_id.v4 import InitProducerIdRequest, InitProducerIdResponse

from ottla.client.cluster import Cluster, TopicInfo, is_retriable
from ottla.client.errors import ClientError, error_for, raise_for
from ottla.client.producer.accumulator import Accumulator
from ottla.client.producer.batch import Batch, Identity
from ottla.client.producer.broker_sender import BrokerSender
from ottla.client.producer.leaders import Leaders
from ottla.client.producer.options import ProducerOptions
from ottla.client.producer.partition_queue import NO_LEADER, PartitionQueue
from ottla.client.producer.retry_decision import (
    RETRIABLE,
    STALE_METADATA,
    RetryDecision,
    broker_error,
    decide,
    delivery_timeout_error,
    may_be_stored,
)
from ottla.common.ids import TopicPartition
from ottla.protocol.errors import KafkaError
from ottla.protocol.hot_path import NodeEndpoint
from ottla.protocol.produce_client import LAST_VERSION, Results
from ottla.protocol.produce_codec import ProducePartitionResult
from ottla.wire.backoff import Backoff
from ottla.wire.connection import milliseconds


@dataclass(slots=True)
class SenderStats:
    """Counters of a producer."""

    requests: int = 0
    batches: int = 0
    records: int = 0
    """Acknowledged records (with acks=0: sent ones)."""
    failed_records: int = 0
    bytes: int = 0
    retries: int = 0
    last_error: Exception | None = None
    """The error of the last retry."""


# An idempotent producer without transactions has one producer id for all its partitions, and increments the
# epoch per partition by itself. A partition that has used up its epochs, after 32,767 failures, gets another
# producer id.

_UNUSED_TIMEOUT = milliseconds(60_000)


class Identities:
    """Requests producer ids (InitProducerId) when they are needed."""

    def __init__(self, cluster: Cluster, request_timeout_ms: int) -> None:
        self._cluster = cluster
        self._request_timeout_ms = request_timeout_ms
        self._current = Identity()
        self._asking = asyncio.Lock()

    async def other_than(self, used: Identity) -> Identity:
        """Return an identity with another producer id than this one."""
        async with self._asking:
            if self._current.producer_id in (Identity().producer_id, used.producer_id):
                self._current = await self._ask()
            return self._current

    async def _ask(self) -> Identity:
        request = InitProducerIdRequest(transactional_id=None, transaction_timeout=_UNUSED_TIMEOUT)
        connection = await self._cluster.any_broker()
        response = await connection.request(
            request, InitProducerIdResponse, timeout_ms=self._request_timeout_ms
        )
        raise_for(response.error_code, "InitProducerId failed")
        return Identity(response.producer_id, response.producer_epoch)


TICK_S = 0.5
"""How often to look for expired batches; more often with a short delivery timeout."""
NEXT_TRANSACTION = Backoff(10, 1_000)
"""The pauses while the coordinator still completes the previous transaction."""


class Sender:
    """The background tasks of a producer."""

    def __init__(
        self,
        cluster: Cluster,
        options: ProducerOptions,
        accumulator: Accumulator,
        *,
        on_settled: Callable[[Batch], None],
        on_topic: Callable[[TopicInfo], None],
    ) -> None:
        self.cluster = cluster
        self.options = options
        self.codec = options.codec
        self.newest_version = LAST_VERSION
        self.transactional_id = options.transactional_id
        self.stats = SenderStats()
        self.may_send: Callable[[TopicPartition], bool] = lambda partition: True
        """Whether a partition may be written to now: a transaction may have to add it first."""
        self.give_up: Exception | None = None
        """Why batches are not retried any more: the transaction has failed."""
        self._accumulator = accumulator
        self._on_settled = on_settled
        self._leaders = Leaders(
            cluster, accumulator, on_topic=on_topic, on_leader=self.notify, on_trouble=self._in_trouble
        )
        self._loop = asyncio.get_running_loop()
        self._is_stopped = False
        self._tasks: asyncio.TaskGroup | None = None
        self._running: list[asyncio.Task[None]] = []
        self._broker_senders: dict[int, BrokerSender] = {}
        self._identities = Identities(cluster, options.request_timeout_ms)

    def start(self, tasks: asyncio.TaskGroup) -> None:
        """Start the background tasks."""
        self._tasks = tasks
        self._running += [tasks.create_task(self._leaders.run()), tasks.create_task(self._expire())]

    def stop(self) -> None:
        """Cancel all tasks; responses that come now are ignored."""
        self._is_stopped = True
        for task in self._running:
            task.cancel()
        for sender in self._broker_senders.values():
            sender.stop()

    def notify(self, queue: PartitionQueue) -> None:
        """Wake the sender of a queue that has batches to send."""
        if queue.leader == NO_LEADER:
            self._leaders.ask_about(queue.partition.topic)
        elif not self._is_stopped:  # a task that starts now would not be cancelled
            self._broker_sender(queue.leader).wake()

    def notify_all(self) -> None:
        """Check every queue again."""
        for queue in self._accumulator.active():
            self.notify(queue)

    def send_now(self) -> None:
        """Send at once what needs no waiting: a caller waits for it."""
        for queue in self._accumulator.active():
            sender = self._broker_senders.get(queue.leader)
            if sender is None:
                self.notify(queue)
            elif not self._is_stopped:
                sender.send_now()

    # Called by BrokerSender before it sends.

    def has_work_for(self, node_id: int) -> bool:
        """Return whether there are batches for a broker."""
        return self._accumulator.has_any_for(node_id)

    def take(self, node_id: int) -> tuple[list[Batch], float | None]:
        """Take the batches of one request."""
        max_bytes = self.options.max_request_size
        batches, next_at = self._accumulator.take(node_id, self._loop.time(), max_bytes, self.may_send)
        if batches:
            stats, is_transactional = self.stats, self.transactional_id is not None
            stats.requests += 1
            for batch in batches:
                stats.retries += batch.attempts > 1
                batch.is_transactional = is_transactional
        return batches, next_at

    def needs_identities(self, node_id: int) -> bool:
        """Return whether batches wait for a producer id."""
        waiting = self._accumulator.waiting_for_identity(node_id, self._loop.time())
        return bool(waiting) and self.transactional_id is None

    async def provide_identities(self, node_id: int) -> None:
        """Provide a producer id to the queues that need one."""
        if self.transactional_id is not None:
            return  # a transaction provides it
        for queue in self._accumulator.waiting_for_identity(node_id, self._loop.time()):
            queue.start_over(await self._identities.other_than(queue.identity))

    # Called by BrokerSender with the outcome.

    def cannot_send(self, node_id: int, error: KafkaError | ClientError) -> None:
        """Refresh the leaders of the partitions of a broker that cannot be reached."""
        for queue in self._accumulator.active():
            if queue.leader == node_id:
                self._leaders.ask_about(queue.partition.topic)
                self._in_trouble(queue, error)

    def sent_without_answer(self, batches: Iterable[Batch]) -> None:
        """Complete batches that get no response (acks=0)."""
        for batch in batches:
            self._queue(batch).in_flight.remove(batch)
            self._settle(batch)

    def request_failed(
        self, batches: Iterable[Batch], error: KafkaError | ClientError, *, may_be_stored: bool
    ) -> None:
        """Retry batches whose request failed as a whole."""
        for batch in batches:
            queue = self._queue(batch)
            queue.in_flight.remove(batch)
            queue.trouble = error
            batch.may_be_stored |= may_be_stored
            self._leaders.ask_about(batch.partition.topic)
            if is_retriable(error, RETRIABLE):
                self._again(queue, batch, error)
            else:
                self._fail(queue, batch, error)

    def answered(self, batches: Iterable[Batch], results: Results, endpoints: list[NodeEndpoint]) -> None:
        """Complete or retry batches according to the response."""
        for batch in batches:
            queue = self._queue(batch)
            queue.in_flight.remove(batch)
            result = results.get(batch.partition)
            if result is None:
                self._fail(queue, batch, error_for(-1, f"the broker's answer leaves out {batch.partition}"))
            else:
                self._apply(queue, batch, result, endpoints)

    def _apply(
        self,
        queue: PartitionQueue,
        batch: Batch,
        result: ProducePartitionResult,
        endpoints: list[NodeEndpoint],
    ) -> None:
        decision = decide(result.error_code, batch, queue)
        if decision is RetryDecision.STORED:
            queue.trouble = None
            queue.is_known = True
            self._settle(batch, result)
            return
        error = broker_error(batch.partition, result.error_code, result.error_message)
        error.record_errors = result.record_errors
        if result.error_code in STALE_METADATA:
            self._leaders.follow(batch.partition, result.current_leader, endpoints)
        if decision is RetryDecision.FAILED or batch.is_settled:
            self._fail(queue, batch, error)
        elif decision is RetryDecision.AGAIN:
            batch.may_be_stored = may_be_stored(result.error_code, batch)
            self._again(queue, batch, error)
        elif decision is RetryDecision.NEW_EPOCH:
            batch.may_be_stored = False
            queue.has_gap = True
            self._again(queue, batch, error)
        elif decision is RetryDecision.IN_PARTS:
            self._accumulator.put_back(queue, *batch.split())
            self.notify(queue)

    def _again(self, queue: PartitionQueue, batch: Batch, error: KafkaError | ClientError) -> None:
        batch.last_error = self.stats.last_error = error
        if self.give_up is not None or batch.is_settled or batch.attempts > self.options.retries:
            self._fail(queue, batch, self.give_up or error)
            return
        is_next = isinstance(error, KafkaError) and error.code == ErrorCode.concurrent_transactions
        backoff = NEXT_TRANSACTION if is_next else self.cluster.backoff
        batch.retry_at = self._loop.time() + backoff.pause_ms(batch.attempts) / 1000
        self._accumulator.put_back(queue, batch)
        self.notify(queue)

    def _in_trouble(self, queue: PartitionQueue, error: KafkaError | ClientError) -> None:
        """Record why a queue cannot be sent; fail its batches if the error is permanent."""
        queue.trouble = self.stats.last_error = error
        if not is_retriable(error, RETRIABLE):
            self.fail_unsent(queue, error)

    def fail_unsent(self, queue: PartitionQueue, error: Exception) -> None:
        """Fail all batches of a queue."""
        for batch in self._accumulator.drop_unsent(queue):
            self._fail(queue, batch, error)

    def _fail(self, queue: PartitionQueue, batch: Batch, error: Exception) -> None:
        queue.lose(batch)
        if not batch.is_settled:
            batch.settle(error=error)
            self._finish(batch)
        if queue.unsent:
            self.notify(queue)

    def _settle(self, batch: Batch, result: ProducePartitionResult | None = None) -> None:
        if batch.is_settled:
            return  # it has expired meanwhile
        self.stats.batches += 1
        self.stats.bytes += 0 if batch.encoded is None else len(batch.encoded)
        if result is None:
            batch.settle()
        else:
            batch.settle(base_offset=result.base_offset, log_append_time_ms=result.log_append_time_ms)
        self._finish(batch)

    def _finish(self, batch: Batch) -> None:
        if batch.error is None:
            self.stats.records += batch.count
        else:
            self.stats.failed_records += batch.count
        whole = batch
        while whole.parent is not None:
            whole = whole.parent
        if whole.is_settled:
            self._accumulator.settle(whole)
            self._on_settled(whole)

    def _queue(self, batch: Batch) -> PartitionQueue:
        return self._accumulator.queues[batch.partition]

    def _broker_sender(self, node_id: int) -> BrokerSender:
        sender = self._broker_senders.get(node_id)
        if sender is None:
            assert self._tasks is not None
            sender = self._broker_senders[node_id] = BrokerSender(node_id, self)
            self._running.append(self._tasks.create_task(sender.run()))
        return sender

    async def _expire(self) -> None:
        timeout_s = self.options.delivery_timeout_ms / 1000
        while True:
            await asyncio.sleep(min(TICK_S, timeout_s / 10))
            for queue, batch in self._accumulator.expire(self._loop.time() - timeout_s):
                self._fail(
                    queue, batch, delivery_timeout_error(queue, batch, self.options.delivery_timeout_ms)
                )
            self._leaders.ask_about_old()

    # Called by transactions.

    def begin_with(self, partition: TopicPartition, identity: Identity) -> None:
        """Start the sequence numbers of a partition at 0 with this identity, unless that is done."""
        queue = self._accumulator.queues[partition]
        if queue.identity != identity:
            queue.start_over(identity)

    def begin_all_with(self, identity: Identity) -> None:
        """Number the batches of all partitions with this identity."""
        for partition in list(self._accumulator.queues):
            self.begin_with(partition, identity)

    def has_gaps(self) -> bool:
        """Return whether a partition has a gap in its sequence numbers."""
        return any(queue.has_gap for queue in self._accumulator.queues.values())

    def drop_everything(self, error: Exception) -> None:
        """Fail all batches that wait, and do not retry those in flight."""
        self.give_up = error
        for queue in self._accumulator.active():
            self.fail_unsent(queue, error)
