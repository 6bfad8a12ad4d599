"""One table: the same cases for confluent-kafka, kafka-python and aiokafka against one broker.

This half is about records; `test_clients_and_topics.py` goes on with topics and configs.
"""

from __future__ import annotations

import struct
import time
from pathlib import Path

import pytest
from tests.integration.clients import (
    CREATE_TIME,
    LOG_APPEND_TIME,
    Client,
    Consumer,
    HasAddress,
    NewName,
    Outgoing,
    Producer,
    Refused,
    refused_with,
    values,
)
from tests.integration.cutting_proxy import CuttingProxy

from ottla.protocol import errors

CODECS = {"none": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}
MINUTE_MS = 60_000


def an_hour_ago() -> int:
    return time.time_ns() // 1_000_000 - 60 * MINUTE_MS


def codecs_on_disk(log: Path) -> set[int]:
    """Return the codec of every batch in a segment (attributes, at byte 21 of each)."""
    found, at, data = set(), 0, log.read_bytes()
    while at < len(data):
        (batch_length,) = struct.unpack_from(">i", data, at + 8)
        (attributes,) = struct.unpack_from(">h", data, at + 21)
        found.add(attributes & 7)
        at += 12 + batch_length
    return found


# What goes in comes out


@pytest.mark.parametrize("codec", CODECS)
def test_every_client_reads_what_this_one_wrote_and_batches_are_stored_as_sent(
    codec: str, client: Client, clients: dict[str, Client], topic: str, broker: HasAddress
) -> None:
    sent = [Outgoing(b"compressible " * 20 + b"%d" % index, key=b"%d" % index) for index in range(50)]
    with client.producer(codec=codec, linger_ms=20) as producer:
        assert producer.send(topic, sent) == list(range(50))

    assert codecs_on_disk(broker.data / f"{topic}-0" / f"{0:020}.log") == {CODECS[codec]}
    for reader in clients.values():
        with reader.consumer() as consumer:
            received = consumer.read((topic, 0), 0, 50)
        assert [(one.offset, one.key, one.value) for one in received] == [
            (offset, one.key, one.value) for offset, one in enumerate(sent)
        ], reader.name


def test_keys_values_headers_and_timestamps_are_read_as_they_were_sent(
    topic: str, producer: Producer, consumer: Consumer
) -> None:
    start_ms = an_hour_ago()
    headers = (("trace", b"\x00\xff"), ("empty", b""), ("trace", b"twice"), ("schlüssel", b"\xc3\xbc"))
    sent = [
        Outgoing(b"value", b"key", headers, start_ms),
        Outgoing(None, b"tombstone", (), start_ms + 1),
        Outgoing(b"no key", None, (), start_ms + 2),
        Outgoing(b"", b"", (("only", b"one"),), start_ms - 5),  # empty, not null; an earlier time
    ]
    producer.send(topic, sent)
    received = consumer.read((topic, 0), 0, len(sent))
    assert [(one.value, one.key, one.headers, one.timestamp_ms, one.partition) for one in received] == sent
    assert {one.timestamp_type for one in received} == {CREATE_TIME}


def test_every_client_reads_a_header_without_a_value(
    client: Client, clients: dict[str, Client], topic: str, consumer: Consumer
) -> None:
    with clients["confluent-kafka"].producer() as producer:  # the only one that can write it
        producer.send(topic, [Outgoing(b"x", headers=(("null", None), ("empty", b"")))])
    assert consumer.read((topic, 0), 0, 1)[0].headers == (("null", None), ("empty", b""))


def test_log_append_time_replaces_the_timestamp_of_the_client(
    client: Client, new_name: NewName, producer: Producer, consumer: Consumer
) -> None:
    topic = client.create_topic(new_name(), configs={"message.timestamp.type": "LogAppendTime"})
    before_ms = time.time_ns() // 1_000_000
    producer.send(topic, [Outgoing(b"late", timestamp_ms=an_hour_ago())])
    (received,) = consumer.read((topic, 0), 0, 1)
    assert received.timestamp_type == LOG_APPEND_TIME
    assert before_ms <= received.timestamp_ms <= time.time_ns() // 1_000_000
    assert consumer.offset_for_time((topic, 0), before_ms) == 0


def test_a_timestamp_too_far_in_the_future_is_refused(topic: str, producer: Producer) -> None:
    with refused_with(errors.InvalidTimestamp):
        producer.send(topic, [Outgoing(b"tomorrow", timestamp_ms=an_hour_ago() + 24 * 60 * MINUTE_MS)])


