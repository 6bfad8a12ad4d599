"""Transactions of our own producer, synchronous and asyncio, in both generations of the protocol."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer as LibraryConsumer
from confluent_kafka import TopicPartition as LibraryPartition
from tests.integration.clients import HasAddress, wait_until
from tests.integration.confluent_client import ConfluentClient
from tests.integration.ottla_faces import MakeProducer, make_producer

from ottla.client.admin.group_types import OffsetAndMetadata
from ottla.client.errors import TransactionAborted, TransactionFailed, WrongTransactionState
from ottla.common.ids import TopicPartition, new_uuid
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.errors import InvalidTransactionTimeout, InvalidTxnState, MessageTooLarge, ProducerFenced
from ottla.wire.address import parse_address
from ottla.wire.connection import Connection

__all__ = ["make_producer"]

BROKER_SETTINGS = {
    "transaction.two.phase.commit.enable": "true",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "100",
}
END = b"(end)"

_numbers = itertools.count()


@pytest.fixture(scope="module")
def reference(broker: HasAddress) -> Iterator[ConfluentClient]:
    """librdkafka, to make topics and to look at what came."""
    client = ConfluentClient(broker.address)
    yield client
    client.close()


@pytest.fixture
def topic(reference: ConfluentClient) -> str:
    return reference.create_topic(f"txn.{new_uuid().hex[:8]}.{next(_numbers)}", partitions=3)


@pytest.fixture
def name() -> str:
    return f"id.{new_uuid().hex[:8]}"


@pytest.fixture(params=["classic", "v2"], autouse=True)
def generation(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Either generation: the classic one by not knowing of the feature that stands for the other."""
    if request.param == "classic":
        monkeypatch.setattr("ottla.client.producer.transactions.IMPLICIT_FROM", 99)
    return str(request.param)


def committed(broker: HasAddress, make_producer: MakeProducer, topic: str, partition: int = 0) -> list[bytes]:
    """Return what readers of committed records see, up to an end that is written now."""
    make_producer(broker.address).send(topic, END, partition=partition).result(30)
    consumer = LibraryConsumer(
        {
            "bootstrap.servers": broker.address,
            "group.id": "reader",
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
        }
    )
    consumer.assign([LibraryPartition(topic, partition, 0)])
    found: list[bytes] = []

    def is_read() -> bool:
        found.extend(each.value() for each in consumer.consume(1_000, 0.2) if not each.error())
        return bool(found) and found[-1] == END

    try:
        wait_until(is_read, "the end of the topic")
    finally:
        consumer.close()
    return found[:-1]


def skip_without_two_phase_commit(broker: HasAddress) -> None:
    async def versions() -> dict[int, tuple[int, int]]:
        connection = await Connection.open(parse_address(broker.address))
        connection.close()
        return connection.session.versions

    if ApiKey.PREPARE_TRANSACTION not in asyncio.run(versions()):
        pytest.skip("Kafka has the fields for two-phase commit, but does not serve it")


def offset_of(broker: HasAddress, group: str, topic: str, partition: int = 0) -> int:
    consumer = LibraryConsumer({"bootstrap.servers": broker.address, "group.id": group})
    try:
        return int(consumer.committed([LibraryPartition(topic, partition)], 30)[0].offset)
    finally:
        consumer.close()


def test_transactions_that_begin_during_the_commit_before_are_whole_and_in_order(
    broker, make_producer, topic, name
) -> None:
    producer = make_producer(broker.address, transactional_id=name, batch_size=2_000)
    commits = []
    for number in range(12):
        producer.begin_transaction()
        for place in range(30):
            producer.send(topic, b"%d.%d" % (number, place) + b"x" * 100, partition=place % 3)
        if number % 4 == 3:
            producer.abort_transaction()
        else:
            commits.append(producer.commit_in_background())
    producer.begin_transaction()
    producer.commit_transaction()
    for commit in commits:
        assert commit.result() is None
    kept = [number for number in range(12) if number % 4 != 3]
    for partition in range(3):
        seen = [each.rstrip(b"x") for each in committed(broker, make_producer, topic, partition)]
        whole = [b"%d.%d" % (number, place) for number in kept for place in range(partition, 30, 3)]
        assert seen == whole


