"""Being told when partitions come and go.

    class Saves(RebalanceListener):
        async def on_partitions_revoked(self, partitions): await save(partitions)

    consumer.subscribe(["orders"], listener=Saves())

The methods are called while the application asks for records, never while it works on some. They may be
plain functions or coroutines, and may use the consumer: commit, seek, position.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Collection
from typing import Any

from ottla.client.errors import ClientError
from ottla.common.ids import TopicPartition

# Calls that do not fit how a consumer is used.


class WrongUse(ClientError):
    """The call does not fit how this consumer is used; the message says what would."""


class NotAssigned(ValueError):
    """The consumer does not read that partition (now)."""


class RebalanceListener:
    """Derive from it, and write the methods that are of interest."""

    def on_partitions_assigned(self, partitions: Collection[TopicPartition]) -> Awaitable[None] | None:
        """Learn which partitions are new; the ones that stay are not among them."""
        return None

    def on_partitions_revoked(self, partitions: Collection[TopicPartition]) -> Awaitable[None] | None:
        """Learn which partitions are about to go: now is the last chance to commit their offsets."""
        return None

    def on_partitions_lost(self, partitions: Collection[TopicPartition]) -> Awaitable[None] | None:
        """Learn which partitions are gone already, and perhaps read by others: too late to commit."""
        return self.on_partitions_revoked(partitions)


Caller = Callable[[Callable[[Collection[TopicPartition]], Any], Collection[TopicPartition]], Awaitable[None]]


async def call_here(
    method: Callable[[Collection[TopicPartition]], Any], partitions: Collection[TopicPartition]
) -> None:
    """Call a listener's method on the event loop, and wait for it if it is a coroutine."""
    result = method(partitions)
    if inspect.isawaitable(result):
        await result
