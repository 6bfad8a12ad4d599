"""The base of the two membership protocols: identity, requests to the coordinator, retries.

A membership runs in the background. It never changes the assignment itself: it submits steps to
`GroupEvents`, which runs them during the application's calls for records.
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
from ottla.client.cluster import Cluster, is_retriable
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
"""How often to look for subscribed topics that do not exist yet."""

Response = TypeVar("Response", bound=Payload)
Partitions = Collection[TopicPartition]


class GroupEvents(Protocol):
    """The consumer as a membership sees it; `change`, `revoke` and `lose` wait for a call for records."""

    @property
    def owned(self) -> frozenset[TopicPartition]:
        """The assigned partitions."""
        ...

    @property
    def idle_ms(self) -> float:
        """The time since the application's last call for records ended; 0 during a call."""
        ...

    async def change(
        self, revoked: Partitions, assigned: Partitions, holds: Callable[[], bool] = lambda: True
    ) -> None:
        """Revoke partitions, then assign exactly `assigned`, if `holds` then still returns True."""
        ...

    async def revoke(self, partitions: Partitions, holds: Callable[[], bool]) -> None:
        """Revoke partitions; if `holds` returns False by then, they are lost instead."""
        ...

    async def lose(self, partitions: Partitions) -> None:
        """Drop partitions that may be assigned to other members already."""
        ...

    def report(self, error: Exception, *, is_fatal: bool) -> None:
        """Raise an error from the next call for records, or, if it is fatal, from every one."""
        ...


class Membership(ABC):
    """A membership in a group."""

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
        self._connections = DedicatedConnections(cluster)
        self._failures = 0
        self._signature: ConsumerGroupMetadata | None = None

    @property
    @abstractmethod
    def identity(self) -> ConsumerGroupMetadata:
        """The member id and the generation or epoch now."""

    @property
    def signature(self) -> ConsumerGroupMetadata:
        """The identity now, or the last one: a fenced member must not commit as a non-member."""
        return self._signature or self.identity

    @abstractmethod
    async def run(self) -> None:
        """Stay a member until cancelled."""

    @abstractmethod
    def resubscribe(self, topics: Topics) -> None:
        """Send a changed subscription to the group."""

    @abstractmethod
    async def leave(self) -> None:
        """Leave the group; a static member keeps its assignment until its session times out."""

    async def close(self) -> None:
        """Close the connections."""
        await self._connections.close()

    @property
    def _exceeded_poll_interval(self) -> bool:
        """Whether the application's last call was longer ago than max_poll_interval_ms."""
        return self._events.idle_ms > self._options.max_poll_interval_ms

    async def _send(
        self, request: Payload, response_type: type[Response], timeout_ms: float | None = None
    ) -> Response:
        """Send a request to the coordinator; look it up again if it cannot be reached."""
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
            return await self._connections.to(node_id)
        except ClientError:
            self._coordinators.forget(CoordinatorKind.GROUP, self._group_id)
            raise

    async def _recover(
        self, error: KafkaError | ClientError, *, also: frozenset[ErrorCode] = frozenset()
    ) -> bool:
        """Pause after a retriable error; report any other. Return whether it is retriable."""
        if isinstance(error, ClientClosed):
            return False
        if isinstance(error, KafkaError) and error.code in ANOTHER_COORDINATOR:
            self._coordinators.forget(CoordinatorKind.GROUP, self._group_id)
        if not is_retriable(error, also=NOT_COORDINATOR | also):
            is_fatal = isinstance(error, KafkaError) and error.code == ErrorCode.fenced_instance_id
            self._events.report(error, is_fatal=is_fatal)
            return False
        self._failures += 1
        level = logging.WARNING if isinstance(error, ClientError) else logging.INFO
        log.log(level, "group %s: %s; retrying", self._group_id, error)
        await asyncio.sleep(self._cluster.backoff.pause_ms(self._failures) / 1000)
        return True

    async def _watch_topics(self, counts: dict[str, int] | None) -> None:
        """Return when the subscription matches other topics, or a topic's number of partitions has changed.

        `counts` has the partitions of the subscribed topics; None: watch only which topics a pattern matches.
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
                log.info("group %s: cannot refresh its topics, retrying: %s", self._group_id, error)
