"""Zombies, namesakes and transactions that take too long, through three client libraries."""

from __future__ import annotations

import pytest
from tests.integration.clients import Refused, refused_with, wait_until
from tests.integration.transaction_stage import BROKER_SETTINGS, Stage, out, stage
from tests.integration.transactions import TransactionalProducer

from ottla.protocol import errors

__all__ = ["BROKER_SETTINGS", "stage"]

SHORT_MS = 1_000
TOO_LONG_MS = 16 * 60_000


def transaction(producer: TransactionalProducer, topic: str, *values: bytes) -> None:
    """Write and commit."""
    producer.begin()
    producer.send(topic, out(*values))
    producer.commit()


def assert_is_fenced(zombie: TransactionalProducer, topic: str) -> None:
    """Let a producer try to do a transaction of its own: it is told that it is fenced."""
    with pytest.raises(Refused):
        transaction(zombie, topic, b"never")


def test_of_two_producers_with_one_id_the_second_wins(stage: Stage) -> None:
    topic, transactional_id = stage.topic(), stage.name()
    first = stage.producer(transactional_id)
    transaction(first, topic, b"first")
    second = stage.producer(transactional_id)
    assert_is_fenced(first, topic)
    transaction(second, topic, b"second")
    assert stage.read(topic) == [[b"first", b"second"]]


def test_a_zombie_loses_what_it_had_written_to_who_took_its_id(stage: Stage) -> None:
    topic, group, transactional_id = stage.topic(), stage.name(), stage.name()
    zombie = stage.producer(transactional_id)
    zombie.begin()
    zombie.send(topic, out(b"of the dead"))
    zombie.send_offsets(group, {(topic, 0): 13})
    heir = stage.producer(transactional_id)
    assert stage.committed(group, (topic, 0)) == [-1]
    transaction(heir, topic, b"of the living")
    with pytest.raises(Refused):
        zombie.commit()
    assert stage.committed(group, (topic, 0)) == [-1]
    assert stage.read(topic) == [[b"of the living"]]


def test_a_zombie_that_sends_more_records_is_stopped_at_the_partition(stage: Stage) -> None:
    topic, transactional_id = stage.topic(), stage.name()
    zombie = stage.producer(transactional_id)
    zombie.begin()
    zombie.send(topic, out(b"of the dead"))
    heir = stage.producer(transactional_id)
    with pytest.raises(Refused):
        zombie.send(topic, out(b"more of it"))
    transaction(heir, topic, b"of the living")
    assert stage.read(topic, committed=False) == [[b"of the dead", b"of the living"]]


def test_a_zombie_cannot_abort_the_transaction_of_who_took_its_id(stage: Stage) -> None:
    topic, transactional_id = stage.topic(), stage.name()
    zombie = stage.producer(transactional_id)
    zombie.begin()
    zombie.send(topic, out(b"of the dead"))
    heir = stage.producer(transactional_id)
    heir.begin()
    heir.send(topic, out(b"of the living"))
    with pytest.raises(Refused):
        zombie.abort()
    heir.commit()
    assert stage.read(topic) == [[b"of the living"]]


def test_ids_change_hands_many_times(stage: Stage) -> None:
    topic, transactional_id = stage.topic(), stage.name()
    kept = []
    for number in range(4):
        producer = stage.producer(transactional_id)
        transaction(producer, topic, b"kept %d" % number)
        kept.append(b"kept %d" % number)
        producer.begin()
        producer.send(topic, out(b"left behind %d" % number))
    stage.producer(transactional_id)
    assert stage.read(topic) == [kept]


def test_a_transaction_that_takes_too_long_is_aborted_and_readers_continue(stage: Stage) -> None:
    topic, group = stage.topic(), stage.name()
    producer = stage.producer(timeout_ms=SHORT_MS)
    producer.begin()
    producer.send(topic, out(b"too slow"))
    producer.send_offsets(group, {(topic, 0): 13})
    reader = stage.reader()
    assert reader.end((topic, 0)) == 0
    wait_until(lambda: reader.end((topic, 0)) == 2, "the transaction to be aborted")
    with pytest.raises(Refused):
        producer.commit()
    assert stage.committed(group, (topic, 0)) == [-1]
    assert stage.read(topic) == [[]]


def test_after_a_timeout_a_new_producer_continues_with_the_id(stage: Stage) -> None:
    topic, transactional_id = stage.topic(), stage.name()
    slow = stage.producer(transactional_id, timeout_ms=SHORT_MS)
    slow.begin()
    slow.send(topic, out(b"too slow"))
    reader = stage.reader()
    wait_until(lambda: reader.end((topic, 0)) == 2, "the transaction to be aborted")
    heir = stage.producer(transactional_id)
    transaction(heir, topic, b"in time")
    assert stage.read(topic) == [[b"in time"]]


def test_a_timeout_longer_than_the_broker_allows_is_refused(stage: Stage) -> None:
    with refused_with(errors.InvalidTransactionTimeout):
        stage.producer(timeout_ms=TOO_LONG_MS)
