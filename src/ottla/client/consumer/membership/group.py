"""A consumer's group: its committed offsets, and the membership while there is a subscription."""

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
from ottla.common.tasks import cancel_and_wait
from ottla.protocol.errors import KafkaError

log = logging.getLogger(__name__)

LEAVE_TIMEOUT_S = 5.0


class Group:
    """The group of one consumer."""

    LEAVE_TIMEOUT_S = LEAVE_TIMEOUT_S

    def __init__(
        self,
        group_id: str,
        cluster: Cluster,
        options: ConsumerOptions,
        assignment: Assignment,
        call: Caller,
        *,
        on_change: Callable[[], None],
        on_pending_step: Callable[[], None],
        on_error: Callable[[Exception, bool], None],
    ) -> None:
        self.steps = RebalanceTaskQueue(on_pending=on_pending_step)
        self._group_id = group_id
        self._cluster = cluster
        self._options = options
        self._assignment = assignment
        self._on_pending_step = on_pending_step
        self._coordinators = Coordinators(cluster)
        self.commits = Commits(cluster, self._coordinators, options, self)
        self.queue = CommitQueue(self.commits, options.auto_commit_interval_ms, on_due=on_pending_step)
        self.rebalances = Rebalances(
            assignment,
            self.steps,
            call,
            self._commit_consumed if options.enable_auto_commit else None,
            on_change=on_change,
            on_error=on_error,
        )
        self._auto_commits = options.enable_auto_commit
        self.topics: Topics | None = None
        self._membership: Membership | None = None
        self._task: asyncio.Task[None] | None = None

    @property
    def identity(self) -> ConsumerGroupMetadata:
        """The member id and the generation or epoch of this consumer."""
        if self._membership is not None:
            return self._membership.identity
        return ConsumerGroupMetadata(self._group_id)

    @property
    def signature(self) -> ConsumerGroupMetadata:
        """The identity that commits carry: the last one, if the group has fenced this member."""
        return self.identity if self._membership is None else self._membership.signature

    def disable_commits(self) -> None:
        """Commit nothing when leaving: the records returned last are not processed."""
        self._auto_commits = False
        self.rebalances.commit = None

    def subscribe(self, topics: Topics) -> None:
        """Subscribe to topics; the group is joined, or informed, with the next call for records."""
        self.topics = topics
        if self._membership is not None:
            self._membership.resubscribe(topics)
        self._on_pending_step()

    def before_poll(self) -> None:
        """Join the group if necessary, and start an automatic commit if it is due."""
        if self.topics is not None and self._task is None:
            self._join(self.topics)
        if self._options.enable_auto_commit and self.queue.is_due():
            offsets = self._assignment.consumed()
            if offsets:
                self.queue.post(offsets)

    async def leave(self) -> None:
        """Commit (with enable_auto_commit), call the listener, leave the group; at most a few seconds."""
        await cancel_and_wait(self._task)
        try:
            async with asyncio.timeout(LEAVE_TIMEOUT_S):
                await self._revoke_all()
                if self._membership is not None:
                    await self._membership.leave()
        except TimeoutError:
            log.warning(
                "could not leave the group within %g s, its session will time out",
                LEAVE_TIMEOUT_S,
            )
        except (KafkaError, ClientError) as error:
            log.warning("could not leave the group, its session will time out: %s", error)
        finally:
            membership, self._membership = self._membership, None
            self.topics = self._task = None
            if membership is not None:
                await membership.close()

    async def close(self) -> None:
        """Cancel the background tasks."""
        tasks = [] if self._task is None else [self._task]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self.steps.close()
        await self.queue.close()
        if self._membership is not None:
            await self._membership.close()

    async def _revoke_all(self) -> None:
        owned = self._assignment.partitions
        if owned and self._membership is not None:
            await self.rebalances.revoke_now(owned)
        elif owned and self.topics is None and self._auto_commits:
            await self._commit_consumed(owned)

    async def _commit_consumed(self, partitions: Collection[TopicPartition]) -> None:
        await self.queue.finish(LEAVE_TIMEOUT_S)  # earlier commits must not arrive after this one
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
        """Join again with the next call; report an unexpected error."""
        if self._task is task:
            self._task = None
        if not task.cancelled() and task.exception() is not None:
            error = task.exception()
            log.error("the membership in group %s failed", self._group_id, exc_info=error)
            if isinstance(error, Exception):
                self.rebalances.report(error, is_fatal=False)
