"""Transactions: what is sent between begin and commit becomes visible together, or not at all.

The states are in transaction_state.py; background_commits.py lets the next transaction begin early.
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
"""From this level of the feature on partitions join by being used, and every end gives a new epoch."""

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
        """Whether a coordinator may know of the transaction, so that it has to be ended."""
        self._may_be_unused = False
        """Whether the coordinator may as well know nothing of it."""
        self._adding = asyncio.Lock()
        self._failure: Exception | None = None
        self._turn = asyncio.Lock()
        sender.may_send = lambda partition: self.state is State.OPEN and partition in self._joined

    @property
    def is_open(self) -> bool:
        """Whether a transaction takes records now."""
        return self.state is State.OPEN

    @property
    def is_fenced(self) -> bool:
        """Whether nothing can be done any more with this producer."""
        return self.state is State.FENCED

    async def init(self, *, keep_prepared: bool = False) -> PreparedTransaction | None:
        """Take the transactional id, which fences whoever had it; what that one left open is aborted.

        With `keep_prepared`, a prepared transaction is left as it is, and returned; commit or abort it.
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
        """Begin a transaction; take the transactional id first if that was not done."""
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
        """Let a partition that is written to into the transaction; False if it is too late for that."""
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
        """Make offsets of a group part of the transaction."""
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
        """Deliver everything, then commit; TransactionFailed if something could not be delivered."""
        async with self._turn:
            self._require(State.OPEN, State.PREPARED, State.COMMITTING)
            if self.state is State.OPEN:
                await self._deliver_all()
            self.state = State.COMMITTING
            await self._end(commit=True)

    async def prepare(self) -> PreparedTransaction:
        """Deliver everything, then promise that the transaction can be committed, however late that is."""
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
        """Give the transaction up: nothing of it will be seen by those who read what is committed."""
        async with self._turn:
            self._require(State.OPEN, State.PREPARED, State.FAILED, State.ABORTING)
            self.state = State.ABORTING
            self._to_add.clear()
            self._sender.drop_everything(TransactionAborted("the transaction was aborted"))
            await self._deliver()  # what is under way has to land before the end of the transaction
            async with self._adding:
                await self._end(commit=False)

    async def leave(self) -> None:
        """Abort what is open, because the producer is closed; what is prepared stays as it is."""
        if self.state in (State.OPEN, State.FAILED, State.ABORTING):
            await self.abort()
        elif self.state is State.COMMITTING:
            await self.commit()

    async def keep_adding(self) -> None:
        """Add partitions to the transaction as they come, until cancelled (classic)."""
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
            self._is_used |= isinstance(error, ClientError)  # without an answer, nobody knows
            self._fail(error)
            return
        self._is_used = True
        if self.state is State.OPEN:
            self._joined |= wanted
            self._to_add -= wanted
            self._sender.notify_all()

    def batch_failed(self, error: Exception) -> None:
        """Take note that records of the transaction could not be stored."""
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
                    # Numbers are missing, and the epoch is the old one: a new one to begin with 0 again.
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
        """Take note of a request that failed for good: the transaction, or the producer, is over."""
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
