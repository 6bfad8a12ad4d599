"""Our consumer and transactions of librdkafka: who reads committed records sees those, and no others."""

from __future__ import annotations

import time

import pytest
from confluent_kafka import Producer as LibrdkafkaProducer

from ottla.client.consumer import AsyncConsumer
from ottla.common.ids import TopicPartition, new_uuid

SOON_S = 30
ABORTED = {1, 4, 7}


@pytest.fixture
def place(broker):
    """A partition with nine transactions, some aborted, plain records in between, and one that is open."""
    topic = f"committed.{new_uuid().hex[:8]}"
    plain = LibrdkafkaProducer({"bootstrap.servers": broker.address})
    plain.produce(topic, b"plain", partition=0)
    assert plain.flush(SOON_S) == 0
    producer = LibrdkafkaProducer(
        {"bootstrap.servers": broker.address, "transactional.id": new_uuid().hex, "linger.ms": 0}
    )
    producer.init_transactions(SOON_S)
    for number in range(9):
        producer.begin_transaction()
        for record in range(20):
            producer.produce(topic, b"%d.%d" % (number, record), partition=0)
        assert producer.flush(SOON_S) == 0
        (producer.abort_transaction if number in ABORTED else producer.commit_transaction)(SOON_S)
    producer.begin_transaction()
    producer.produce(topic, b"open", partition=0)
    assert producer.flush(SOON_S) == 0
    yield TopicPartition(topic, 0)
    producer.abort_transaction(SOON_S)


def expected(all_of_them):
    numbers = [number for number in range(9) if all_of_them or number not in ABORTED]
    values = [b"plain", *(b"%d.%d" % (number, record) for number in numbers for record in range(20))]
    return [*values, b"open"] if all_of_them else values


@pytest.mark.parametrize("level", ["read_committed", "read_uncommitted"])
async def test_aborted_and_open_transactions_are_hidden_from_who_reads_committed_records(
    broker, place, level
):
    wanted = expected(level == "read_uncommitted")
    options = {"auto_offset_reset": "earliest", "isolation_level": level, "max_partition_fetch_bytes": 700}
    async with AsyncConsumer(broker.address, **options) as consumer:
        consumer.assign([place])
        (end,) = (await consumer.end_offsets([place])).values()
        values: list[bytes] = []
        deadline = time.monotonic() + SOON_S
        while await consumer.position(place) < end and time.monotonic() < deadline:
            for records in (await consumer.getmany(timeout_ms=500)).values():
                values += [record.value for record in records]
        assert values == wanted
        assert await consumer.getmany(timeout_ms=200) == {}
        consumer.seek_to_beginning()
        columns: list[bytes] = []
        while len(columns) < len(wanted) and time.monotonic() < deadline:
            columns += (await consumer.poll_arrow(500))["value"].to_pylist()
        assert columns == wanted
