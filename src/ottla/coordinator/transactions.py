"""The transaction coordinator of this broker: the partitions of `__transaction_state` that it leads.

Requests find their partition by the hash of the transactional id. What can be answered at once is, without
a task: with one replica that is nearly everything. A decision leads to markers, which are written right after
the answer (markers.py); then the transaction is complete.

`verify` is what partitions ask before they append the first batch of a transaction (KIP-890). The
coordinator of that transaction may be another broker: then it is asked over the network.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from inspect import isawaitable
from typing import Concatenate, ParamSpec, TypeVar

from kio.schema.add_partitions_to_txn.v5.request import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from kio.schema.errors import ErrorCode

from ottla.common.clock import Clock
from ottla.common.config.broker import BrokerConfig
from ottla.common.ids import TopicPartition
from ottla.common.topic_names import TRANSACTION_STATE_TOPIC
from ottla.controller.machine import NewTopic
from ottla.controller.runner import Controller
from ottla.coordinator.effects import Step
from ottla.coordinator.marker_appender import MarkerAppender
from ottla.coordinator.markers import BrokerRequests, MarkerWriter
from ottla.coordinator.partition_writer import PartitionWriter
from ottla.coordinator.partitions import Shard, Shards
from ottla.coordinator.runtime import Runtime
from ottla.coordinator.transaction.machine import TransactionMachine, Verdicts
from ottla.coordinator.transaction.record_codec import decode_record, encode_record
from ottla.coordinator.transaction.requests import (
    EndRequest,
    Initiated,
    InitRequest,
    ListedTransaction,
    ListFilter,
    NewProducerIdNeeded,
    WriteMarkers,
)
from ottla.coordinator.transaction.transaction import Producer, Transaction
from ottla.metadata.image import ClusterImage
from ottla.metadata.state import ClusterState
from ottla.protocol.errors import ERRORS, CoordinatorNotAvailable, KafkaError, UnknownServerError
from ottla.protocol.types import ProducerId, TopicName, TransactionalId, i16, i32
from ottla.replication.partition import Partition
from ottla.replication.registry import PartitionRegistry

# Asks the coordinator on another broker whether partitions are in a transaction (AddPartitionsToTxn v5).


async def ask(
    brokers: BrokerRequests,
    node_id: int,
    transactional_id: str,
    producer: Producer,
    wanted: frozenset[TopicPartition],
    add: bool,
) -> Verdicts:
    """Return what stands against each partition; with `add` they are added if they are not in it yet."""
    request = _request(transactional_id, producer, wanted, add)
    try:
        response = await brokers.call(
            node_id, request.__api_key__, request.__version__, request, channel=CHANNEL
        )
    except (OSError, KafkaError) as error:  # clients know no errors between brokers
        raise CoordinatorNotAvailable(f"broker {node_id} does not answer: {error}") from error
    if response.error_code != ErrorCode.none:
        raise _error(response.error_code)
    verdicts: Verdicts = dict.fromkeys(wanted, UnknownServerError(f"broker {node_id} did not answer for it"))
    for result in response.results_by_transaction:
        for topic in result.topic_results:
            for each in topic.results_by_partition:
                code = each.partition_error_code
                verdict = None if code == ErrorCode.none else _error(code)
                verdicts[TopicPartition(topic.name, each.partition_index)] = verdict
    return verdicts


def _request(
    transactional_id: str, producer: Producer, wanted: frozenset[TopicPartition], add: bool
) -> AddPartitionsToTxnRequest:
    topics: dict[str, list[i32]] = {}
    for topic, index in sorted(wanted):
        topics.setdefault(topic, []).append(i32(index))
    transaction = AddPartitionsToTxnTransaction(
        transactional_id=TransactionalId(transactional_id),
        producer_id=ProducerId(producer.producer_id),
        producer_epoch=i16(producer.epoch),
        verify_only=not add,
        topics=tuple(
            AddPartitionsToTxnTopic(name=TopicName(name), partitions=tuple(indexes))
            for name, indexes in topics.items()
        ),
    )
    return AddPartitionsToTxnRequest(transactions=(transaction,))


def _error(code: ErrorCode) -> KafkaError:
    return ERRORS.get(code, UnknownServerError)(f"the coordinator says {code.name}")


P = ParamSpec("P")
R = TypeVar("R")

CHANNEL = "transaction verifications"
"""A connection of their own: they do not wait behind markers."""
COMMIT_TIMEOUT_MS = 5000
"""How long an answer waits until its records are on all replicas in sync."""


class TransactionCoordinator:
    """All transactional ids that this broker coordinates.

    `next_producer_id` returns ids that were never used; `marker_appender` appends markers to partitions that
    are led from here, `brokers` sends requests to the others.
    """

    def __init__(
        self,
        node_id: int,
        cluster: ClusterState,
        controller: Controller,
        partitions: PartitionRegistry,
        config: Callable[[], BrokerConfig],
        clock: Clock,
        next_producer_id: Callable[[], Awaitable[int]],
        marker_appender: MarkerAppender,
        brokers: BrokerRequests,
    ) -> None:
        self._node_id = node_id
        self._config = config
        self._clock = clock
        self._next_producer_id = next_producer_id
        self._brokers = brokers
        self.marker_appender = marker_appender
        self._markers = MarkerWriter(node_id, cluster, marker_appender, brokers)
        self._shards: Shards[TransactionMachine] = Shards(
            TRANSACTION_STATE_TOPIC, self, node_id, cluster, controller, partitions, clock
        )

    @property
    def machines(self) -> list[TransactionMachine]:
        """The machines of the partitions that this broker coordinates now."""
        return self._shards.machines

    @property
    def loading_count(self) -> int:
        """How many partitions this broker is to coordinate and has not read yet."""
        return self._shards.loading_count

    # Service

    async def start(self) -> None:
        """Load the partitions that this broker leads, in the background, and follow the cluster."""
        await self._shards.start()

    async def stop(self) -> None:
        """Unload everything, and stop to write markers."""
        await self._shards.stop()
        await self._markers.stop()

    # Requests

    async def find(self, transactional_id: str) -> int:
        """Return the node id of the broker that coordinates an id; the topic is created on first use."""
        return await self._shards.find(transactional_id)

    async def create_topic(self) -> None:
        """Create `__transaction_state`, unless it exists; raise CoordinatorNotAvailable if that fails."""
        await self._shards.create_topic()

    async def init_producer_id(self, request: InitRequest) -> Initiated:
        """Give a producer an id and an epoch."""
        key, event = request.transactional_id, TransactionMachine.init_producer_id
        return await self._with_new_id(key, partial(event, request=request))

    def add_partitions(
        self, transactional_id: str, producer: Producer, partitions: frozenset[TopicPartition]
    ) -> Awaitable[None] | None:
        """Add partitions to a transaction, or begin one with them; return None, or a future for that."""
        runtime = self._shards.of(transactional_id).runtime
        event = TransactionMachine.add_partitions
        return runtime.call(event, transactional_id, producer, partitions)

    def end(self, request: EndRequest) -> Producer | Awaitable[Producer]:
        """Commit or abort a transaction; return what the client is from now on, or an awaitable for it."""
        key, event = request.transactional_id, TransactionMachine.end
        try:
            return self._shards.of(key).runtime.call(event, request)
        except NewProducerIdNeeded:
            return self._with_new_id(key, partial(event, request=request))

    async def prepare(self, transactional_id: str, producer: Producer, principal: str) -> None:
        """Prepare a two-phase transaction: from then on it does not time out."""
        event = TransactionMachine.prepare
        await self._call(transactional_id, event, transactional_id, producer, principal)

    async def describe(self, transactional_id: str) -> Transaction:
        """Return all about a transactional id; while it ends, with the partitions that lack a marker."""
        found = await self._call(transactional_id, TransactionMachine.describe, transactional_id)
        missing = self._markers.missing(self._shards.of(transactional_id).index, transactional_id)
        if missing is None or not found.state.is_ending:
            return found
        return found.changed(found.last_update_ms, partitions=missing)

    async def list_transactions(self, wanted: ListFilter) -> list[ListedTransaction]:
        """Return the transactions of this broker that pass a filter."""
        self._shards.check_started()
        listed: list[ListedTransaction] = []
        for shard in self._shards:
            reply = shard.runtime.call(TransactionMachine.list_transactions, wanted)
            listed.extend(await reply if isawaitable(reply) else reply)
            await asyncio.sleep(0)
        return listed

    def verify(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        topic_partitions: Iterable[TopicPartition],
        add: bool,
    ) -> Verdicts | Awaitable[Verdicts]:
        """Return what stands against appending to partitions in a transaction: an error, or None, for each.

        With `add` the partitions are added if they are not in it yet (Produce v12, TxnOffsetCommit v5).
        The errors are the coordinator's own, also those that pass by themselves: NotCoordinator,
        ConcurrentTransactions and the like.
        """
        wanted = frozenset(topic_partitions)
        producer = Producer(producer_id, producer_epoch)
        if self._shards.leader_of(transactional_id) == self._node_id:
            return self.verify_here(transactional_id, producer, wanted, add)
        return self._verify_elsewhere(transactional_id, producer, wanted, add)

    def verify_here(
        self, transactional_id: str, producer: Producer, wanted: frozenset[TopicPartition], add: bool = False
    ) -> Verdicts | Awaitable[Verdicts]:
        """Verify, or add, by the machine on this broker, for this one or another."""
        reply: Verdicts | asyncio.Future[Verdicts] | asyncio.Future[None] | None
        try:
            runtime = self._shards.of(transactional_id).runtime
            if add:
                reply = runtime.call(TransactionMachine.add_partitions, transactional_id, producer, wanted)
            else:
                reply = runtime.call(TransactionMachine.verify, transactional_id, producer, wanted)
        except KafkaError as error:
            return dict.fromkeys(wanted, error)
        if isinstance(reply, asyncio.Future):
            return _verdicts_later(reply, wanted)
        return reply or dict.fromkeys(wanted)

    async def _verify_elsewhere(
        self, transactional_id: str, producer: Producer, wanted: frozenset[TopicPartition], add: bool
    ) -> Verdicts:
        try:
            node_id = await self._shards.find(transactional_id)
            if node_id != self._node_id:
                return await ask(self._brokers, node_id, transactional_id, producer, wanted, add)
        except KafkaError as error:
            return dict.fromkeys(wanted, error)
        verdicts = self.verify_here(transactional_id, producer, wanted, add)
        return await verdicts if isawaitable(verdicts) else verdicts

    async def _call(
        self,
        transactional_id: str,
        event: Callable[Concatenate[TransactionMachine, int, int, P], Step[R]],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> R:
        reply = self._shards.of(transactional_id).runtime.call(event, *args, **kwargs)
        return await reply if isawaitable(reply) else reply

    async def _with_new_id(self, transactional_id: str, event: Callable[..., Step[R]]) -> R:
        """Run an event, and run it again with a new producer id if it needs one."""
        try:
            return await self._call(transactional_id, event)
        except NewProducerIdNeeded:
            new_id = await self._next_producer_id()
        return await self._call(transactional_id, event, new_id=new_id)

    # The topic and its state machines

    def new_topic(self, broker_count: int) -> NewTopic:
        """Return the partitions, replicas and configs with which `__transaction_state` is created."""
        config = self._config()
        replicas = min(config.transaction_state_log_replication_factor, broker_count)
        return NewTopic(
            TRANSACTION_STATE_TOPIC,
            config.transaction_state_log_num_partitions,
            replicas,
            configs=(
                ("cleanup.policy", "compact"),
                ("compression.type", "uncompressed"),
                ("min.insync.replicas", str(min(config.transaction_state_log_min_isr, replicas))),
                ("segment.bytes", str(config.transaction_state_log_segment_bytes)),
                ("unclean.leader.election.enable", "false"),
            ),
        )

    def open_shard(self, index: int, partition: Partition) -> Runtime[TransactionMachine]:
        """Return a machine on a partition of `__transaction_state`."""
        writer = PartitionWriter(partition, self._clock, encode=encode_record, decode=decode_record)
        machine = TransactionMachine(self._config())
        return Runtime(machine, writer, self._clock, COMMIT_TIMEOUT_MS, send=partial(self._write_soon, index))

    def loaded(self, shard: Shard[TransactionMachine]) -> str:
        """Begin to coordinate the transactions of a partition."""
        shard.runtime.activate()
        count = len(shard.runtime.machine.transactions)
        return f"{count} transactional ids" if count else ""

    def unloaded(self, shard: Shard[TransactionMachine]) -> None:
        """Stop writing markers: the next coordinator does."""
        self._markers.cancel(shard.index)

    def image_changed(self, old: ClusterImage, new: ClusterImage) -> None:
        """Do nothing: markers are sent by the newest image."""

    def _write_soon(self, index: int, message: object) -> None:
        """Write markers in the next iteration of the event loop: the client is answered first."""
        if not isinstance(message, WriteMarkers):
            raise TypeError(f"unknown message {message}")
        asyncio.get_running_loop().call_soon(self._write, index, message)

    def _write(self, index: int, message: WriteMarkers) -> None:
        """Write the markers of a transaction that has been decided."""
        shard = self._shards.at(index)
        if shard is None or not shard.runtime.is_active:
            return  # led elsewhere, or loading again: the markers are written after loading
        runtime = shard.runtime

        def done(written: WriteMarkers) -> None:
            runtime.run_event(TransactionMachine.complete, written)

        self._markers.begin(index, shard.leader_epoch, message, done)


async def _verdicts_later(
    reply: asyncio.Future[Verdicts] | asyncio.Future[None], wanted: frozenset[TopicPartition]
) -> Verdicts:
    try:
        return await reply or dict.fromkeys(wanted)
    except KafkaError as error:
        return dict.fromkeys(wanted, error)
