"""Fetches ahead of the application: one request under way to each broker, while there is room.

Where a partition is read is decided anew for every request: from its leader, or from the replica that the
leader recommends (KIP-392). The next request goes out as soon as an answer is in, from behind what it
brought: what waits to be handed out is bounded in bytes, not in requests.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import NamedTuple
from uuid import UUID

from kio.schema.errors import ErrorCode

from ottla.client.cluster import Cluster, passes
from ottla.client.consumer.assignment import Assignment
from ottla.client.consumer.dedicated_connections import DedicatedConnections
from ottla.client.consumer.fetching.leaders import PASSING, Leaders
from ottla.client.consumer.fetching.partition_state import UNKNOWN, Chunk, PartitionState
from ottla.client.consumer.options import ConsumerOptions
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

# What the answer to a fetch means for the partitions it was for.

log = logging.getLogger(__name__)


class Sent(NamedTuple):
    """A partition as it was when a request was sent for it."""

    state: PartitionState
    version: int
    offset: int


class FetchAnswers:
    """Takes over what brokers send."""

    def __init__(
        self, cluster: Cluster, assignment: Assignment, leaders: Leaders, options: ConsumerOptions
    ) -> None:
        self._cluster = cluster
        self._assignment = assignment
        self._leaders = leaders
        self._preferred_for_s = options.metadata_max_age_ms / 1000

    def absorb(
        self,
        node_id: int,
        reply: FetchReply,
        sent: Mapping[TopicPartition, Sent],
        names: Mapping[UUID | None, str],
        now: float,
    ) -> bool:
        """Take over a reply; return whether it had no news at all."""
        is_quiet = True
        for name, topic_id, partitions in reply.topics:
            topic = names.get(topic_id) if name is None else name
            for fetched in partitions:
                asked = sent.get(TopicPartition(topic or "", fetched.partition))
                if asked is None or self._is_stale(asked):
                    continue
                if fetched.error_code:
                    self._refused(node_id, asked, fetched, reply.endpoints, now)
                    is_quiet = False
                elif self._accept(asked, fetched, now):
                    is_quiet = False
        return is_quiet

    def _is_stale(self, asked: Sent) -> bool:
        state = asked.state
        return state.version != asked.version or self._assignment.states.get(state.partition) is not state

    def _accept(self, asked: Sent, fetched: Fetched, now: float) -> bool:
        """Take over what came for one partition; return whether there was something."""
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
        self._assignment.line_up(state)
        return True

    def _refused(
        self, node_id: int, asked: Sent, fetched: Fetched, endpoints: list[NodeEndpoint], now: float
    ) -> None:
        state, code = asked.state, fetched.error_code
        partition = state.partition
        if state.preferred_replica == node_id:
            state.preferred_replica = UNKNOWN  # the leader knows better
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
            log.info("%s is asked for again: %s", partition, ErrorCode(code).name)
            self._leaders.doubt(partition.topic)
        else:
            self._fail(state, error_for(code, str(partition)))

    def _fail(self, state: PartitionState, error: KafkaError) -> None:
        with self._assignment.lock:
            state.fail(error)
        self._assignment.line_up(state)


LOST_SESSION = frozenset(
    {
        ErrorCode.fetch_session_id_not_found,
        ErrorCode.invalid_fetch_session_epoch,
        ErrorCode.fetch_session_topic_id_error,
    }
)
SAY_AGAIN_S = 30.0
LONGEST_REST_S = 1.0
HURRIED_S = 0.005
"""A broker that has nothing and says so faster than this is not asked again at once."""


class Fetcher:
    """Keeps the assignment's partitions filled."""

    def __init__(
        self,
        cluster: Cluster,
        options: ConsumerOptions,
        assignment: Assignment,
        leaders: Leaders,
        *,
        on_problem: Callable[[Exception], None],
    ) -> None:
        self.is_short_of_room = False
        """Whether it has to be woken when something was taken, because it could not fetch more."""
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
        self._said, self._say_again_at = "", 0.0
        """What was last written down, and when to write it down again if it stays so."""
        self._lines = DedicatedConnections(cluster)
        self._settings = FetchSettings(
            options.fetch_max_wait_ms,
            options.fetch_min_bytes,
            options.fetch_max_bytes,
            int(options.reads_committed),
            options.client_rack,
        )

    def wake(self) -> None:
        """Look again at what can be fetched."""
        self._wake.set()

    async def run(self) -> None:
        """Fetch until cancelled."""
        try:
            while True:
                self._wake.clear()
                rest_s = await self._start_what_can_be()
                try:
                    async with asyncio.timeout(rest_s):
                        await self._wake.wait()
                except TimeoutError:
                    pass
        finally:
            tasks = list(self._tasks.values())
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await self._lines.close()

    async def _start_what_can_be(self) -> float:
        """Begin to fetch from brokers that are idle; return for how long there is nothing more to do."""
        if self._leaders.stale:
            try:
                await self._leaders.refresh()
            except (ClientError, KafkaError) as error:
                self._pass_on(error)
        nodes: set[int] = set()
        now = self._loop.time()
        rest_s = LONGEST_REST_S
        for state in self._assignment:
            if not state.can_fetch:
                continue
            if state.retry_at > now:
                rest_s = min(rest_s, state.retry_at - now)
                continue
            node_id = self._leaders.node_for(state, now)
            if node_id is not None:
                nodes.add(node_id)
        self.is_short_of_room = True  # said before looking: what is taken meanwhile must not be missed
        left_out = False
        for node_id in nodes - self._tasks.keys():
            if self._room(len(nodes)) > 0:
                self._tasks[node_id] = self._loop.create_task(
                    self._serve(node_id), name=f"ottla fetch from broker {node_id}"
                )
            else:
                left_out = True
        self.is_short_of_room = left_out
        if self._leaders.stale:
            rest_s = min(rest_s, self._leaders.pause_s(now))
        return max(rest_s, 0.001)

    def _room(self, nodes: int) -> int:
        """Return how many bytes one of some brokers may send; 0 if enough is waiting already."""
        options = self._options
        room = options.prefetch_max_bytes - self._assignment.fetched_bytes
        if room <= 0:
            for state in self._assignment:
                if state.is_paused and state.fetched_bytes:  # it may wait for ever: it can be fetched again
                    room += state.fetched_bytes
                    with self._assignment.lock:
                        state.drop_fetched()
        if room <= 0 and self._assignment.fetched_bytes:
            return 0
        return min(options.fetch_max_bytes, max(room // max(nodes, 1), options.max_partition_fetch_bytes))

    async def _serve(self, node_id: int) -> None:
        """Fetch from one broker as long as there is something to fetch, and room for it."""
        session = self._sessions.setdefault(node_id, FetchSession[TopicPartition]())
        wanted: dict[TopicPartition, FetchPosition] = {}
        try:
            while True:
                wanted, sent = self._plan(node_id)
                room = self._room(len(self._tasks))
                if not wanted or room <= 0:
                    return
                await self._fetch(node_id, session, wanted, sent, room)
                self._failures.pop(node_id, None)
        except (ClientError, KafkaError) as error:
            session.reset()
            self._leave_alone(node_id, wanted)
            self._pass_on(error)
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
        connection = self._lines.open_to(node_id) or await self._lines.to(node_id)
        version = fetch_version(connection, [each.topic for each in wanted.values()])
        options = self._options
        if max_bytes != self._settings.max_bytes:
            self._settings = self._settings._replace(max_bytes=max_bytes)
        body = encode_fetch_request(version, self._settings, *session.prepare(wanted, version))
        if not connection.is_ready:
            await connection.ready()
        began = self._loop.time()
        absorbed: asyncio.Future[bool] = self._loop.create_future()

        def on_response(answer: Response | None, error: ClientError | None) -> None:
            """Absorb the records while the response is being received."""
            if absorbed.done():
                return  # the consumer was stopped
            try:
                if answer is None:
                    raise error or ClientClosed("there will be no answer")
                reply = decode_fetch(connection, answer, version)
                absorbed.set_result(
                    self._is_good(reply, session) and self._is_quiet(node_id, reply, wanted, sent)
                )
            except Exception as problem:
                absorbed.set_exception(problem)

        timeout_ms = options.request_timeout_ms + options.fetch_max_wait_ms
        connection.send_callback(ApiKey.FETCH, version, (body,), timeout_ms, on_response)
        if not await absorbed:
            await asyncio.sleep(0)  # what the application sends in return leaves before the next request
        elif self._loop.time() - began < min(HURRIED_S, options.fetch_max_wait_ms / 1000):
            await asyncio.sleep(HURRIED_S)

    def _is_quiet(
        self,
        node_id: int,
        reply: FetchReply,
        wanted: dict[TopicPartition, FetchPosition],
        sent: dict[TopicPartition, Sent],
    ) -> bool:
        """Take over a reply; return whether it had no news at all."""
        names = {each.topic.topic_id: each.topic.name for each in wanted.values()}
        return self._answers.absorb(node_id, reply, sent, names, self._loop.time())

    def _is_good(self, reply: FetchReply, session: FetchSession[TopicPartition]) -> bool:
        if reply.error_code:
            session.reset()
            if reply.error_code in LOST_SESSION:
                return False
            raise error_for(reply.error_code, "fetch")
        session.succeeded(reply.session_id)
        return True

    def _leave_alone(self, node_id: int, wanted: dict[TopicPartition, FetchPosition]) -> None:
        """Ask who leads the partitions now, and do not come back to this broker at once."""
        self._failures[node_id] = failures = self._failures.get(node_id, 0) + 1
        until = self._loop.time() + self._cluster.backoff.pause_ms(failures) / 1000
        for partition in wanted:
            self._leaders.doubt(partition.topic)
            state = self._assignment.states.get(partition)
            if state is not None:
                state.retry_at = until
                if state.preferred_replica == node_id:
                    state.preferred_replica = -1

    def _pass_on(self, error: ClientError | KafkaError) -> None:
        """Let the application know of an error that does not pass; write the others down."""
        if isinstance(error, ClientClosed):
            return
        if passes(error) or isinstance(error, KafkaError):
            said, now = str(error), self._loop.time()
            is_news = said != self._said or now >= self._say_again_at
            log.log(logging.WARNING if is_news else logging.DEBUG, "fetching is held up: %s", error)
            if is_news:
                self._said, self._say_again_at = said, now + SAY_AGAIN_S
        else:
            self._on_problem(error)