def test_what_is_committed_is_read_and_what_is_aborted_is_not(broker, make_producer, topic, name) -> None:
    producer = make_producer(broker.address, transactional_id=name)
    producer.init_transactions()
    for number in range(6):
        producer.begin_transaction()
        for partition in range(3):
            producer.send(topic, b"%d" % number, partition=partition)
        if number % 3 == 1:
            producer.abort_transaction()
        else:
            producer.commit_transaction()
    producer.close()
    for partition in range(3):
        assert committed(broker, make_producer, topic, partition) == [b"0", b"2", b"3", b"5"]


def test_offsets_belong_to_the_transaction(broker, make_producer, topic, name) -> None:
    producer = make_producer(broker.address, transactional_id=name)
    place = TopicPartition(topic, 0)
    producer.begin_transaction()
    producer.send(topic, b"1", partition=0)
    producer.send_offsets_to_transaction({place: OffsetAndMetadata(10, "note")}, name)
    producer.commit_transaction()
    assert offset_of(broker, name, topic) == 10
    producer.begin_transaction()
    producer.send_offsets_to_transaction({place: 20}, name)  # offsets alone are a transaction too
    producer.abort_transaction()
    assert offset_of(broker, name, topic) == 10
    producer.begin_transaction()
    producer.send_offsets_to_transaction({place: 30}, name)
    producer.commit_transaction()
    wait_until(lambda: offset_of(broker, name, topic) == 30, "the offset to be committed")


def test_transactions_follow_each_other_without_a_pause(broker, make_producer, topic, name) -> None:
    producer = make_producer(broker.address, transactional_id=name)
    for number in range(30):
        producer.begin_transaction()
        producer.send(topic, b"%d" % number, partition=0)
        producer.commit_transaction()
    producer.close()
    assert committed(broker, make_producer, topic) == [b"%d" % number for number in range(30)]


def test_an_empty_transaction_is_one_too(broker, make_producer, topic, name) -> None:
    producer = make_producer(broker.address, transactional_id=name)
    for end in (producer.commit_transaction, producer.abort_transaction):
        producer.begin_transaction()
        end()
    producer.begin_transaction()
    producer.send(topic, b"x", partition=0)
    producer.commit_transaction()


def test_a_large_transaction_over_many_batches_is_whole(broker, make_producer, topic, name) -> None:
    producer = make_producer(broker.address, transactional_id=name, batch_size=2_000)
    producer.begin_transaction()
    for number in range(3_000):
        producer.send(topic, b"%d" % number, b"k")
    producer.commit_transaction()
    found = [value for each in range(3) for value in committed(broker, make_producer, topic, each)]
    assert found == [b"%d" % number for number in range(3_000)]


def test_a_newer_producer_fences_the_older_one(broker, make_producer, topic, name) -> None:
    old = make_producer(broker.address, transactional_id=name)
    old.begin_transaction()
    old.send(topic, b"old", partition=0)
    old.flush()
    new = make_producer(broker.address, transactional_id=name)
    new.begin_transaction()
    new.send(topic, b"new", partition=0)
    new.commit_transaction()
    with pytest.raises((ProducerFenced, TransactionFailed)):
        old.commit_transaction()
    with pytest.raises((ProducerFenced, TransactionFailed)):
        old.send(topic, b"again", partition=0)
    assert committed(broker, make_producer, topic) == [b"new"]


def test_a_record_that_cannot_be_stored_fails_the_transaction_until_it_is_aborted(
    broker, make_producer, reference, name
) -> None:
    topic = reference.create_topic(f"txn.{new_uuid().hex[:8]}", configs={"max.message.bytes": "5000"})
    producer = make_producer(broker.address, transactional_id=name)
    producer.begin_transaction()
    producer.send(topic, b"before")
    large = producer.send(topic, b"x" * 20_000)
    with pytest.raises(TransactionFailed, match="the transaction has failed, abort it") as caught:
        producer.commit_transaction()
    assert isinstance(caught.value.__cause__, MessageTooLarge)
    with pytest.raises(MessageTooLarge):
        large.result(10)
    with pytest.raises(TransactionFailed):
        producer.send(topic, b"too late")
    producer.abort_transaction()
    producer.begin_transaction()
    producer.send(topic, b"after")
    producer.commit_transaction()
    assert committed(broker, make_producer, topic) == [b"after"]


