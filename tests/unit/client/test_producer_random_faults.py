"""A producer before a broker that fails at random, by seed: every record once, in order, where it says."""

import asyncio
import random

import pytest
from kio.schema.errors import ErrorCode

from ottla.client.cluster import Cluster
from ottla.client.producer import AsyncProducer, ProducerOptions
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.errors import InvalidRecord, MessageTooLarge
from ottla.protocol.records.batch import decode_header

PASSING = (
    "drop",
    "lose reply",
    ErrorCode.not_leader_or_follower,
    ErrorCode.not_enough_replicas,
    ErrorCode.unknown_topic_or_partition,
    ErrorCode.kafka_storage_error,
)
FINAL = (ErrorCode.invalid_record, ErrorCode.message_too_large)
"""For good; the second for a lone record only, others are split."""

PARTITIONS = 3
RECORDS = 60


async def run(peer, seed, faults, rate, **options):
    """Send records under faults; return the deliveries, by partition."""
    choice = random.Random(seed)
    original = peer.answer

    def answer(frame):
        if choice.random() < rate:
            peer.fail(ApiKey.PRODUCE, choice.choice(faults))
        elif choice.random() < rate:
            peer.fail(ApiKey.METADATA, "drop")
        return original(frame)

    peer.add_topic("orders", PARTITIONS)
    async with Cluster([peer.address]) as cluster:
        peer.network.listening[peer.address] = answer
        settings = {"delivery_timeout_ms": 30_000, "batch_size": choice.choice([40, 100, 300]), **options}
        producer = AsyncProducer.on(cluster, ProducerOptions(**settings))
        deliveries = {partition: [] for partition in range(PARTITIONS)}
        async with asyncio.timeout(60):
            await producer.start()
            for number in range(RECORDS):
                partition = choice.randrange(PARTITIONS)
                deliveries[partition].append(
                    await producer.send("orders", b"%d" % number, partition=partition)
                )
                if choice.random() < 0.1:
                    await asyncio.sleep(choice.random() * 0.003)
            try:
                await producer.close()
            except (InvalidRecord, MessageTooLarge):
                pass
    return deliveries


@pytest.fixture
def faulty(peer, network):
    peer.network = network
    return peer


def stored(peer, partition):
    return [each.value for each in peer.topics["orders"].partitions[partition].records()]


@pytest.mark.parametrize("seed", range(10))
async def test_faults_that_pass_lose_double_and_reorder_nothing(faulty, seed):
    deliveries = await run(faulty, seed, PASSING, rate=0.25)
    sent = sorted(int(value) for partition in range(PARTITIONS) for value in stored(faulty, partition))
    assert sent == list(range(RECORDS))
    for partition, expected in deliveries.items():
        values = [int(each) for each in stored(faulty, partition)]
        assert values == sorted(values)
        offsets = [(await each).offset for each in expected]
        assert offsets == list(range(len(expected)))


@pytest.mark.parametrize("seed", range(10))
async def test_with_batches_that_are_refused_for_good_the_others_stay_once_and_in_order(faulty, seed):
    deliveries = await run(faulty, seed, PASSING + FINAL, rate=0.25)
    for partition, expected in deliveries.items():
        values = [int(each) for each in stored(faulty, partition)]
        assert values == sorted(set(values))
        good = [each for each in expected if each.exception() is None]
        assert [(await each).offset for each in good] == list(range(len(good)))
        assert len(values) == len(good)
        epochs = [
            decode_header(each).producer_epoch
            for each in faulty.topics["orders"].partitions[partition].batches
        ]
        assert epochs == sorted(epochs)


@pytest.mark.parametrize("seed", range(10))
async def test_without_idempotence_the_order_still_holds(faulty, seed):
    await run(faulty, seed, PASSING, rate=0.2, acks=1)
    for partition in range(PARTITIONS):
        values = [int(each) for each in stored(faulty, partition)]
        first_seen = list(dict.fromkeys(values))  # what was stored twice, nobody could know
        assert first_seen == sorted(first_seen)
