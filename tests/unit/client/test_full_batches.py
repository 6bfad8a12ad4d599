"""A synchronous producer's full batches are encoded where they were filled, and signed when they leave."""

import pytest

from ottla.client.producer.accumulator import Accumulator
from ottla.client.producer.batch import Identity
from ottla.common.ids import TopicPartition
from ottla.protocol.records.record_encoder import encode_new_batch

ORDERS = TopicPartition("orders", 0)
BROKER = 1
RECORDS = [(number, None, b"v%d" % number, ()) for number in range(5)]


def filled(encodes_full):
    """Return an accumulator with two full batches and one that is open."""
    accumulator = Accumulator(
        lambda: 0.0, batch_bytes=100, linger_s=0, buffer_bytes=10_000, max_in_flight=5, is_idempotent=True
    )
    accumulator.encodes_full = encodes_full
    queue = accumulator.queue(ORDERS)
    queue.leader, queue.is_known = BROKER, True
    queue.start_over(Identity(7, 3))
    queue.is_known = True
    for record in RECORDS:
        assert accumulator.append(queue, record, 50) is not None
    return accumulator, queue


def test_a_batch_is_encoded_when_the_next_one_begins():
    _, queue = filled(encodes_full=True)
    assert [batch.encoded is not None for batch in queue.unsent] == [True, True, False]
    assert [len(batch.records) for batch in queue.unsent] == [0, 0, 1]
    assert [batch.count for batch in queue.unsent] == [2, 2, 1]


def test_an_asyncio_producer_leaves_that_to_who_sends():
    _, queue = filled(encodes_full=False)
    assert [batch.encoded for batch in queue.unsent] == [None, None, None]


@pytest.mark.parametrize("encodes_full", [True, False])
def test_what_leaves_is_numbered_the_same_either_way(encodes_full):
    accumulator, _ = filled(encodes_full)
    for number in (0, 2):
        (batch,), _ = accumulator.take(BROKER, 0.0, 10_000, lambda partition: True)
        batch.encode(0)
        assert batch.encoded == encode_new_batch(
            RECORDS[number : number + 2], producer_id=7, producer_epoch=3, base_sequence=number
        )
