"""Transactions: records sent between begin and commit become visible together, or not at all.

The states are in transaction_calls.py; background_commits.py lets the next transaction begin early.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import NoReturn

from kio.schema.errors import ErrorCode

from ottla.client.admin.group_types import ConsumerGroupMetadata, OffsetAndMetadata
from ottla.client.cluster import Cluster
from ottla.client.errors import ClientError, TransactionAborted, TransactionFailed, WrongTransactionState
from ottla.client.producer.batch import Identity
from ottla.client.producer.options import ProducerOptions
from ottla.client.producer.sender import Sender
from ottla.client.producer.transaction_calls import FATAL, HINTS, PreparedTransaction, State, TransactionCalls
from ottla.common.ids import TopicPartition
from ottla.protocol.errors import InvalidTxnState, KafkaError
from ottla.protocol.produce_client import FIRST_IMPLICIT_VERSION, LAST_VERSION

FEATURE = "transaction.version"
IMPLICIT_FROM = 2
"""From this feature level on, writing adds partitions (KIP-890), and each EndTxn returns a new epoch."""

Offsets = Mapping[TopicPartition, OffsetAndMetadata | int]


class Transactions:
    """The transactions of one producer."""

    def __init__(
        self,
        cluster: Cluster,
        options: ProducerOptions,
        sender: Sender,
        deliver: Callable[[], Awaitable[None]],
    ) -> None:
        self.state = State.NEW
        self.identity = Identity()
        self._cluster = cluster
        self._options = options
        self._sender = sender
        self._deliver = deliver
        self._calls = TransactionCalls(cluster, options)
        self._is_implicit = False
        self._joined: set[TopicPartition] = set()
        """The partitions that may be written to."""
        self._to_add: set[TopicPartition] = set()
        self._has_to_add = asyncio.Event()
        self._groups: set[str] = set()
        self._is_used = False
        """Whether the coordinator may know of the transaction, so that it must be ended."""
        self._may_be_unused = False
        """Whether it is possible that the coordinator does not know of it."""
        self._adding = asyncio.Lock()
        self._failure: Exception | None = None
        self._turn = asyncio.Lock()
        sender.may_send = lambda partition: self.state is State.OPEN and partition in self._joined

    @property
    def is_open(self) -> bool:
        """Whether records can be sent in a transaction now."""
        return self.state is State.OPEN

    @property
    def has_failed(self) -> bool:
        """Whether the transaction can only be aborted."""
        return self.state is State.FAILED

    @property
    def is_fenced(self) -> bool:
        """Whether the producer is fenced for good."""
        return self.state is State.FENCED

    def abort_failed(self, late: Exception, error: BaseException) -> None:
        """Add to `error`, after which the transaction was to be aborted, that this failed too.

        If a fenced producer is the cause of both, raise that instead.
        """
        if self.is_fenced and isinstance(error, TransactionFailed):
            raise late from error
        error.add_note(f"beside that, the transaction could not be aborted: {late}")

    async def init(self, *, keep_prepared: bool = False) -> PreparedTransaction | None:
        """Acquire the transactional id, which fences its previous producer and aborts an open transaction.

        With `keep_prepared`, a prepared transaction is kept and returned; commit or abort it.
        """
        async with self._turn:
            self._require(State.NEW)
            if keep_prepared and not self._options.transaction_two_phase_commit_enable:
                raise WrongTransactionState("keep_prepared needs transaction_two_phase_commit_enable")
            try:
                self.identity, ongoing = await self._calls.init(Identity(), keep_prepared=keep_prepared)
            except KafkaError as error:
                self._fence_if_fatal(error)
                raise
            self._choose_generation()
            if ongoing is None:
                self.state = State.READY
                return None
            self.state = State.PREPARED
            self._is_used = True
            return PreparedTransaction(*ongoing)

    async def begin(self) -> None:
        """Begin a transaction; acquire the transactional id first if necessary."""
        if self.state is State.NEW:
            await self.init()
        async with self._turn:
            self._require(State.READY)
            self._open()

    def _open(self) -> None:
        self._choose_generation()
        self._joined.clear()
        self._to_add.clear()
        self._groups.clear()
        self._is_used = self._may_be_unused = False
        self._sender.give_up = None
        self.state = State.OPEN

    def check_sending(self) -> None:
        """Raise unless records may be sent now."""
        if self.state is not State.OPEN:
            self._require(State.OPEN)

    def joins(self, partition: TopicPartition) -> bool:
        """Add a partition to the transaction; return False if it is too late."""
        if self.state is not State.OPEN:
            return False
        if partition in self._joined or partition in self._to_add:
            return True
        self._sender.begin_with(partition, self.identity)
        if self._is_implicit:
            self._joined.add(partition)
            self._is_used = True
        else:
            self._to_add.add(partition)
            self._has_to_add.set()
        return True

    async def send_offsets(self, offsets: Offsets, group: ConsumerGroupMetadata | str) -> None:
        """Add offsets of a group to the transaction."""
        group = ConsumerGroupMetadata(group) if isinstance(group, str) else group
        if not isinstance(group, ConsumerGroupMetadata):
            raise TypeError(f"give consumer.group_metadata(), or the group's id, not {group!r}")
        async with self._turn:
            self._require(State.OPEN)
            if not offsets:
                return
            wanted = {
                partition: each if isinstance(each, OffsetAndMetadata) else OffsetAndMetadata(each)
                for partition, each in offsets.items()
            }
            self._is_used = True
            try:
                if not self._is_implicit and group.group_id not in self._groups:
                    await self._calls.add_group(self.identity, group.group_id)
                    self._groups.add(group.group_id)
                await self._calls.commit_offsets(self.identity, wanted, group, is_implicit=self._is_implicit)
            except (KafkaError, ClientError) as error:
                self._fail(error)
                raise

    async def commit(self) -> None:
        """Deliver all records, then commit; raise TransactionFailed if one could not be delivered."""
        async with self._turn:
            self._require(State.OPEN, State.PREPARED, State.COMMITTING)
            if self.state is State.OPEN:
                await self._deliver_all()
            self.state = State.COMMITTING
            await self._end(commit=True)

    async def prepare(self) -> PreparedTransaction:
        """Deliver all records, then prepare the transaction."""
        async with self._turn:
            if not self._options.transaction_two_phase_commit_enable:
                raise WrongTransactionState("preparing needs transaction_two_phase_commit_enable")
            self._require(State.OPEN)
            await self._deliver_all()
            if not self._is_used:
                raise WrongTransactionState("there is nothing in the transaction to be prepared")
            try:
                await self._calls.prepare(self.identity)
            except KafkaError as error:
                self._fail(error)
                raise
            self.state = State.PREPARED
            return PreparedTransaction(*self.identity)

    async def abort(self) -> None:
        """Abort the transaction."""
        async with self._turn:
            self._require(State.OPEN, State.PREPARED, State.FAILED, State.ABORTING)
            self.state = State.ABORTING
            self._to_add.clear()
            self._sender.drop_everything(TransactionAborted("the transaction was aborted"))
            await self._deliver()  # batches in flight must be stored before the transaction ends
            async with self._adding:
                await self._end(commit=False)

    async def leave(self) -> None:
        """Abort an open transaction when the producer is closed; keep a prepared one."""
        if self.state in (State.OPEN, State.FAILED, State.ABORTING):
            await self.abort()
        elif self.state is State.COMMITTING:
            await self.commit()

    async def keep_adding(self) -> None:
        """Add partitions to the transaction as they are written to, until cancelled (classic)."""
        while True:
            await self._has_to_add.wait()
            self._has_to_add.clear()
            async with self._adding:
                await self._add(set(self._to_add))

    async def _add(self, wanted: set[TopicPartition]) -> None:
        if not wanted:
            return
        try:
            await self._calls.add_partitions(self.identity, wanted)
        except (KafkaError, ClientError) as error:
            self._may_be_unused |= not self._is_used
            self._is_used |= isinstance(error, ClientError)  # without a response it is unknown
            self._fail(error)
            return
        self._is_used = True
        if self.state is State.OPEN:
            self._joined |= wanted
            self._to_add -= wanted
            self._sender.notify_all()

    def batch_failed(self, error: Exception) -> None:
        """Fail the transaction because a record could not be stored."""
        if self.state is State.OPEN:
            self._failure = error
            self.state = State.FAILED
            self._sender.drop_everything(self._failed())

    def raise_if_failed(self) -> None:
        """Raise if the transaction cannot be committed any more."""
        if self.state in (State.FAILED, State.FENCED):
            self._refuse()

    async def _deliver_all(self) -> None:
        await self._deliver()
        self._require(State.OPEN)

    async def _end(self, *, commit: bool) -> None:
        ended = self.identity
        if self._is_used:
            try:
                ended = await self._end_it(commit)
                if ended == self.identity and self._sender.has_gaps():
                    # There is a sequence gap in this epoch: get a new epoch, which starts at 0.
                    ended, _ = await self._calls.init(self.identity)
            except KafkaError as error:
                self._fence_if_fatal(error)
                if self.state is State.COMMITTING and error.code == ErrorCode.transaction_abortable:
                    self._failure = error
                    self.state = State.FAILED
                raise
        self.identity = ended
        self._sender.begin_all_with(ended)
        self._failure = None
        self._joined.clear()
        self._is_used = False
        self.state = State.READY

    async def _end_it(self, commit: bool) -> Identity:
        try:
            return await self._calls.end(self.identity, commit=commit, is_implicit=self._is_implicit)
        except InvalidTxnState:
            if commit or not self._may_be_unused:
                raise
            return self.identity  # there was nothing to abort

    def _choose_generation(self) -> None:
        self._is_implicit = self._cluster.features.get(FEATURE, 0) >= IMPLICIT_FROM
        self._sender.newest_version = LAST_VERSION if self._is_implicit else FIRST_IMPLICIT_VERSION - 1

    def _fail(self, error: KafkaError | ClientError) -> None:
        """Fail the transaction, or the producer, after a permanent error."""
        if isinstance(error, KafkaError):
            self._fence_if_fatal(error)
        if self.state is State.OPEN:
            self._failure = error
            self.state = State.FAILED
        self._sender.drop_everything(self._failed())

    def _fence_if_fatal(self, error: KafkaError) -> None:
        if error.code in FATAL:
            self._failure = error
            self.state = State.FENCED

    def _failed(self) -> TransactionFailed:
        failed = TransactionFailed(f"the transaction has failed, abort it: {self._failure}")
        failed.__cause__ = self._failure
        return failed

    def _require(self, *states: State) -> None:
        if self.state not in states:
            self._refuse()

    def _refuse(self) -> NoReturn:
        if self.state is State.FENCED and self._failure is not None:
            raise self._failure
        if self.state is State.FAILED:
            raise self._failed()
        raise WrongTransactionState(f"not while {self.state.value}: {HINTS[self.state]}")
