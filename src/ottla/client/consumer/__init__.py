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

from ottla.client.consumer.async_consumer import AsyncConsumer
from ottla.client.consumer.commits import CommitFailed
from ottla.client.consumer.listener import RebalanceListener
from ottla.client.consumer.mistakes import WrongUse
from ottla.client.consumer.options import ConsumerOptions
from ottla.client.consumer.positions import LogTruncated, NoOffset
from ottla.client.consumer.record import ConsumerRecord, DeserializationFailed
from ottla.client.consumer.sync_consumer import Consumer

__all__ = [
    "AsyncConsumer",
    "CommitFailed",
    "Consumer",
    "ConsumerOptions",
    "ConsumerRecord",
    "DeserializationFailed",
    "LogTruncated",
    "NoOffset",
    "RebalanceListener",
    "WrongUse",
]
