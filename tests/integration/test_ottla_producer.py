"""Our own producer, synchronous and asyncio, against a real broker; what it writes, librdkafka reads."""

from __future__ import annotations

import itertools
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator

import pytest
from confluent_kafka import Producer as LibraryProducer
from tests.integration.clients import HasAddress
from tests.integration.confluent_client import ConfluentClient
from tests.integration.ottla_faces import MakeProducer, make_producer

from ottla.client import Producer
from ottla.client.errors import ClientClosed, TimedOut
from ottla.common.ids import new_uuid
from ottla.protocol.errors import MessageTooLarge, UnknownTopicOrPartition
from ottla.testing.broker_process import BrokerProcess, free_port

__all__ = ["make_producer"]

BROKER_SETTINGS = {"auto.create.topics.enable": "false"}
CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]

_numbers = itertools.count()


@pytest.fixture(scope="module")
def reference(broker: HasAddress) -> Iterator[ConfluentClient]:
    """librdkafka, to make topics and to look at what came."""
    client = ConfluentClient(broker.address)
    yield client
    client.close()


@pytest.fixture
def topic(reference: ConfluentClient) -> str:
    return reference.create_topic(f"ours.{new_uuid().hex[:8]}.{next(_numbers)}", partitions=3)


def read(reference: ConfluentClient, topic: str, count: int, partitions: int = 3) -> list:
    with reference.consumer() as consumer:
        consumer.assign({(topic, partition): 0 for partition in range(partitions)})
        return consumer.take(count)


def librdkafka_puts(address: str, topic: str, keys: list[bytes], partitioner: str) -> list[int]:
    """Return the partitions that librdkafka chooses for keys."""
    found = {}
    producer = LibraryProducer({"bootstrap.servers": address, "partitioner": partitioner})
    for at, key in enumerate(keys):
        producer.produce(
            topic, b"", key, on_delivery=lambda _, message, at=at: found.update({at: message.partition()})
        )
    assert producer.flush(30) == 0
    return [found[at] for at in range(len(keys))]


def test_what_is_sent_arrives_as_it_was_sent(broker, make_producer: MakeProducer, reference, topic) -> None:
    producer = make_producer(broker.address)
    headers = [("a", b"1"), ("a", None), ("ü", b"")]
    when = 1_700_000_000_000
    delivery = producer.send(topic, b"value", b"key", headers=headers, timestamp_ms=when, partition=2)
    producer.send(topic, None, b"", partition=2)
    producer.flush()
    metadata = delivery.result(10)
    assert metadata == (topic, 2, 0, when)
    first, second = read(reference, topic, 2)
    assert (first.partition, first.offset, first.key, first.value) == (2, 0, b"key", b"value")
    assert (list(first.headers), first.timestamp_ms) == (headers, when)
    assert (second.key, second.value) == (b"", None)


@pytest.mark.parametrize("codec", CODECS)
def test_librdkafka_reads_every_field_of_every_record_byte_for_byte(
    broker, make_producer: MakeProducer, reference, topic, codec
) -> None:
    fields = [None, b"", b"\0", bytes(range(256)), b"long" * 3_000]
    names = ["", "name", "ü\N{SNOWMAN}", "name"]
    records = [
        (value, key, [(name, fields[(at + number) % 5]) for at, name in enumerate(names[: number % 5])], when)
        for number, (value, key) in enumerate(itertools.product(fields, fields))
        for when in (0, 1_700_000_000_000 + number, 2**40)
    ]
    producer = make_producer(broker.address, compression_type=codec, linger_ms=20)
    for value, key, headers, when in records:
        producer.send(topic, value, key, headers=headers, timestamp_ms=when, partition=1)
    producer.flush()
    found = read(reference, topic, len(records))
    assert [each.offset for each in found] == list(range(len(records)))
    assert [(one.value, one.key, list(one.headers), one.timestamp_ms) for one in found] == records


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("acks", ["all", 1, 0])
def test_every_codec_and_every_acks_brings_all_records_in_order(
    broker, make_producer: MakeProducer, reference, topic, codec, acks
) -> None:
    make_producer(broker.address).send(topic, b"first", partition=1).result(10)  # now the topic is ready
    producer = make_producer(broker.address, compression_type=codec, acks=acks, batch_size=10_000)
    sent = [b"%d" % number * 20 for number in range(2_000)]
    for value in sent:
        producer.send(topic, value, partition=1)
    producer.close()
    assert [each.value for each in read(reference, topic, 2_001)] == [b"first", *sent]


def test_a_key_finds_the_partition_where_librdkafka_puts_it(
    broker, make_producer: MakeProducer, reference, topic
) -> None:
    keys = [b"", b"\0", b"k", *(b"key-%d" % number for number in range(300)), bytes(range(256)), b"x" * 300]
    keys += [bytes(255 - number * 7 % 256 for number in range(size)) for size in range(1, 70)]
    names = ["consistent_random", "consistent", "murmur2", "murmur2_random", "fnv1a", "fnv1a_random"]
    for name in names:
        random_for_empty = name == "consistent_random"
        wanted = [key for key in keys if key or not random_for_empty]
        where = librdkafka_puts(broker.address, topic, wanted, name)
        producer = make_producer(broker.address, partitioner=name)
        deliveries = [producer.send(topic, b"", key) for key in wanted]
        producer.flush()
        assert [each.result(10).partition for each in deliveries] == where, name


