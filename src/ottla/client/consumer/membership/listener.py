"""The rebalance listener, and the errors of wrong use.

    class Saves(RebalanceListener):
        async def on_partitions_revoked(self, partitions): await save(partitions)

    consumer.subscribe(["orders"], listener=Saves())

The methods are called during calls for records, never while the application processes some. They may be
plain functions or coroutines, and may use the consumer: commit, seek, position.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Collection
from typing import Any

from ottla.client.errors import ClientError
from ottla.common.ids import TopicPartition


class WrongUse(ClientError):
    """The call is not allowed in the consumer's state; the message says what to do instead."""


class NotAssigned(ValueError):
    """The partition is not assigned to this consumer."""


class RebalanceListener:
    """Base class of listeners: override the methods of interest."""

    def on_partitions_assigned(self, partitions: Collection[TopicPartition]) -> Awaitable[None] | None:
        """Called after partitions were assigned, with the new ones only."""
        return None

    def on_partitions_revoked(self, partitions: Collection[TopicPartition]) -> Awaitable[None] | None:
        """Called before partitions are revoked: the last chance to commit their offsets."""
        return None

    def on_partitions_lost(self, partitions: Collection[TopicPartition]) -> Awaitable[None] | None:
        """Called when partitions were lost, perhaps to other members: too late to commit."""
        return self.on_partitions_revoked(partitions)


Caller = Callable[[Callable[[Collection[TopicPartition]], Any], Collection[TopicPartition]], Awaitable[None]]


async def call_here(
    method: Callable[[Collection[TopicPartition]], Any], partitions: Collection[TopicPartition]
) -> None:
    """Call a listener's method on the event loop, and wait for it if it is a coroutine."""
    result = method(partitions)
    if inspect.isawaitable(result):
        await result
