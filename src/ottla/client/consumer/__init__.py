"""The consumer: reads records, alone or together with a group; for asyncio and without.

async_consumer, sync_consumer  the two faces
options, record, listener      what users write and get
core                           what both faces stand on, and queries: what they ask of it
partition_state, assignment    what is known of each partition: plain memory
fetcher, fetch_session         requests, one under way to each broker; fetch_answers: what comes back
leaders, positions             who is to be asked, and from which offset on
visible, collector, arrow      from what was fetched to what is handed out
membership, classic, modern    being in a group; turns, rebalances: what that does to the consumer
assignors, sticky              who reads what, in a classic group
commits                        the group's offsets
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
"""Where each name comes from: who needs only the options should not load all the rest."""

__all__ = sorted(_HOMES)
__getattr__, __dir__ = lazy_exports(__name__, _HOMES)
