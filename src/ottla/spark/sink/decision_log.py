"""The topic that stores the owner of each sink and its last decided batch.

    topic   __ottla_spark_decisions, compacted, with acks=all
    key     <query id>/<sink>/owner or <query id>/<sink>/decision
    value   {"run": ...}  or  {"batch": 7, "run": ..., "writer": ..., "transactions": [[id, pid, epoch], ...]}

All records of a sink are in one partition, and are written with the producer id of the transactional id
`spark-decisions/<query id>/<sink>`, though not in transactions. InitProducerId increments the epoch, and from
the first record with the new epoch on, the partition fences records of older epochs. So after `take` no
record that an older run has in flight can be appended any more, and what is then read is final.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from weakref import WeakKeyDictionary

from kio.schema.errors import ErrorCode

from ottla.client.admin.topic_admin import NewTopic, TopicAdmin
from ottla.client.cluster import Cluster
from ottla.client.errors import raise_for
from ottla.client.offsets import EARLIEST, LATEST, list_offsets
from ottla.client.producer.batch import MAX_SEQUENCE, Identity
from ottla.client.producer.options import ProducerOptions
from ottla.client.producer.partitioners import partition_of
from ottla.client.producer.transaction_calls import TransactionCalls
from ottla.common.clock import Clock, SystemClock
from ottla.common.ids import TopicPartition
from ottla.common.topic_names import SPARK_DECISIONS_TOPIC
from ottla.protocol.errors import KafkaError, TopicAlreadyExists, UnknownTopicOrPartition
from ottla.protocol.records.record_encoder import encode_new_batch
from ottla.protocol.records.records import decode_records
from ottla.spark.cluster_session import ClusterSession
from ottla.spark.errors import Superseded
from ottla.spark.sink.decisions import (
    Decision,
    Prepared,
    Register,
    SinkKey,
    check_owner,
    encode_decision,
)
from ottla.spark.source.planning import OffsetRange
from ottla.spark.source.range_reader import RangeReader, ReadSettings
from ottla.wire.calls import produce

TOPIC = SPARK_DECISIONS_TOPIC
PARTITIONS = 8
TOPIC_CONFIGS = {
    "cleanup.policy": "compact",
    "segment.bytes": "1048576",
    "min.cleanable.dirty.ratio": "0.1",
}
RETRIABLE = frozenset(
    {
        ErrorCode.unknown_topic_or_partition,
        ErrorCode.not_enough_replicas,
        ErrorCode.not_enough_replicas_after_append,
        ErrorCode.request_timed_out,
        ErrorCode.kafka_storage_error,
        ErrorCode.concurrent_transactions,
    }
)
FENCED = frozenset({ErrorCode.invalid_producer_epoch, ErrorCode.producer_fenced})
MAX_ATTEMPTS = 5
READING = ReadSettings(fails_on_data_loss=False)
MAX_BYTES = 64 * 1024 * 1024


@dataclass
class _CachedRegister:
    """The cached register of a sink, and the position up to which it was read."""

    register: Register = field(default_factory=Register)
    read_to: int = 0
    identity: Identity | None = None
    next_sequence: int = 0
    taken_for: str | None = None
    """The run that has taken the register, as far as this process knows."""


class DecisionLog:
    """The registers of sinks, cached by this process."""

    def __init__(self, cluster: Cluster, options: ProducerOptions, clock: Clock) -> None:
        self._cluster = cluster
        self._options = options
        self._clock = clock
        self._known: dict[SinkKey, _CachedRegister] = {}
        self._partitions = 0

    async def current(self, key: SinkKey) -> Register:
        """Return the stored register of a sink."""
        known = self._known.setdefault(key, _CachedRegister())
        await self._read(key, known)
        return known.register

    async def owned(self, key: SinkKey, run_id: str) -> Register:
        """Return the stored register of a sink, after this run has taken it."""
        register = await self.current(key)
        known = self._known[key]
        if register.owner == run_id:
            known.taken_for = run_id
        elif known.taken_for == run_id:
            check_owner(register, run_id)
        else:
            await self.take(key, run_id)
        return known.register

    async def take(self, key: SinkKey, run_id: str) -> Register:
        """Make a run the owner, fence all older writers, and return what is stored."""
        known = self._known.setdefault(key, _CachedRegister())
        for _ in range(MAX_ATTEMPTS):
            await self._renew(key, known)
            try:
                await self._write(key, known, "owner", json.dumps({"run": run_id}).encode())
            except KafkaError as error:
                if error.code not in FENCED:
                    raise
                await self._read(key, known)  # another task has taken it in between, of our run or not
                if known.register.owner != run_id:
                    continue
            known.taken_for = run_id
            await self._read(key, known)
            return known.register
        raise busy(key)

    async def settle(self, key: SinkKey, run_id: str, left: Prepared) -> bool:
        """Return whether a transaction that a task has found open is decided, as a final answer.

        Its driver may be about to decide it. Taking the register fences that driver, which then checks again
        whether all transactions exist.
        """
        await self._read(key, self._known.setdefault(key, _CachedRegister()))
        check_owner(self._known[key].register, run_id)
        decision = (await self.take(key, run_id)).decision
        return decision is not None and left in decision.transactions

    async def decide(
        self, key: SinkKey, decision: Decision, check: Callable[[], Awaitable[None]] | None = None
    ) -> None:
        """Store a decision; raise Superseded if another run has taken over.

        `check` is called before the first decision, and whenever a task has taken the register since: it
        raises if one of the transactions is not prepared any more.
        """
        known = self._known.setdefault(key, _CachedRegister())
        value = encode_decision(decision)
        for _ in range(MAX_ATTEMPTS):
            if known.identity is None:
                await self._renew(key, known)
                await self._read(key, known)
                check_owner(known.register, decision.run_id)
                if check is not None:
                    await check()
            try:
                await self._write(key, known, "decision", value)
            except KafkaError as error:
                if error.code not in FENCED:
                    raise
                known.identity = None  # fenced: by a worker of this run, or by another run
                continue
            known.register = Register(decision.run_id, decision)
            return
        raise busy(key)

    async def _renew(self, key: SinkKey, known: _CachedRegister) -> None:
        options = ProducerOptions.of(self._options.addresses, transactional_id=f"spark-decisions/{key}")
        known.identity, _ = await TransactionCalls(self._cluster, options).init(Identity())
        known.next_sequence = 0

    async def _write(self, key: SinkKey, known: _CachedRegister, entry: str, value: bytes) -> None:
        topic_partition = await self._place(key)
        assert known.identity is not None
        batch = encode_new_batch(
            [(self._clock.wall_ms(), f"{key}/{entry}".encode(), value, ())],
            producer_id=known.identity.producer_id,
            producer_epoch=known.identity.producer_epoch,
            base_sequence=known.next_sequence,
        )

        async def attempt() -> None:
            connection = await self._cluster.broker(await self._cluster.leader(topic_partition))
            topics = {topic_partition.topic: [(topic_partition.partition, batch)]}
            timeout_ms = self._options.request_timeout_ms
            results, _ = await produce(connection, topics, acks=-1, timeout_ms=timeout_ms)
            code = results[topic_partition].error_code
            if code and code != ErrorCode.duplicate_sequence_number:
                self._cluster.forget(topic_partition.topic)
                raise_for(code, f"the decision of {key}")

        try:
            await self._cluster.retrying(attempt, also=RETRIABLE, wait_for_brokers=True)
        except BaseException:
            known.identity = None  # whether it was stored is unknown: the next write needs a new epoch
            raise
        known.next_sequence = (known.next_sequence + 1) & MAX_SEQUENCE

    async def _read(self, key: SinkKey, known: _CachedRegister) -> None:
        """Read the records since the last read."""
        topic_partition = await self._place(key)
        end = (await list_offsets(self._cluster, {topic_partition: LATEST}))[topic_partition].offset
        if end < known.read_to:  # the topic was deleted and recreated
            known.register, known.read_to = Register(), 0
        if end == known.read_to:
            return
        start = known.read_to
        if not start:
            start = (await list_offsets(self._cluster, {topic_partition: EARLIEST}))[topic_partition].offset
        names = {f"{key}/{entry}".encode(): entry for entry in ("owner", "decision")}
        async for written, value in self._records(topic_partition, start, end):
            entry = names.get(written)
            if entry is not None:
                known.register = known.register.apply(entry, value)
        known.read_to = end

    async def of_query(self, query_id: str) -> dict[SinkKey, Register]:
        """Return the registers of all sinks of a query; reads the whole topic."""
        try:
            partitions = (await self._cluster.topic(TOPIC)).partitions
        except UnknownTopicOrPartition:
            return {}
        places = [TopicPartition(TOPIC, each) for each in partitions]
        starts = await list_offsets(self._cluster, dict.fromkeys(places, EARLIEST))
        ends = await list_offsets(self._cluster, dict.fromkeys(places, LATEST))
        found: dict[SinkKey, Register] = {}
        for each in places:
            async for written, value in self._records(each, starts[each].offset, ends[each].offset):
                name, _, entry = written.decode(errors="replace").rpartition("/")
                query, _, sink = name.partition("/")
                if query == query_id:
                    key = SinkKey(query, sink)
                    found[key] = found.get(key, Register()).apply(entry, value)
        return found

    async def _records(
        self, topic_partition: TopicPartition, start: int, end: int
    ) -> AsyncIterator[tuple[bytes, bytes | None]]:
        """Yield the keys and values of a range."""
        reader = RangeReader(
            self._cluster,
            [OffsetRange(topic_partition.topic, None, topic_partition.partition, start, end)],
            READING,
        )
        while pieces := await reader.next():
            for piece in pieces:
                for header, batch in piece.batches:
                    if header.base_offset >= start:
                        for record in decode_records(bytes(batch), max_bytes=MAX_BYTES):
                            yield record.key or b"", record.value

    async def _place(self, key: SinkKey) -> TopicPartition:
        if not self._partitions:
            self._partitions = await self._open_topic()
        return TopicPartition(TOPIC, partition_of(str(key).encode(), self._partitions))

    async def _open_topic(self) -> int:
        try:
            return len((await self._cluster.topic(TOPIC)).partitions)
        except UnknownTopicOrPartition:
            pass
        new = NewTopic(TOPIC, PARTITIONS, -1, TOPIC_CONFIGS)
        outcome = (await TopicAdmin(self._cluster).create_topics([new]))[TOPIC]
        if isinstance(outcome, KafkaError) and not isinstance(outcome, TopicAlreadyExists):
            raise outcome
        unknown = frozenset({ErrorCode.unknown_topic_or_partition})
        found = await self._cluster.retrying(lambda: self._cluster.refresh([TOPIC]), also=unknown)
        return len(found[TOPIC].partitions)


def busy(key: SinkKey) -> Superseded:
    """Return the error for a sink that several runs take from each other."""
    return Superseded(f"{key}: several runs of this query take the sink from each other. Stop all but one")


# The decision log of this process for a cluster, cached like its sessions.

_logs: WeakKeyDictionary[ClusterSession, DecisionLog] = WeakKeyDictionary()


def decision_log(session: ClusterSession, options: ProducerOptions) -> DecisionLog:
    """Return the decision log of a cluster session."""
    log = _logs.get(session)
    if log is None:
        log = _logs[session] = DecisionLog(session.cluster, options, SystemClock())
    return log