@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_records_arrive_in_order_with_every_kind_of_acks(
    acks: str, client: Client, topic: str, consumer: Consumer
) -> None:
    with client.producer(acks=acks, batch_bytes=1_000) as producer:
        first = producer.send(topic, values("first", 100))
        again = producer.send(topic, values("again", 100))
    assert first + again == ([None] * 200 if acks == "0" else list(range(200)))
    received = consumer.read((topic, 0), 0, 200)
    assert [one.value for one in received] == [
        one.value for one in values("first", 100) + values("again", 100)
    ]


def test_one_consumer_reads_many_partitions_at_once(
    client: Client, new_name: NewName, consumer: Consumer
) -> None:
    topic = client.create_topic(new_name(), partitions=12)
    sent = [Outgoing(b"%d" % index, partition=index % 12) for index in range(600)]
    with client.producer(idempotent=True) as producer:
        producer.send(topic, sent)
    consumer.assign({(topic, partition): 0 for partition in range(12)})
    received = consumer.take(600)
    for partition in range(12):
        mine = [one for one in received if one.partition == partition]
        assert [one.offset for one in mine] == list(range(50))
        assert [one.value for one in mine] == [one.value for one in sent if one.partition == partition]


def test_producing_to_a_topic_that_is_not_there_creates_it(
    client: Client, new_name: NewName, producer: Producer, consumer: Consumer
) -> None:
    topic = new_name()
    assert client.partition_count(topic) == 0
    assert producer.send(topic, values("created on the way", 3)) == [0, 1, 2]
    assert client.partition_count(topic) == 1
    assert len(consumer.read((topic, 0), 0, 3)) == 3


# Sizes, and what else a topic insists on


def test_a_record_of_a_megabyte_passes_with_raised_limits(
    client: Client, new_name: NewName, consumer: Consumer
) -> None:
    topic = client.create_topic(new_name(), configs={"max.message.bytes": str(3_000_000)})
    sent = [
        Outgoing(letter * size) for letter, size in ((b"a", 1_000_000), (b"b", 1 << 20), (b"c", 2_900_000))
    ]
    with client.producer(max_request_bytes=4_000_000) as producer:
        assert producer.send(topic, sent) == [0, 1, 2]
    # The last is larger than what a consumer asks for at most: the first batch always comes whole.
    received = consumer.read((topic, 0), 0, 3)
    assert [one.value for one in received] == [one.value for one in sent]


def test_a_record_above_the_limit_is_refused_and_the_next_one_passes(client: Client, topic: str) -> None:
    with client.producer(max_request_bytes=4_000_000) as producer:
        assert producer.send(topic, [Outgoing(b"x" * 1_000_000)]) == [0]
        with refused_with(errors.MessageTooLarge):
            producer.send(topic, [Outgoing(b"x" * 1_048_600)])
        assert producer.send(topic, [Outgoing(b"small")]) == [1]


@pytest.mark.parametrize(("wanted", "stored"), [("zstd", 4), ("gzip", 1), ("uncompressed", 0)])
def test_a_topic_may_insist_on_its_own_codec(
    wanted: str, stored: int, client: Client, new_name: NewName, consumer: Consumer, broker: HasAddress
) -> None:
    topic = client.create_topic(new_name(), configs={"compression.type": wanted})
    sent = [Outgoing(b"compressible " * 20 + b"%d" % index) for index in range(20)]
    with client.producer(codec="snappy", linger_ms=20) as producer:
        assert producer.send(topic, sent) == list(range(20))
    assert codecs_on_disk(broker.data / f"{topic}-0" / f"{0:020}.log") == {stored}
    assert [one.value for one in consumer.read((topic, 0), 0, 20)] == [one.value for one in sent]


def test_a_compacted_topic_refuses_a_record_without_a_key(
    client: Client, new_name: NewName, producer: Producer
) -> None:
    topic = client.create_topic(new_name(), configs={"cleanup.policy": "compact"})
    with pytest.raises(Refused) as refused:
        producer.send(topic, [Outgoing(b"whose?")])
    # aiokafka has no name for this error, and says that it is unknown.
    assert refused.value.code == (-1 if client.name == "aiokafka" else errors.InvalidRecord.code.value)
    assert producer.send(topic, [Outgoing(b"mine", key=b"me")]) == [0]


# Finding one's place