def test_what_was_not_sent_when_the_transaction_was_aborted_says_so(
    broker, make_producer, topic, name
) -> None:
    producer = make_producer(broker.address, transactional_id=name, linger_ms=60_000)
    producer.begin_transaction()
    waiting = producer.send(topic, b"x", partition=0)
    producer.abort_transaction()
    with pytest.raises(TransactionAborted):
        waiting.result(10)
    producer.close()


def test_closing_aborts_what_is_open(broker, make_producer, topic, name) -> None:
    producer = make_producer(broker.address, transactional_id=name)
    producer.begin_transaction()
    producer.send(topic, b"x", partition=0)
    producer.flush()
    producer.close()
    assert committed(broker, make_producer, topic) == []


def test_calls_out_of_turn_say_what_to_call_first(broker, make_producer, topic, name) -> None:
    plain = make_producer(broker.address)
    with pytest.raises(WrongTransactionState, match="transactions need a transactional_id"):
        plain.begin_transaction()
    producer = make_producer(broker.address, transactional_id=name)
    with pytest.raises(WrongTransactionState, match="call init_transactions first"):
        producer.send(topic, b"x")
    producer.init_transactions()
    with pytest.raises(WrongTransactionState, match="call begin_transaction first"):
        producer.send(topic, b"x")
    with pytest.raises(WrongTransactionState, match="call begin_transaction first"):
        producer.commit_transaction()
    producer.begin_transaction()
    with pytest.raises(WrongTransactionState, match="a transaction is open: commit or abort it first"):
        producer.begin_transaction()
    with pytest.raises(WrongTransactionState, match="needs transaction_two_phase_commit_enable"):
        producer.prepare_transaction()


def test_a_timeout_that_the_broker_does_not_allow_is_refused(broker, make_producer, name) -> None:
    producer = make_producer(broker.address, transactional_id=name, transaction_timeout_ms=2**31 - 1)
    with pytest.raises(InvalidTransactionTimeout):
        producer.init_transactions()


def test_a_transaction_that_is_never_ended_is_given_up_and_its_producer_reported(
    broker, make_producer, topic, name
) -> None:
    producer = make_producer(broker.address, transactional_id=name, transaction_timeout_ms=1_000)
    producer.begin_transaction()
    producer.send(topic, b"late", partition=0)
    producer.flush()
    assert committed(broker, make_producer, topic) == []  # which waits until it is given up
    with pytest.raises((ProducerFenced, TransactionFailed, InvalidTxnState)):
        producer.commit_transaction()


def test_a_prepared_transaction_is_found_by_the_next_producer_and_committed(
    broker, make_producer, topic, name
) -> None:
    skip_without_two_phase_commit(broker)
    options = {"transactional_id": name, "transaction_two_phase_commit_enable": True}
    first = make_producer(broker.address, **options, transaction_timeout_ms=1_000)
    first.begin_transaction()
    first.send(topic, b"prepared", partition=0)
    prepared = first.prepare_transaction()
    with pytest.raises(WrongTransactionState, match="only commit or abort it"):
        first.send(topic, b"more", partition=0)
    first.close()  # which leaves it as it is
    second = make_producer(broker.address, **options)
    assert second.init_transactions(keep_prepared=True) == prepared
    second.commit_transaction()
    second.begin_transaction()
    second.send(topic, b"next", partition=0)
    second.abort_transaction()
    third = make_producer(broker.address, **options)
    assert third.init_transactions(keep_prepared=True) is None
    assert committed(broker, make_producer, topic) == [b"prepared"]


def test_a_prepared_transaction_can_be_aborted_and_is_by_who_does_not_keep_it(
    broker, make_producer, topic, name
) -> None:
    skip_without_two_phase_commit(broker)
    options = {"transactional_id": name, "transaction_two_phase_commit_enable": True}
    first = make_producer(broker.address, **options)
    first.begin_transaction()
    first.send(topic, b"aborted", partition=0)
    first.prepare_transaction()
    first.abort_transaction()
    first.begin_transaction()
    first.send(topic, b"dropped", partition=0)
    first.prepare_transaction()
    second = make_producer(broker.address, **options)
    assert second.init_transactions() is None
    second.begin_transaction()
    second.send(topic, b"kept", partition=0)
    second.commit_transaction()
    assert committed(broker, make_producer, topic) == [b"kept"]