def test_records_without_a_key_are_spread_over_all_partitions(broker, make_producer, topic) -> None:
    producer = make_producer(broker.address, batch_size=2_000)
    deliveries = [producer.send(topic, b"x" * 100) for _ in range(2_000)]
    producer.flush()
    counts = Counter(each.result(10).partition for each in deliveries)
    assert set(counts) == {0, 1, 2}
    assert min(counts.values()) > 200


def test_many_threads_may_share_a_producer(broker, make_producer, reference, topic) -> None:
    producer = make_producer(broker.address, buffer_memory=200_000, batch_size=5_000)
    failures = []

    def send(name: int) -> None:
        try:
            for number in range(500):
                producer.send(topic, b"%d %d" % (name, number), partition=0)
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=send, args=(name,)) for name in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    producer.close()
    assert failures == []
    got = [tuple(map(int, each.value.split())) for each in read(reference, topic, 4_000)]
    for name in range(8):
        assert [number for thread, number in got if thread == name] == list(range(500))


def test_a_full_buffer_makes_the_sender_wait(broker, make_producer, reference, topic) -> None:
    producer = make_producer(broker.address, buffer_memory=50_000)
    for _ in range(2_000):
        producer.send(topic, b"x" * 1_000)
        assert producer.buffered_bytes <= 50_000
    producer.close()
    assert len(read(reference, topic, 2_000)) == 2_000


def test_a_record_that_the_topic_does_not_take_fails_alone(broker, make_producer, reference) -> None:
    topic = reference.create_topic(f"small.{new_uuid().hex[:8]}", configs={"max.message.bytes": "5000"})
    producer = make_producer(broker.address, linger_ms=50)
    small = [producer.send(topic, b"x" * 1_000) for _ in range(10)]
    large = producer.send(topic, b"x" * 20_000)
    after = producer.send(topic, b"y")
    with pytest.raises(MessageTooLarge, match=f"{topic}-0"):
        large.result(10)
    assert [each.result(10).offset for each in [*small, after]] == list(range(11))


def test_a_topic_that_is_not_there_is_named(broker, make_producer) -> None:
    if not isinstance(broker, BrokerProcess):
        pytest.skip("the given broker creates topics")
    producer = make_producer(broker.address)
    with pytest.raises(UnknownTopicOrPartition, match="there is no topic 'nowhere'"):
        producer.send("nowhere", b"x")


def test_a_wrong_address_is_reported_by_the_first_send(make_producer: MakeProducer) -> None:
    port = free_port()
    producer = make_producer(f"127.0.0.1:{port}", max_block_ms=200)
    with pytest.raises(TimedOut, match=f"no broker at 127.0.0.1:{port}: connection refused"):
        producer.send("orders", b"x")


def test_a_callback_sees_every_record(broker, make_producer, topic) -> None:
    told = []
    producer = make_producer(broker.address)
    for number in range(100):
        producer.send(topic, b"%d" % number, partition=0, on_delivery=lambda *each: told.append(each))
    producer.close()
    assert [metadata.offset for metadata, _ in told] == list(range(100))
    assert all(error is None for _, error in told)


FORGETFUL = """
import sys
from ottla.client import Producer
producer = Producer(sys.argv[1], linger_ms=60_000)
for number in range(100):
    producer.send(sys.argv[2], b"%d" % number, partition=0)
"""


def test_a_producer_that_is_forgotten_delivers_when_the_program_ends(broker, reference, topic) -> None:
    command = [sys.executable, "-W", "always", "-c", FORGETFUL, broker.address, topic]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert "ResourceWarning: a producer was not closed" in done.stderr
    assert [int(each.value) for each in read(reference, topic, 100)] == list(range(100))


def test_an_interrupt_does_not_wait_for_delivery(broker, topic) -> None:
    with pytest.raises(KeyboardInterrupt), Producer(broker.address, linger_ms=60_000) as producer:
        delivery = producer.send(topic, b"x")
        raise KeyboardInterrupt
    assert isinstance(delivery.exception(), ClientClosed)


def test_a_callback_that_waits_for_its_own_producer_is_reported_off(broker, topic) -> None:
    failures = []

    def nested(*_: object) -> None:
        try:
            producer.flush()
        except RuntimeError as error:
            failures.append(str(error))

    with Producer(broker.address) as producer:
        producer.send(topic, b"x", on_delivery=nested)
    assert failures == ["a callback cannot wait for its own client: it would wait forever"]


def test_threads_that_still_send_while_the_producer_is_closed_are_reported_and_never_hang(
    broker, topic
) -> None:
    for _ in range(20):
        producer = Producer(broker.address)
        deliveries, refusals = [], []

        def send(producer=producer, deliveries=deliveries, refusals=refusals) -> None:
            try:
                while True:
                    deliveries.append(producer.send(topic, b"x"))
            except ClientClosed as error:
                refusals.append(error)

        threads = [threading.Thread(target=send) for _ in range(3)]
        for thread in threads:
            thread.start()
        producer.close()
        for thread in threads:
            thread.join(10)
        assert len(refusals) == 3
        assert all(each.done() for each in deliveries)
