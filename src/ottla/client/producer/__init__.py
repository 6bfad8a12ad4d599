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

from ottla.client.producer.async_producer import AsyncProducer
from ottla.client.producer.batch import Delivery, RecordMetadata
from ottla.client.producer.interceptors import ProducerInterceptor, ProducerRecord
from ottla.client.producer.options import ProducerOptions
from ottla.client.producer.sync_producer import Producer
from ottla.client.producer.transaction_state import PreparedTransaction

__all__ = [
    "AsyncProducer",
    "Delivery",
    "PreparedTransaction",
    "Producer",
    "ProducerInterceptor",
    "ProducerOptions",
    "ProducerRecord",
    "RecordMetadata",
]
