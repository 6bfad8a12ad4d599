"""What a consumer subscribes to, and which topics that is now."""

from __future__ import annotations

import re
from collections.abc import Iterable

from ottla.client.cluster import Cluster
from ottla.client.consumer.membership.listener import WrongUse
from ottla.client.metadata import TopicInfo
from ottla.protocol.errors import KafkaError


class Topics:
    """Names of topics, or a pattern; the same object for as long as the subscription is the same."""

    def __init__(
        self, cluster: Cluster, names: Iterable[str] = (), pattern: str | re.Pattern[str] | None = None
    ) -> None:
        self._cluster = cluster
        self.names = frozenset(names)
        if bool(self.names) == (pattern is not None):
            raise WrongUse("name the topics to subscribe to, or else give a pattern")
        for name in self.names:
            if not isinstance(name, str):
                raise TypeError(f"the name of a topic is text, not {type(name).__name__}")
        """The topics; with a pattern, those that were found to match it."""
        self.pattern = re.compile(pattern) if isinstance(pattern, str) else pattern
        self.broker_pattern = f".*(?:{pattern}).*" if isinstance(pattern, str) else None
        """A pattern that a broker may match itself (with group_protocol consumer), with the whole name."""
        self.creates = False

    async def find(self) -> frozenset[str]:
        """Return the topics of the subscription; ask the cluster which match, if it is a pattern."""
        if self.pattern is not None:
            every = await self._cluster.refresh(None)
            self.names = frozenset(
                name for name, info in every.items() if not info.is_internal and self.pattern.search(name)
            )
        return self.names

    async def partition_counts(self, names: Iterable[str]) -> dict[str, int]:
        """Return how many partitions topics have; those that do not exist (yet) are left out."""
        wanted = set(names)
        if not wanted:
            return {}
        if self.creates:
            for name in sorted(wanted):
                if self._cluster.known(name) is None:
                    await self._create(name)
        found = await self._cluster.refresh_some(wanted)
        return {
            name: len(answer.partitions)
            for name, answer in found.items()
            if isinstance(answer, TopicInfo) and answer.partitions
        }

    async def _create(self, name: str) -> None:
        try:
            await self._cluster.topic(name, create=True)
        except KafkaError:
            pass  # the broker does not create topics