def test_offsets_for_times_find_the_first_record_at_or_after_the_time(
    client: Client, topic: str, consumer: Consumer
) -> None:
    start_ms = an_hour_ago()
    # Out of order in the middle, and several records to a batch.
    minutes = [0, 1, 2, 5, 3, 4, 6, 7, 8, 9]
    with client.producer(codec="gzip", linger_ms=20) as producer:
        for half in (minutes[:5], minutes[5:]):
            producer.send(topic, [Outgoing(b"x", timestamp_ms=start_ms + m * MINUTE_MS) for m in half])

    def at(offset_ms: int) -> int | None:
        return consumer.offset_for_time((topic, 0), start_ms + offset_ms)

    assert at(-MINUTE_MS) == 0
    assert at(0) == 0
    assert at(1) == 1
    assert at(2 * MINUTE_MS) == 2
    assert at(3 * MINUTE_MS) == 3  # whose own time is 5, but it comes before the record of time 3
    assert at(5 * MINUTE_MS) == 3
    assert at(5 * MINUTE_MS + 1) == 6
    assert at(9 * MINUTE_MS) == 9
    assert at(9 * MINUTE_MS + 1) is None


def test_the_newest_timestamp_is_found_wherever_it_is(client: Client, topic: str, producer: Producer) -> None:
    start_ms = an_hour_ago()
    for minute in (1, 7, 3):
        producer.send(topic, [Outgoing(b"x", timestamp_ms=start_ms + minute * MINUTE_MS)])
    assert client.offset_of_max_timestamp((topic, 0)) == 1


def test_a_consumer_seeks_anywhere(client: Client, topic: str, consumer: Consumer) -> None:
    with client.producer(codec="lz4", batch_bytes=2_000, linger_ms=20) as producer:
        producer.send(topic, [Outgoing(b"%04d" % index + b"." * 60) for index in range(500)])
    consumer.assign({(topic, 0): 0})
    for offset in (499, 0, 250, 251, 1, 498, 37, 333):
        consumer.seek((topic, 0), offset)
        received = consumer.take(min(20, 500 - offset))
        assert [one.offset for one in received] == list(range(offset, min(offset + 20, 500)))
        assert received[0].value.startswith(b"%04d" % offset)


def test_an_offset_out_of_range_is_an_error_or_resets_as_asked(client: Client, topic: str) -> None:
    with client.producer() as producer, client.consumer() as strict:
        producer.send(topic, values("in range", 5))
        strict.assign({(topic, 0): 100})
        with refused_with(errors.OffsetOutOfRange):
            strict.take(1)
    with client.consumer(reset="earliest") as lenient:
        assert lenient.read((topic, 0), 100, 5)[0].offset == 0


def test_a_consumer_at_the_end_gets_what_comes_next(
    topic: str, producer: Producer, consumer: Consumer
) -> None:
    producer.send(topic, values("before", 5))
    consumer.assign({(topic, 0): consumer.end((topic, 0))})
    assert consumer.poll(1, 0.2) == []
    producer.send(topic, values("after", 1))
    (received,) = consumer.take(1)
    assert (received.offset, received.value) == (5, b"after 0")


def test_deleting_records_moves_the_beginning(
    client: Client, topic: str, producer: Producer, consumer: Consumer
) -> None:
    producer.send(topic, values("old", 10))
    assert (consumer.beginning((topic, 0)), consumer.end((topic, 0))) == (0, 10)
    assert client.delete_records((topic, 0), 7) == 7
    assert (consumer.beginning((topic, 0)), consumer.end((topic, 0))) == (7, 10)
    assert consumer.offset_for_time((topic, 0), 0) == 7
    assert [one.offset for one in consumer.read((topic, 0), 7, 3)] == [7, 8, 9]
    with refused_with(errors.OffsetOutOfRange):
        consumer.read((topic, 0), 3, 1)
    with refused_with(errors.OffsetOutOfRange):
        client.delete_records((topic, 0), 11)


# Exactly once into one partition


def test_an_idempotent_producer_whose_answers_get_lost_writes_everything_once(
    client: Client, topic: str, consumer: Consumer, broker: HasAddress
) -> None:
    sent = [Outgoing(b"%04d" % index + b"." * 100) for index in range(300)]
    with CuttingProxy(broker.address, cut_when=lambda nth: nth % 2 == 1 and nth <= 11) as proxy:
        through_proxy = type(client)(proxy.address)
        with through_proxy.producer(idempotent=True, batch_bytes=1_500) as producer:
            offsets = producer.send(topic, sent)
        through_proxy.close()
    assert proxy.cuts == 6
    assert offsets == list(range(300))
    assert consumer.end((topic, 0)) == 300
    assert [one.value for one in consumer.read((topic, 0), 0, 300)] == [one.value for one in sent]
