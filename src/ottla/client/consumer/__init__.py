"""The consumer: reads records, alone or in a group; for asyncio and synchronous.

Reading order:

    async_consumer, sync_consumer   the public classes
    options                         consumer options
    core                            the consumer behind both: start, stop, and the calls for records
    waiting                         calls that wait for records: on the loop, or in the caller's thread
    assignment, subscription        the assigned partitions; the topics that are subscribed to
    dedicated_connections           connections for requests that the broker answers late
    fetching/                       from Fetch requests to records
    membership/                     the group: committed offsets, the two membership protocols, rebalances
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.common.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from ottla.client.consumer.async_consumer import AsyncConsumer as AsyncConsumer
    from ottla.client.consumer.fetching.positions import LogTruncated as LogTruncated
    from ottla.client.consumer.fetching.positions import NoOffset as NoOffset
    from ottla.client.consumer.fetching.record import ConsumerRecord as ConsumerRecord
    from ottla.client.consumer.fetching.record import DeserializationFailed as DeserializationFailed
    from ottla.client.consumer.membership.commits import CommitFailed as CommitFailed
    from ottla.client.consumer.membership.listener import RebalanceListener as RebalanceListener
    from ottla.client.consumer.membership.listener import WrongUse as WrongUse
    from ottla.client.consumer.options import ConsumerOptions as ConsumerOptions
    from ottla.client.consumer.sync_consumer import Consumer as Consumer

_HOMES = {
    "AsyncConsumer": "ottla.client.consumer.async_consumer",
    "CommitFailed": "ottla.client.consumer.membership.commits",
    "Consumer": "ottla.client.consumer.sync_consumer",
    "ConsumerOptions": "ottla.client.consumer.options",
    "ConsumerRecord": "ottla.client.consumer.fetching.record",
    "DeserializationFailed": "ottla.client.consumer.fetching.record",
    "LogTruncated": "ottla.client.consumer.fetching.positions",
    "NoOffset": "ottla.client.consumer.fetching.positions",
    "RebalanceListener": "ottla.client.consumer.membership.listener",
    "WrongUse": "ottla.client.consumer.membership.listener",
}
"""The module of each name; loaded on first use, so that the options can be imported alone."""

__all__ = sorted(_HOMES)
__getattr__, __dir__ = lazy_exports(__name__, _HOMES)
