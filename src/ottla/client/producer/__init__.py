"""The producer: collects records in batches per partition, which a background sender sends.

Reading order:

    async_producer, sync_producer   the public classes
    options, interceptors           options; hooks around each record
    core                            the parts put together
    record_preparer, partitioners, murmur2   serializes a record and chooses its partition
    bulk                            many records that are sent at once
    batch, partition_queue          a batch and its futures; the batches of a partition in order
    accumulator                     all queues, in a buffer of bounded size
    leaders                         keeps the leaders of partitions up to date
    sender, broker_sender           sends batches, one `BrokerSender` per broker; expiry and retries
    retry_decision                  what a broker's error means for a batch
    transactions, transaction_calls the transaction's states; the requests to its coordinator
    background_commits              ends transactions while the next one begins
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.common.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from ottla.client.producer.async_producer import AsyncProducer as AsyncProducer
    from ottla.client.producer.batch import Delivery as Delivery
    from ottla.client.producer.batch import RecordMetadata as RecordMetadata
    from ottla.client.producer.interceptors import ProducerInterceptor as ProducerInterceptor
    from ottla.client.producer.interceptors import ProducerRecord as ProducerRecord
    from ottla.client.producer.options import ProducerOptions as ProducerOptions
    from ottla.client.producer.sync_producer import Producer as Producer
    from ottla.client.producer.transaction_calls import PreparedTransaction as PreparedTransaction

_HOMES = {
    "AsyncProducer": "ottla.client.producer.async_producer",
    "Delivery": "ottla.client.producer.batch",
    "PreparedTransaction": "ottla.client.producer.transaction_calls",
    "Producer": "ottla.client.producer.sync_producer",
    "ProducerInterceptor": "ottla.client.producer.interceptors",
    "ProducerOptions": "ottla.client.producer.options",
    "ProducerRecord": "ottla.client.producer.interceptors",
    "RecordMetadata": "ottla.client.producer.batch",
}
"""The module of each name; loaded on first use, so that the options can be imported alone."""

__all__ = sorted(_HOMES)
__getattr__, __dir__ = lazy_exports(__name__, _HOMES)
