"""Prefetches records: one Fetch in flight to each broker, as long as there is buffer space.

Each request chooses where to read a partition: at its leader, or at the replica that the leader recommends
(KIP-392). The next request is sent as soon as a response is in: fetched records are bounded in bytes
(prefetch_max_bytes), not in requests.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import NamedTuple
from uuid import UUID

from kio.schema.errors import ErrorCode

from ottla.client.cluster import Cluster, is_retriable
from ottla.client.consumer.assignment import Assignment
from ottla.client.consumer.dedicated_connections import DedicatedConnections
from ottla.client.consumer.fetching.leaders import PASSING, Leaders
from ottla.client.consumer.fetching.partition_state import UNKNOWN, Chunk, PartitionState
from ottla.client.consumer.options import ConsumerOptions
from ottla.client.consumer.waiting import wait_for
from ottla.client.errors import ClientClosed, ClientError, error_for
from ottla.common.ids import TopicPartition
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.errors import CorruptMessage, KafkaError, OffsetOutOfRange
from ottla.protocol.fetch_client import (
    Fetched,
    FetchPartitionRequest,
    FetchReply,
    FetchSettings,
    Topic,
    encode_fetch_request,
)
from ottla.protocol.hot_path import NodeEndpoint
from ottla.protocol.records.batch import iter_batches
from ottla.wire.calls import decode_fetch, fetch_version
from ottla.wire.connection import Response
from ottla.wire.fetch_session import FetchPosition, FetchSession

log = logging.getLogger(__name__)


class Sent(NamedTuple):
    """The state of a partition when its request was sent."""

    state: PartitionState
    version: int
    offset: int


class FetchAnswers:
    """Adds fetched batches and errors to the partitions."""

    def __init__(
        self, cluster: Cluster, assignment: Assignment, leaders: Leaders, options: ConsumerOptions
    ) -> None:
        self._cluster = cluster
        self._assignment = assignment
        self._leaders = leaders
        self._preferred_for_s = options.metadata_max_age_ms / 1000

    def process(
        self,
        node_id: int,
        reply: FetchReply,
        sent: Mapping[TopicPartition, Sent],
        names: Mapping[UUID | None, str],
        now: float,
    ) -> bool:
        """Process a response; return whether it was empty."""
        is_quiet = True
        for name, topic_id, partitions in reply.topics:
            topic = names.get(topic_id) if name is None else name
            for fetched in partitions:
                asked = sent.get(TopicPartition(topic or "", fetched.partition))
                if asked is None or self._is_stale(asked):
                    continue
                if fetched.error_code:
                    self._on_error(node_id, asked, fetched, reply.endpoints, now)
                    is_quiet = False
                elif self._accept(asked, fetched, now):
                    is_quiet = False
        return is_quiet

    def _is_stale(self, asked: Sent) -> bool:
        state = asked.state
        return state.version != asked.version or self._assignment.states.get(state.partition) is not state

    def _accept(self, asked: Sent, fetched: Fetched, now: float) -> bool:
        """Process the response of one partition; return whether it had records or a recommendation."""
        state = asked.state
        state.failures = 0
        state.high_watermark = fetched.high_watermark
        state.last_stable_offset = fetched.last_stable_offset
        state.log_start_offset = fetched.log_start_offset
        if fetched.preferred_replica != UNKNOWN and fetched.preferred_replica != state.preferred_replica:
            state.preferred_replica = fetched.preferred_replica
            state.preferred_until = now + self._preferred_for_s
            if not fetched.records:
                return True
        if not fetched.records:
            return False
        with self._assignment.lock:
            try:
                batches = list(iter_batches(fetched.records))
                if not batches:
                    raise CorruptMessage(f"{len(fetched.records)} bytes hold no whole batch")
            except KafkaError as error:
                state.fail(type(error)(f"{state.partition} at offset {asked.offset}: {error}"))
            else:
                last = batches[-1][0]
                size = len(fetched.records)
                state.add(
                    Chunk(
                        batches, fetched.aborted, max(last.next_offset, asked.offset), last.leader_epoch, size
                    )
                )
        self._assignment.enqueue_ready(state)
        return True

    def _on_error(
        self, node_id: int, asked: Sent, fetched: Fetched, endpoints: list[NodeEndpoint], now: float
    ) -> None:
        state, code = asked.state, fetched.error_code
        partition = state.partition
        if state.preferred_replica == node_id:
            state.preferred_replica = UNKNOWN  # ask the leader instead
            if code == ErrorCode.offset_out_of_range:
                return
        if code == ErrorCode.offset_out_of_range:
            self._fail(state, OffsetOutOfRange(f"{partition} has no offset {asked.offset}"))
            return
        leader = fetched.current_leader
        if leader is not None and self._cluster.metadata.learn_leader(partition, leader, endpoints):
            return
        state.failures += 1
        state.retry_at = now + self._cluster.backoff.pause_ms(state.failures) / 1000
        if code in PASSING:
            log.info("%s: fetching again after %s", partition, ErrorCode(code).name)
            self._leaders.mark_stale(partition.topic)
        else:
            self._fail(state, error_for(code, str(partition)))

    def _fail(self, state: PartitionState, error: KafkaError) -> None:
        with self._assignment.lock:
            state.fail(error)
        self._assignment.enqueue_ready(state)


LOST_SESSION = frozenset(
    {
        ErrorCode.fetch_session_id_not_found,
        ErrorCode.invalid_fetch_session_epoch,
        ErrorCode.fetch_session_topic_id_error,
    }
)
LOG_AGAIN_S = 30.0
MAX_PAUSE_S = 1.0
MIN_EMPTY_FETCH_S = 0.005
"""After an empty response that came faster than this, pause before the next request."""


class Fetcher:
    """Fetches for the assigned partitions."""

    def __init__(
        self,
        cluster: Cluster,
        options: ConsumerOptions,
        assignment: Assignment,
        leaders: Leaders,
        *,
        on_problem: Callable[[Exception], None],
    ) -> None:
        self.is_out_of_space = False
        """Whether to wake the fetcher when records are taken: it stopped for lack of buffer space."""
        self._cluster = cluster
        self._options = options
        self._assignment = assignment
        self._leaders = leaders
        self._answers = FetchAnswers(cluster, assignment, leaders, options)
        self._on_problem = on_problem
        self._loop = asyncio.get_running_loop()
        self._wake = asyncio.Event()
        self._sessions: dict[int, FetchSession[TopicPartition]] = {}
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._failures: dict[int, int] = {}
        self._last_logged, self._log_again_at = "", 0.0
        """The last warning, and when to repeat it if it persists."""
        self._connections = DedicatedConnections(cluster)
        self._settings = FetchSettings(
            options.fetch_max_wait_ms,
            options.fetch_min_bytes,
            options.fetch_max_bytes,
            int(options.reads_committed),
            options.client_rack,
        )

    def wake(self) -> None:
        """Check again which partitions can be fetched."""
        self._wake.set()

    async def run(self) -> None:
        """Fetch until cancelled."""
        try:
            while True:
                self._wake.clear()
                pause_s = await self._start_fetches()
                await wait_for(self._wake, pause_s)
        finally:
            tasks = list(self._tasks.values())
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await self._connections.close()

    async def _start_fetches(self) -> float:
        """Start to fetch from idle brokers; return the time until the next check."""
        if self._leaders.stale:
            try:
                await self._leaders.refresh()
            except (ClientError, KafkaError) as error:
                self._report(error)
        nodes: set[int] = set()
        now = self._loop.time()
        pause_s = MAX_PAUSE_S
        for state in self._assignment:
            if not state.can_fetch:
                continue
            if state.retry_at > now:
                pause_s = min(pause_s, state.retry_at - now)
                continue
            node_id = self._leaders.node_for(state, now)
            if node_id is not None:
                nodes.add(node_id)
        self.is_out_of_space = True  # before the check, so that records taken meanwhile wake the fetcher
        has_waiting = False
        for node_id in nodes - self._tasks.keys():
            if self._free_bytes(len(nodes)) > 0:
                self._tasks[node_id] = self._loop.create_task(
                    self._fetch_from(node_id), name=f"ottla fetch from broker {node_id}"
                )
            else:
                has_waiting = True
        self.is_out_of_space = has_waiting
        if self._leaders.stale:
            pause_s = min(pause_s, self._leaders.pause_s(now))
        return max(pause_s, 0.001)

    def _free_bytes(self, nodes: int) -> int:
        """Return how many bytes each of some brokers may send; 0 if the buffer is full."""
        options = self._options
        room = options.prefetch_max_bytes - self._assignment.fetched_bytes
        if room <= 0:
            for state in self._assignment:
                if state.is_paused and state.fetched_bytes:  # they can be fetched again
                    room += state.fetched_bytes
                    with self._assignment.lock:
                        state.drop_fetched()
        if room <= 0 and self._assignment.fetched_bytes:
            return 0
        return min(options.fetch_max_bytes, max(room // max(nodes, 1), options.max_partition_fetch_bytes))

    async def _fetch_from(self, node_id: int) -> None:
        """Fetch from one broker as long as there are partitions to fetch and buffer space."""
        session = self._sessions.setdefault(node_id, FetchSession[TopicPartition]())
        wanted: dict[TopicPartition, FetchPosition] = {}
        try:
            while True:
                wanted, sent = self._plan(node_id)
                room = self._free_bytes(len(self._tasks))
                if not wanted or room <= 0:
                    return
                await self._fetch(node_id, session, wanted, sent, room)
                self._failures.pop(node_id, None)
        except (ClientError, KafkaError) as error:
            session.reset()
            self._back_off(node_id, wanted)
            self._report(error)
        except Exception as error:
            log.exception("fetching from broker %d failed", node_id)
            self._on_problem(error)
        finally:
            del self._tasks[node_id]
            self.wake()

    def _plan(self, node_id: int) -> tuple[dict[TopicPartition, FetchPosition], dict[TopicPartition, Sent]]:
        now = self._loop.time()
        most = self._options.max_partition_fetch_bytes
        wanted: dict[TopicPartition, FetchPosition] = {}
        sent: dict[TopicPartition, Sent] = {}
        for state in self._assignment:
            if not state.can_fetch or state.retry_at > now or self._leaders.node_for(state, now) != node_id:
                continue
            partition = state.partition
            request = FetchPartitionRequest(state.fetch_offset, state.seen_epoch, most)
            topic = Topic(partition.topic, state.topic_id)
            wanted[partition] = FetchPosition(topic, partition.partition, request)
            sent[partition] = Sent(state, state.version, state.fetch_offset)
        return wanted, sent

    async def _fetch(
        self,
        node_id: int,
        session: FetchSession[TopicPartition],
        wanted: dict[TopicPartition, FetchPosition],
        sent: dict[TopicPartition, Sent],
        max_bytes: int,
    ) -> None:
        connection = self._connections.open_to(node_id) or await self._connections.to(node_id)
        version = fetch_version(connection, [each.topic for each in wanted.values()])
        options = self._options
        if max_bytes != self._settings.max_bytes:
            self._settings = self._settings._replace(max_bytes=max_bytes)
        body = encode_fetch_request(version, self._settings, *session.prepare(wanted, version))
        if not connection.is_ready:
            await connection.ready()
        began = self._loop.time()
        processed: asyncio.Future[bool] = self._loop.create_future()

        def on_response(answer: Response | None, error: ClientError | None) -> None:
            """Absorb the records while the response is being received."""
            if processed.done():
                return  # the consumer was stopped
            try:
                if answer is None:
                    raise error or ClientClosed("no response will come")
                reply = decode_fetch(connection, answer, version)
                processed.set_result(
                    self._is_success(reply, session) and self._is_quiet(node_id, reply, wanted, sent)
                )
            except Exception as problem:
                processed.set_exception(problem)

        timeout_ms = options.request_timeout_ms + options.fetch_max_wait_ms
        connection.send_callback(ApiKey.FETCH, version, (body,), timeout_ms, on_response)
        if not await processed:
            await asyncio.sleep(0)  # let the application's own requests go first
        elif self._loop.time() - began < min(MIN_EMPTY_FETCH_S, options.fetch_max_wait_ms / 1000):
            await asyncio.sleep(MIN_EMPTY_FETCH_S)

    def _is_quiet(
        self,
        node_id: int,
        reply: FetchReply,
        wanted: dict[TopicPartition, FetchPosition],
        sent: dict[TopicPartition, Sent],
    ) -> bool:
        """Process a response; return whether it was empty."""
        names = {each.topic.topic_id: each.topic.name for each in wanted.values()}
        return self._answers.process(node_id, reply, sent, names, self._loop.time())

    def _is_success(self, reply: FetchReply, session: FetchSession[TopicPartition]) -> bool:
        if reply.error_code:
            session.reset()
            if reply.error_code in LOST_SESSION:
                return False
            raise error_for(reply.error_code, "fetch")
        session.succeeded(reply.session_id)
        return True

    def _back_off(self, node_id: int, wanted: dict[TopicPartition, FetchPosition]) -> None:
        """Refresh the leaders of the partitions, and pause before the next request to this broker."""
        self._failures[node_id] = failures = self._failures.get(node_id, 0) + 1
        until = self._loop.time() + self._cluster.backoff.pause_ms(failures) / 1000
        for partition in wanted:
            self._leaders.mark_stale(partition.topic)
            state = self._assignment.states.get(partition)
            if state is not None:
                state.retry_at = until
                if state.preferred_replica == node_id:
                    state.preferred_replica = -1

    def _report(self, error: ClientError | KafkaError) -> None:
        """Log a retriable error; raise any other from the next call of the application."""
        if isinstance(error, ClientClosed):
            return
        if is_retriable(error) or isinstance(error, KafkaError):
            said, now = str(error), self._loop.time()
            is_new = said != self._last_logged or now >= self._log_again_at
            log.log(logging.WARNING if is_new else logging.DEBUG, "cannot fetch, retrying: %s", error)
            if is_new:
                self._last_logged, self._log_again_at = said, now + LOG_AGAIN_S
        else:
            self._on_problem(error)
