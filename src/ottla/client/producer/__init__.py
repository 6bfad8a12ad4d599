"""The producer: records gather in batches per partition, a background sender ships them.

options         what can be set
intake          from what a sender gave to a record in a queue
partitioners, topics    which partition it goes to
batch           records that travel together, and the promise of their offsets
partition_queue the batches of a partition: order, numbers, when the next may leave
accumulator     all the queues, in a buffer of bounded size
lane            the way to one broker
verdicts        what a broker's answer means for a batch
sender          lanes, leaders, retries, expiry
transactions    all or nothing, over many partitions, offsets included
core            the parts put together
async_producer, sync_producer   the two faces
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
"""Where each name comes from: who needs only the options should not load all the rest."""

__all__ = sorted(_HOMES)
__getattr__, __dir__ = lazy_exports(__name__, _HOMES)
