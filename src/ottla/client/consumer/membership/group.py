"""A consumer's side of its group: its offsets there, and being a member."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection

from ottla.client.admin.group_types import ConsumerGroupMetadata
from ottla.client.cluster import Cluster
from ottla.client.consumer.assignment import Assignment
from ottla.client.consumer.membership.classic import ClassicProtocolMembership
from ottla.client.consumer.membership.commits import CommitQueue, Commits
from ottla.client.consumer.membership.consumer import ConsumerProtocolMembership
from ottla.client.consumer.membership.listener import Caller
from ottla.client.consumer.membership.membership import Membership
from ottla.client.consumer.membership.rebalances import Rebalances, RebalanceTaskQueue
from ottla.client.consumer.options import CLASSIC, ConsumerOptions
from ottla.client.consumer.subscription import Topics
from ottla.client.coordinators import Coordinators
from ottla.client.errors import ClientError
from ottla.common.ids import TopicPartition
from ottla.protocol.errors import KafkaError

log = logging.getLogger(__name__)

LEAVE_WITHIN_S = 5.0


class Group:
    """Commits, and membership while there is a subscription."""

    def __init__(
        self,
        group_id: str,
        cluster: Cluster,
        options: ConsumerOptions,
        assignment: Assignment,
        call: Caller,
        *,
        on_change: Callable[[], None],
        on_turn: Callable[[], None],
        on_error: Callable[[Exception, bool], None],
    ) -> None:
        self.turns = RebalanceTaskQueue(on_wait=on_turn)
        self._group_id = group_id
        self._cluster = cluster
        self._options = options
        self._assignment = assignment
        self._on_turn = on_turn
        self._coordinators = Coordinators(cluster)
        self.commits = Commits(
            cluster, self._coordinators, options, lambda: self.identity, lambda: self.signature
        )
        self.queue = CommitQueue(self.commits, options.auto_commit_interval_ms, on_due=on_turn)
        self.rebalances = Rebalances(
            assignment,
            self.turns,
            call,
            self._commit_consumed if options.enable_auto_commit else None,
            on_change=on_change,
            on_error=on_error,
        )
        self._commits_itself = options.enable_auto_commit
        self.topics: Topics | None = None
        self._membership: Membership | None = None
        self._task: asyncio.Task[None] | None = None

    @property
    def identity(self) -> ConsumerGroupMetadata:
        """Who this consumer is in its group."""
        if self._membership is not None:
            return self._membership.identity
        return ConsumerGroupMetadata(self._group_id)

    @property
    def signature(self) -> ConsumerGroupMetadata:
        """What commits are signed with: who this consumer is in its group, or was before it was shut out."""
        return self.identity if self._membership is None else self._membership.signature

    def commit_no_more(self) -> None:
        """Leave without a commit: what was handed out last has not been dealt with."""
        self._commits_itself = False
        self.rebalances.commit = None

    def subscribe(self, topics: Topics) -> None:
        """Read these topics; the group is joined, or told, when the application asks for records."""
        self.topics = topics
        if self._membership is not None:
            self._membership.resubscribe(topics)
        self._on_turn()

    def attend(self) -> None:
        """Begin what is to be done while the application asks for records: join, and commit if it is time."""
        if self.topics is not None and self._task is None:
            self._join(self.topics)
        if self._options.enable_auto_commit and self.queue.is_due():
            offsets = self._assignment.consumed()
            if offsets:
                self.queue.post(offsets)

    async def leave(self) -> None:
        """Commit if that is wanted, tell the listener, leave the group; no longer than a few seconds."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        try:
            async with asyncio.timeout(LEAVE_WITHIN_S):
                await self._give_up_all()
                if self._membership is not None:
                    await self._membership.leave()
        except TimeoutError:
            log.warning("the group was not told that we leave: it did not answer within %g s", LEAVE_WITHIN_S)
        except (KafkaError, ClientError) as error:
            log.warning("the group was not told that we leave: %s", error)
        finally:
            membership, self._membership = self._membership, None
            self.topics = self._task = None
            if membership is not None:
                await membership.close()

    async def close(self) -> None:
        """Stop all that runs."""
        tasks = [] if self._task is None else [self._task]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self.turns.close()
        await self.queue.close()
        if self._membership is not None:
            await self._membership.close()

    async def _give_up_all(self) -> None:
        owned = self._assignment.partitions
        if owned and self._membership is not None:
            await self.rebalances.give_up(owned)
        elif owned and self.topics is None and self._commits_itself:
            await self._commit_consumed(owned)

    async def _commit_consumed(self, partitions: Collection[TopicPartition]) -> None:
        await self.queue.finish(LEAVE_WITHIN_S)  # an older commit must not come after this one
        await self.commits.commit(self._assignment.consumed(partitions), self._options.session_timeout_ms)

    def _join(self, topics: Topics) -> None:
        if self._membership is None:
            kind = (
                ClassicProtocolMembership
                if self._options.group_protocol == CLASSIC
                else ConsumerProtocolMembership
            )
            self._membership = kind(self._cluster, self._coordinators, self._options, topics, self.rebalances)
        self._task = asyncio.get_running_loop().create_task(self._membership.run(), name="ottla membership")
        self._task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        """Join again with the next call: what ended the membership has been reported."""
        if self._task is task:
            self._task = None
        if not task.cancelled() and task.exception() is not None:
            error = task.exception()
            log.error("the membership in group %s failed", self._group_id, exc_info=error)
            if isinstance(error, Exception):
                self.rebalances.report(error, is_fatal=False)
