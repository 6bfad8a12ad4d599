"""What both kinds of membership in a group share: who we are, how we ask the coordinator, when we are late.

A membership runs in the background. It never touches partitions itself: it hands steps to `GroupEvents`,
which runs them when the application asks for records.
"""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection
from typing import Protocol, TypeVar

from kio.schema.errors import ErrorCode
from kio.static.protocol import Payload

from ottla.client.admin.group_types import ConsumerGroupMetadata
from ottla.client.cluster import Cluster, passes
from ottla.client.consumer.dedicated_connections import DedicatedConnections
from ottla.client.consumer.membership.commits import ANOTHER_COORDINATOR
from ottla.client.consumer.options import ConsumerOptions
from ottla.client.consumer.subscription import Topics
from ottla.client.coordinators import NOT_COORDINATOR, CoordinatorKind, Coordinators
from ottla.client.errors import ClientClosed, ClientError
from ottla.common.ids import TopicPartition
from ottla.protocol.errors import KafkaError
from ottla.wire.connection import Connection

log = logging.getLogger(__name__)

MISSING_TOPICS_S = 2.0
"""How often to look for topics that are subscribed to and do not exist."""

Response = TypeVar("Response", bound=Payload)
Partitions = Collection[TopicPartition]


class GroupEvents(Protocol):
    """What a membership asks of its consumer; all but `owned` wait for the application to ask for records."""

    @property
    def owned(self) -> frozenset[TopicPartition]:
        """The partitions that are read now."""
        ...

    @property
    def idle_ms(self) -> float:
        """For how long the application has not asked for records; 0 while it does."""
        ...

    async def change(
        self, revoked: Partitions, assigned: Partitions, holds: Callable[[], bool] = lambda: True
    ) -> None:
        """Give up some partitions, then read exactly `assigned`, if that still holds by then."""
        ...

    async def revoke(self, partitions: Partitions, holds: Callable[[], bool]) -> None:
        """Give up partitions; if it does not hold any more by then that they are ours, they are lost."""
        ...

    async def lose(self, partitions: Partitions) -> None:
        """Give up partitions that others may read already."""
        ...

    def report(self, error: Exception, *, is_fatal: bool) -> None:
        """Let the application know of an error: once, or every time that it asks for records."""
        ...


class Membership(ABC):
    """Being in a group."""

    def __init__(
        self,
        cluster: Cluster,
        coordinators: Coordinators,
        options: ConsumerOptions,
        topics: Topics,
        events: GroupEvents,
    ) -> None:
        self.topics = topics
        self._cluster = cluster
        self._coordinators = coordinators
        self._options = options
        self._group_id = options.group_id or ""
        self._events = events
        self._loop = asyncio.get_running_loop()
        self._lines = DedicatedConnections(cluster)
        self._failures = 0
        self._signature: ConsumerGroupMetadata | None = None

    @property
    @abstractmethod
    def identity(self) -> ConsumerGroupMetadata:
        """Who we are in the group now."""

    @property
    def signature(self) -> ConsumerGroupMetadata:
        """Who we are, or were last: whoever has been shut out does not commit as a stranger may."""
        return self._signature or self.identity

    @abstractmethod
    async def run(self) -> None:
        """Be a member until cancelled."""

    @abstractmethod
    def resubscribe(self, topics: Topics) -> None:
        """Tell the group of another subscription."""

    @abstractmethod
    async def leave(self) -> None:
        """Say goodbye; a static member keeps its place until its session is over."""

    async def close(self) -> None:
        """Close the connections."""
        await self._lines.close()

    @property
    def _is_late(self) -> bool:
        """Whether the application has not asked for records for so long that it counts as stuck."""
        return self._events.idle_ms > self._options.max_poll_interval_ms

    async def _ask(
        self, request: Payload, response_type: type[Response], timeout_ms: float | None = None
    ) -> Response:
        """Ask the coordinator; forget who that is if it cannot be reached."""
        connection = await self._coordinator()
        timeout_ms = self._options.request_timeout_ms if timeout_ms is None else timeout_ms
        try:
            return await connection.request(request, response_type, timeout_ms=timeout_ms)
        except ClientError:
            self._coordinators.forget(CoordinatorKind.GROUP, self._group_id)
            raise

    async def _coordinator(self) -> Connection:
        node_id = await self._coordinators.find(CoordinatorKind.GROUP, self._group_id)
        try:
            return await self._lines.to(node_id)
        except ClientError:
            self._coordinators.forget(CoordinatorKind.GROUP, self._group_id)
            raise

    async def _recover(
        self, error: KafkaError | ClientError, *, also: frozenset[ErrorCode] = frozenset()
    ) -> bool:
        """Wait a little if an error passes by itself; else report it. Return whether it passes."""
        if isinstance(error, ClientClosed):
            return False
        if isinstance(error, KafkaError) and error.code in ANOTHER_COORDINATOR:
            self._coordinators.forget(CoordinatorKind.GROUP, self._group_id)
        if not passes(error, also=NOT_COORDINATOR | also):
            is_fatal = isinstance(error, KafkaError) and error.code == ErrorCode.fenced_instance_id
            self._events.report(error, is_fatal=is_fatal)
            return False
        self._failures += 1
        level = logging.WARNING if isinstance(error, ClientError) else logging.INFO
        log.log(level, "group %s: %s; trying again", self._group_id, error)
        await asyncio.sleep(self._cluster.backoff.pause_ms(self._failures) / 1000)
        return True

    async def _watch_topics(self, counts: dict[str, int] | None) -> None:
        """Return when the subscription matches other topics, or one has another number of partitions.

        Only topics in `counts` are looked at, and those that are subscribed to and missing there; None: only
        a pattern is.
        """
        names = self.topics.names
        while True:
            missing = counts is not None and not names <= counts.keys()
            pause_s = self._options.metadata_max_age_ms / 1000
            await asyncio.sleep(min(pause_s, MISSING_TOPICS_S) if missing else pause_s)
            try:
                if await self.topics.find() != names:
                    return
                if counts is not None and await self.topics.partition_counts(names | counts.keys()) != counts:
                    return
            except (KafkaError, ClientError) as error:
                log.info("group %s: cannot look at its topics: %s", self._group_id, error)
