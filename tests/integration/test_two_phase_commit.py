"""Two-phase commit: a prepared transaction waits for its end, through the deaths of client and broker.

KIP-939 with a prepare of our own. Not against Kafka, which has the fields but serves neither.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from kio.schema.errors import ErrorCode
from tests.integration.clients import Place, wait_until
from tests.integration.confluent_client import ConfluentClient
from tests.integration.confluent_transactions import CONFLUENT
from tests.integration.transactions import END
from tests.integration.wire_transactions import CLASSIC, V2, Versions, WireProducer

from ottla.common.ids import new_uuid
from ottla.protocol.api_keys import ApiKey
from ottla.testing.broker_process import BrokerProcess

OK = ErrorCode.none
FOREVER_MS = 2**31 - 1
MAX_TIMEOUT_MS = 2_000

both = pytest.mark.parametrize("versions", [CLASSIC, V2], ids=["classic", "v2"])


@pytest.fixture
def own_broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    settings = {
        "transaction.two.phase.commit.enable": "true",
        "transaction.max.timeout.ms": str(MAX_TIMEOUT_MS),
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": "100",
    }
    with BrokerProcess(tmp_path / "data", settings=settings) as started:
        yield started


@pytest.fixture
def place(own_broker: BrokerProcess) -> Place:
    with closing(ConfluentClient(own_broker.address)) as client:
        return client.create_topic(f"two-phase.{new_uuid().hex[:8]}"), 0


def sink(broker: BrokerProcess, versions: Versions = V2) -> WireProducer:
    return WireProducer(broker.address, "sink-1", versions)


def prepare(producer: WireProducer) -> ErrorCode:
    answer = producer.wire.call(
        ApiKey.PREPARE_TRANSACTION,
        0,
        transactional_id=producer.transactional_id,
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
    )
    code: ErrorCode = answer.error_code
    return code


def state_of(producer: WireProducer) -> str:
    asked = {"transactional_ids": [producer.transactional_id]}
    (found,) = producer.wire.call(ApiKey.DESCRIBE_TRANSACTIONS, 0, **asked).transaction_states
    return str(found.transaction_state)


def take_over(producer: WireProducer) -> Any:
    """Find the transaction that another left, and keep it."""
    wait_until(lambda: producer.find() == OK, "the coordinator")
    answers: list[Any] = []

    def is_done() -> bool:
        answers.append(producer.init(6, FOREVER_MS, enable2_pc=True, keep_prepared_txn=True))
        return bool(answers[-1].error_code == OK)

    wait_until(is_done, "the transaction to be taken over")
    return answers[-1]


def committed(broker: BrokerProcess, place: Place) -> list[bytes]:
    """Return what a reader of committed records gets, up to a last record from now."""
    with WireProducer(broker.address, "end", V2).start(timeout_ms=MAX_TIMEOUT_MS) as last:
        last.write(place, END)
        last.finish()
    with CONFLUENT.reader(broker.address) as reader:
        return reader.read_until_end([place])[place]


@both
@pytest.mark.parametrize("commit", [True, False], ids=["commit", "abort"])
def test_a_prepared_transaction_outlives_client_and_broker(
    own_broker: BrokerProcess, place: Place, versions: Versions, commit: bool
) -> None:
    with sink(own_broker, versions) as first:
        first.start(version=6, timeout_ms=FOREVER_MS, enable2_pc=True)
        first.write(place, b"one", b"two")
        assert prepare(first) == OK
        assert prepare(first) == OK
    own_broker.kill()
    own_broker.start()
    with sink(own_broker, versions) as second:
        found = take_over(second)
        assert (found.ongoing_txn_producer_id, found.ongoing_txn_producer_epoch) == (
            first.producer_id,
            first.epoch,
        )
        assert first.epoch < second.epoch
        own_broker.kill()
        own_broker.start()
        second.reconnect()
        wait_until(lambda: second.find() == OK, "the coordinator")
        second.finish(commit)
        second.write(place, b"three")
        second.finish()
    expected = [b"one", b"two", b"three"] if commit else [b"three"]
    assert committed(own_broker, place) == expected


def test_a_prepared_transaction_has_no_timeout_and_an_unprepared_one_has(
    own_broker: BrokerProcess, place: Place
) -> None:
    with sink(own_broker) as kept, WireProducer(own_broker.address, "late", V2) as late:
        for producer in (kept, late):
            producer.start(version=6, timeout_ms=FOREVER_MS, enable2_pc=True)
            producer.write(place, producer.transactional_id.encode())
        assert prepare(kept) == OK
        # Its time is transaction.max.timeout.ms, whatever it asked for.
        wait_until(lambda: state_of(late) == "CompleteAbort", "the other one to time out")
        assert prepare(late) == ErrorCode.producer_fenced
        assert state_of(kept) == "Ongoing"
        kept.finish()
    assert committed(own_broker, place) == [b"sink-1"]


def test_who_comes_without_keeping_it_aborts_it(own_broker: BrokerProcess, place: Place) -> None:
    with sink(own_broker) as first, sink(own_broker) as second:
        first.start(version=6, timeout_ms=FOREVER_MS, enable2_pc=True)
        first.write(place, b"gone")
        assert prepare(first) == OK
        second.start(version=6, timeout_ms=FOREVER_MS, enable2_pc=True)
        assert first.end() == ErrorCode.producer_fenced
        second.write(place, b"here")
        second.finish()
    assert committed(own_broker, place) == [b"here"]


def test_nothing_can_be_added_to_what_is_prepared(own_broker: BrokerProcess, place: Place) -> None:
    with sink(own_broker, CLASSIC) as producer:
        producer.start(version=6, timeout_ms=FOREVER_MS, enable2_pc=True)
        producer.write(place, b"x")
        assert prepare(producer) == OK
        assert producer.add(place) == [ErrorCode.invalid_txn_state]
        producer.finish()
