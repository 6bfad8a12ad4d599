"""What the answer to a fetch means for the partitions it was for."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import NamedTuple
from uuid import UUID

from kio.schema.errors import ErrorCode

from ottla.client.cluster import Cluster
from ottla.client.consumer.assignment import Assignment
from ottla.client.consumer.leaders import PASSING, Leaders
from ottla.client.consumer.options import ConsumerOptions
from ottla.client.consumer.partition_state import UNKNOWN, Chunk, PartitionState
from ottla.client.errors import error_for
from ottla.common.ids import TopicPartition
from ottla.protocol.errors import CorruptMessage, KafkaError, OffsetOutOfRange
from ottla.protocol.fetch_client import Fetched, FetchReply
from ottla.protocol.hot_path import NodeEndpoint
from ottla.protocol.records.batch import iter_batches

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
