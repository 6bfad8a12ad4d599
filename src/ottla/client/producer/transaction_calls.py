"""The requests of transactions: each finds its coordinator, and is repeated until it is answered for good.

Two generations of the protocol. In the classic one, partitions and groups are added to a transaction before
they are used (AddPartitionsToTxn, AddOffsetsToTxn), and the epoch stays. With `transaction.version` 2
(KIP-890) they join by being used, and the end of each transaction gives a new epoch.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Mapping
from enum import Enum
from functools import lru_cache
from struct import Struct
from typing import NamedTuple, TypeVar
from weakref import WeakKeyDictionary

from kio.schema.add_offsets_to_txn.v4 import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from kio.schema.add_partitions_to_txn.v3 import AddPartitionsToTxnRequest, AddPartitionsToTxnResponse
from kio.schema.add_partitions_to_txn.v3.request import AddPartitionsToTxnTopic
from kio.schema.end_txn.v5 import EndTxnRequest, EndTxnResponse
from kio.schema.errors import ErrorCode
from kio.schema.init_producer_id.v6 import InitProducerIdRequest, InitProducerIdResponse
from kio.schema.txn_offset_commit.v5 import TxnOffsetCommitRequest, TxnOffsetCommitResponse
from kio.schema.txn_offset_commit.v5.request import (
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)

from ottla.client.admin.group_types import ConsumerGroupMetadata, OffsetAndMetadata
from ottla.client.cluster import Cluster
from ottla.client.coordinators import CoordinatorKind, Coordinators, KnownCoordinators
from ottla.client.errors import ClientError, raise_for
from ottla.client.producer.batch import Identity
from ottla.client.producer.options import ProducerOptions
from ottla.common.ids import TopicPartition
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.errors import KafkaError
from ottla.protocol.own_messages import PrepareTransactionRequest, PrepareTransactionResponse
from ottla.protocol.primitives import encode_compact_string
from ottla.protocol.types import GroupId, ProducerId, TopicName, TransactionalId, i16, i32, i64
from ottla.wire.backoff import Backoff
from ottla.wire.connection import Connection, milliseconds

# Where a transactional producer is, and which transaction it has prepared; see transactions.py.
#
#     NEW ──init──► READY ──begin──► OPEN ──commit──► COMMITTING ──► READY
#                                     │ ╲ prepare
#                                     │  ╲──► PREPARED ──commit or abort──► ...
#                                     ├──abort──► ABORTING ──► READY
#                                     └─(a record or a request fails)─► FAILED ──abort──► ABORTING ──► READY
#     FENCED: another producer has taken the transactional id, or it was taken from us; nothing goes any more.
#
# A commit whose answer does not come in time may be repeated: the state stays COMMITTING until it is known.
# A prepared transaction outlives its producer: the next one with the same id finds it (init,
# `keep_prepared`).


class State(Enum):
    """Where a producer is."""

    NEW = "not initialised"
    READY = "between transactions"
    OPEN = "in a transaction"
    PREPARED = "prepared"
    COMMITTING = "committing"
    ABORTING = "aborting"
    FAILED = "failed"
    FENCED = "fenced"


class PreparedTransaction(NamedTuple):
    """Which transaction was prepared: to be remembered outside, and compared when it is found again."""

    producer_id: int
    producer_epoch: int

    def __str__(self) -> str:
        return f"{self.producer_id}:{self.producer_epoch}"

    @classmethod
    def parse(cls, text: str) -> PreparedTransaction:
        """Return what `str` wrote; raise ValueError if it is something else."""
        producer_id, _, epoch = text.partition(":")
        return cls(int(producer_id), int(epoch))


HINTS = {
    State.NEW: "call init_transactions first",
    State.READY: "call begin_transaction first",
    State.OPEN: "a transaction is open: commit or abort it first",
    State.PREPARED: "the transaction is prepared: only commit or abort it",
    State.COMMITTING: "the commit is not answered yet: repeat commit_transaction",
    State.ABORTING: "the abort is not answered yet: repeat abort_transaction",
}
"""What to do first, when a call does not fit the state."""


# EndTxn v5 as a client sees it, written and read at once: a producer waits for it after every transaction.
#
#     request   compact string transactional_id, int64 producer_id, int16 producer_epoch, bool committed, tags
#     response   int32 throttle_ms, int16 error_code, int64 producer_id, int16 producer_epoch, tags
#
# Only an end that went well is read here; for all else there is the general way (messages.py).

VERSION = 5

_REQUEST = Struct(">qh?B")
_RESPONSE = Struct(">ihqhB")

_encode_id = lru_cache(maxsize=1024)(encode_compact_string)


def encode_end(transactional_id: str, producer_id: int, producer_epoch: int, *, commit: bool) -> bytes:
    """Return the body of a request."""
    return _encode_id(transactional_id) + _REQUEST.pack(producer_id, producer_epoch, commit, 0)


def decode_ended(frame: memoryview, at: int) -> tuple[int, int] | None:
    """Return the producer id and epoch from now on; None if the answer says anything but that."""
    if len(frame) - at != _RESPONSE.size:
        return None
    _, error_code, producer_id, producer_epoch, tags = _RESPONSE.unpack_from(frame, at)
    if error_code or tags or producer_id < 0:
        return None
    return producer_id, producer_epoch


# The short way to end a transaction: one request on a connection that is there already.
#
# A producer that waits for its commit has nothing else to do in that time, so every step counts. Nearly
# always the coordinator is known, its connection open, and the answer a new epoch. Whenever anything is
# different the end is asked for again by the general way (transaction_calls.py), which knows what to do: to
# ask twice changes nothing, a coordinator knows the second request by its epoch.


async def end_at_once(
    connection: Connection, transactional_id: str, identity: Identity, *, commit: bool, timeout_ms: float
) -> Identity | None:
    """End a transaction; return who the producer is in the next one, or None if that is not clear."""
    try:
        if connection.version_of(ApiKey.END_TXN, VERSION) != VERSION:
            return None
        body = encode_end(transactional_id, *identity, commit=commit)
        frame, at = await connection.send(ApiKey.END_TXN, VERSION, (body,), timeout_ms)
    except (ClientError, KafkaError):
        return None
    ended = decode_ended(frame, at)
    return None if ended is None else Identity(*ended)


NEWEST_CLASSIC_END = 4
NEWEST_CLASSIC_OFFSETS = 4
NEWEST_INIT, NEWEST_INIT_OF_ONE_PHASE = 6, 5

BACKOFF = Backoff(10, 1_000)
"""Short at first: mostly it is the transaction before that is not quite over."""

RETRIABLE = frozenset(
    {
        ErrorCode.not_coordinator,
        ErrorCode.concurrent_transactions,
        ErrorCode.request_timed_out,
        ErrorCode.unknown_topic_or_partition,
        ErrorCode.not_enough_replicas,
        ErrorCode.kafka_storage_error,
    }
)

FATAL = frozenset(
    {
        ErrorCode.producer_fenced,
        ErrorCode.invalid_producer_epoch,
        ErrorCode.invalid_txn_state,
        ErrorCode.transactional_id_authorization_failed,
        ErrorCode.cluster_authorization_failed,
        ErrorCode.unsupported_version,
        ErrorCode.invalid_transaction_timeout,
    }
)
"""Said by a coordinator, these end the producer, not only the transaction."""

Result = TypeVar("Result")


class Initiated(NamedTuple):
    """Who the producer is now, and the transaction that it has found prepared, if it was asked to keep it."""

    identity: Identity
    ongoing: Identity | None


_known: WeakKeyDictionary[Cluster, KnownCoordinators] = WeakKeyDictionary()
"""By cluster: each batch of a Spark query has a producer and an end of its own, for the same few ids."""


class TransactionCalls:
    """Asks the coordinators of one transactional id."""

    def __init__(self, cluster: Cluster, options: ProducerOptions) -> None:
        assert options.transactional_id is not None
        self._cluster = cluster
        self._options = options
        self._id = TransactionalId(options.transactional_id)
        self._coordinators = Coordinators(cluster, _known.setdefault(cluster, {}))
        self._loop = asyncio.get_running_loop()

    async def init(self, current: Identity, *, keep_prepared: bool = False) -> Initiated:
        """Take the transactional id, or if we have it already, the next epoch."""
        is_two_phase = self._options.transaction_two_phase_commit_enable
        request = InitProducerIdRequest(
            transactional_id=self._id,
            transaction_timeout=milliseconds(self._options.transaction_timeout_ms),
            producer_id=ProducerId(current.producer_id),
            producer_epoch=i16(current.producer_epoch),
            enable2_pc=is_two_phase,
            keep_prepared_txn=keep_prepared,
        )

        async def attempt(connection: Connection) -> Initiated:
            newest = NEWEST_INIT if is_two_phase else NEWEST_INIT_OF_ONE_PHASE
            version = connection.version_of(ApiKey.INIT_PRODUCER_ID, newest)
            if is_two_phase and version < NEWEST_INIT:
                raise_for(ErrorCode.unsupported_version, f"{connection.address} knows no two-phase commit")
            response = await connection.request(
                request, InitProducerIdResponse, timeout_ms=self._options.request_timeout_ms, version=version
            )
            raise_for(response.error_code, f"{self._id} cannot be taken")
            ongoing = Identity(response.ongoing_txn_producer_id, response.ongoing_txn_producer_epoch)
            identity = Identity(response.producer_id, response.producer_epoch)
            return Initiated(identity, ongoing if ongoing.producer_id >= 0 else None)

        return await self._ask(CoordinatorKind.TRANSACTION, self._id, attempt)

    async def add_partitions(self, identity: Identity, partitions: Iterable[TopicPartition]) -> None:
        """Add partitions to the transaction (classic)."""
        topics: dict[str, list[i32]] = defaultdict(list)
        for name, partition in partitions:
            topics[name].append(i32(partition))
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self._id,
            v3_and_below_producer_id=ProducerId(identity.producer_id),
            v3_and_below_producer_epoch=i16(identity.producer_epoch),
            v3_and_below_topics=tuple(
                AddPartitionsToTxnTopic(name=TopicName(name), partitions=tuple(indexes))
                for name, indexes in topics.items()
            ),
        )

        async def attempt(connection: Connection) -> None:
            response = await connection.request(
                request, AddPartitionsToTxnResponse, timeout_ms=self._options.request_timeout_ms
            )
            # Where one fails the others are not attempted: the error that says why comes first.
            errors = [
                (each.partition_error_code, f"{topic.name}-{each.partition_index}")
                for topic in response.results_by_topic_v3_and_below
                for each in topic.results_by_partition
                if each.partition_error_code
            ]
            for code, where in sorted(errors, key=lambda each: each[0] == ErrorCode.operation_not_attempted):
                raise_for(code, f"{where} cannot be added to the transaction")

        await self._ask(CoordinatorKind.TRANSACTION, self._id, attempt)

    async def add_group(self, identity: Identity, group_id: str) -> None:
        """Add the offsets of a group to the transaction (classic)."""
        request = AddOffsetsToTxnRequest(
            transactional_id=self._id,
            producer_id=ProducerId(identity.producer_id),
            producer_epoch=i16(identity.producer_epoch),
            group_id=GroupId(group_id),
        )

        async def attempt(connection: Connection) -> None:
            response = await connection.request(
                request, AddOffsetsToTxnResponse, timeout_ms=self._options.request_timeout_ms
            )
            raise_for(response.error_code, f"the group {group_id} cannot be added to the transaction")

        await self._ask(CoordinatorKind.TRANSACTION, self._id, attempt)

    async def commit_offsets(
        self,
        identity: Identity,
        offsets: Mapping[TopicPartition, OffsetAndMetadata],
        group: ConsumerGroupMetadata,
        *,
        is_implicit: bool,
    ) -> None:
        """Commit offsets of a group as part of the transaction."""
        topics: dict[str, list[TxnOffsetCommitRequestPartition]] = defaultdict(list)
        for (name, partition), (offset, metadata, leader_epoch) in offsets.items():
            topics[name].append(
                TxnOffsetCommitRequestPartition(
                    partition_index=i32(partition),
                    committed_offset=i64(offset),
                    committed_leader_epoch=i32(leader_epoch),
                    committed_metadata=metadata,
                )
            )
        request = TxnOffsetCommitRequest(
            transactional_id=self._id,
            group_id=GroupId(group.group_id),
            producer_id=ProducerId(identity.producer_id),
            producer_epoch=i16(identity.producer_epoch),
            generation_id=i32(group.generation_id),
            member_id=group.member_id,
            group_instance_id=group.group_instance_id,
            topics=tuple(
                TxnOffsetCommitRequestTopic(name=TopicName(name), partitions=tuple(each))
                for name, each in topics.items()
            ),
        )

        async def attempt(connection: Connection) -> None:
            newest = int(request.__version__) if is_implicit else NEWEST_CLASSIC_OFFSETS
            response = await connection.request(
                request,
                TxnOffsetCommitResponse,
                timeout_ms=self._options.request_timeout_ms,
                version=connection.version_of(ApiKey.TXN_OFFSET_COMMIT, newest),
            )
            for topic in response.topics:
                for each in topic.partitions:
                    raise_for(each.error_code, f"the offset of {topic.name}-{each.partition_index}")

        await self._ask(CoordinatorKind.GROUP, group.group_id, attempt)

    async def end(self, identity: Identity, *, commit: bool, is_implicit: bool) -> Identity:
        """End the transaction; return who the producer is in the next one."""
        timeout_ms, max_block_ms = self._options.request_timeout_ms, self._options.max_block_ms
        connection = self._coordinators.open_connection(CoordinatorKind.TRANSACTION, self._id)
        if is_implicit and connection is not None:
            began = self._loop.time()
            ended = await end_at_once(connection, self._id, identity, commit=commit, timeout_ms=timeout_ms)
            if ended is not None:
                return ended
            max_block_ms -= int((self._loop.time() - began) * 1000)
        request = EndTxnRequest(
            transactional_id=self._id,
            producer_id=ProducerId(identity.producer_id),
            producer_epoch=i16(identity.producer_epoch),
            committed=commit,
        )

        async def attempt(connection: Connection) -> Identity:
            newest = int(request.__version__) if is_implicit else NEWEST_CLASSIC_END
            version = connection.version_of(ApiKey.END_TXN, newest)
            response = await connection.request(
                request, EndTxnResponse, timeout_ms=timeout_ms, version=version
            )
            raise_for(response.error_code, f"the transaction of {self._id} cannot be ended")
            if response.producer_id < 0:
                return identity
            return Identity(response.producer_id, response.producer_epoch)

        return await self._ask(CoordinatorKind.TRANSACTION, self._id, attempt, max_block_ms)

    async def prepare(self, identity: Identity) -> None:
        """Let the transaction wait for its end without a timeout, where that has to be asked for.

        That is so with Ottla; in Kafka a two-phase transaction never times out at all.
        """
        request = PrepareTransactionRequest(
            transactional_id=self._id,
            producer_id=ProducerId(identity.producer_id),
            producer_epoch=i16(identity.producer_epoch),
        )

        async def attempt(connection: Connection) -> None:
            if ApiKey.PREPARE_TRANSACTION in connection.session.versions:
                response = await connection.request(
                    request, PrepareTransactionResponse, timeout_ms=self._options.request_timeout_ms
                )
                raise_for(response.error_code, response.error_message)

        await self._ask(CoordinatorKind.TRANSACTION, self._id, attempt)

    async def _ask(
        self,
        kind: CoordinatorKind,
        key: str,
        ask: Callable[[Connection], Awaitable[Result]],
        max_block_ms: int | None = None,
    ) -> Result:
        async def attempt() -> Result:
            try:
                return await ask(await self._coordinators.connect(kind, key))
            except (KafkaError, ClientError) as error:
                if not isinstance(error, KafkaError) or error.code in _ANOTHER_COORDINATOR:
                    self._coordinators.forget(kind, key)
                raise

        return await self._cluster.retrying(
            attempt,
            also=RETRIABLE,
            wait_for_brokers=True,
            timeout_ms=self._options.max_block_ms if max_block_ms is None else max_block_ms,
            backoff=BACKOFF,
        )


_ANOTHER_COORDINATOR = frozenset({ErrorCode.not_coordinator, ErrorCode.coordinator_not_available})
