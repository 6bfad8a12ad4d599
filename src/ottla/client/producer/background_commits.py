"""Commits in the background: the next transaction collects records while the last one is being committed.

A commit waits for acks, and then for the response to EndTxn. After `commit_in_background` the next
transaction may begin at once. Its records wait in their queues: they are numbered and sent when the commit
has completed and the producer knows its new epoch. There is at most one commit in the background: other
calls (another commit, an abort, offsets) wait for it.

If the commit fails, or its response is lost, the transaction that began after it has failed too and can only
be aborted: its commit must not be mistaken for the commit of the last one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Literal

from ottla.client.cluster import Cluster
from ottla.client.errors import TransactionFailed
from ottla.client.producer.accumulator import Accumulator
from ottla.client.producer.batch import Batch
from ottla.client.producer.options import ProducerOptions
from ottla.client.producer.sender import Sender
from ottla.client.producer.transaction_calls import State
from ottla.client.producer.transactions import Transactions
from ottla.common.ids import TopicPartition


class BackgroundCommits(Transactions):
    """The transactions of one producer, of which one may be committed while the next has begun."""

    def __init__(
        self,
        cluster: Cluster,
        options: ProducerOptions,
        sender: Sender,
        accumulator: Accumulator,
        deliver: Callable[[], Awaitable[None]],
        on_open: Callable[[bool], None],
    ) -> None:
        self._on_open = on_open
        self.is_ahead = False
        """Whether the next transaction has begun, and waits for the last one to be committed."""
        super().__init__(cluster, options, sender, deliver)
        self._accumulator = accumulator
        self._commit: asyncio.Task[None] | None = None
        """The commit in the background."""
        self._late_failure: Exception | None = None
        """Why a record was not stored that was sent before the commit, or after it."""
        self._turn = _LockAfterCommit(self._committed)
        sender.may_send = lambda partition: (
            partition in self._joined and (self.state is State.OPEN or self._commit is not None)
        )

    @property
    def state(self) -> State:
        """Where the producer is; while the next transaction has begun already, where it is with the last."""
        return self._state

    @state.setter
    def state(self, state: State) -> None:
        self._state = state
        self._on_open(self.is_open)

    @property
    def is_open(self) -> bool:
        """Whether records can be sent in a transaction now."""
        return self.is_ahead or self._state is State.OPEN

    async def begin(self) -> None:
        """Begin a transaction, also while the last one is being committed."""
        if self._commit is None or self.is_ahead:
            await super().begin()
        else:
            self.is_ahead = True
            self._on_open(True)

    def check_sending(self) -> None:
        """Raise unless records may be sent now."""
        if not self.is_ahead:
            super().check_sending()

    def joins(self, partition: TopicPartition) -> bool:
        """Let a partition into the transaction, or later, when the one before is committed."""
        return self.is_ahead or super().joins(partition)

    def batch_failed(self, error: Exception) -> None:
        """Fail the transaction because a record could not be stored."""
        if self._commit is None:
            super().batch_failed(error)
        elif self._late_failure is None:
            self._late_failure = error
            self._sender.drop_everything(TransactionFailed(f"another record of it was not stored: {error}"))

    async def commit_in_background(self) -> asyncio.Future[None]:
        """Commit in the background and return its future."""
        async with self._turn:
            self._require(State.OPEN)
            if not self._is_implicit:  # what is still to be added to it, is added now or never
                await self._deliver_all()
            sent = self._accumulator.hold_back()
            self.state = State.COMMITTING
            self._late_failure = None
            self._commit = asyncio.get_running_loop().create_task(self._commit_after(sent))
            self._sender.notify_all()
            return asyncio.shield(self._commit)

    async def leave(self) -> None:
        """Abort what is open, because the producer is closed, after what is being committed."""
        await self._committed()
        await super().leave()

    def stop(self) -> None:
        """Cancel the commit in the background."""
        if self._commit is not None:
            self._commit.cancel()

    async def _committed(self) -> None:
        """Wait until no background commit is in flight; its own future has the result."""
        if self._commit is not None:
            await asyncio.wait([self._commit])

    async def _commit_after(self, sent: list[Batch]) -> None:
        """Commit when all that was sent is stored; then the next transaction continues, or has failed too."""
        try:
            for batch in sent:
                await batch.settled()
            if self._late_failure is not None:
                self._fail_with(self._late_failure)
                self.raise_if_failed()
            await self._end(commit=True)
        except Exception as error:
            if self.is_ahead and self.state is not State.FAILED:
                self._fail_with(error)
            raise
        else:
            if self.is_ahead:
                self._open()
        finally:
            self._commit = None
            self.is_ahead = False
            self._on_open(self.is_open)
            self._accumulator.hold_back_no_more()
            self._go_on()

    def _go_on(self) -> None:
        """Let the records of the next transaction be sent, or drop them."""
        if self.state is State.OPEN and self._late_failure is not None:
            self._fail_with(self._late_failure)
        if self.state is not State.OPEN:
            return
        for queue in self._accumulator.active():
            self.joins(queue.partition)
        self._sender.notify_all()

    def _fail_with(self, error: Exception) -> None:
        """Let the transaction be one that can only be aborted, unless the producer is over altogether."""
        if self.state is not State.FENCED:
            self._failure = error
            self.state = State.FAILED
        self._sender.drop_everything(self._failed())


class _LockAfterCommit(asyncio.Lock):
    """Serializes the calls, after the commit in the background."""

    def __init__(self, others: Callable[[], Awaitable[None]]) -> None:
        super().__init__()
        self._others = others

    async def acquire(self) -> Literal[True]:
        """Wait for all of them."""
        await super().acquire()
        try:
            await self._others()
        except BaseException:
            self.release()
            raise
        return True
