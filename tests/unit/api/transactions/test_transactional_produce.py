"""Producing in transactions: nothing is appended that the coordinator does not know of."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest
from kio.schema.errors import ErrorCode
from tests.unit.api.transactions.wire import TransactionalClient
from tests.unit.coordinator.coordinator_bench import CoordinatorBench, decode

from ottla.common.ids import TopicPartition
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.errors import (
    ConcurrentTransactions,
    CoordinatorLoadInProgress,
    KafkaError,
    NotCoordinator,
    ProducerFenced,
    TransactionAbortable,
)
from ottla.protocol.records.control import Marker
from ottla.protocol.types import TopicName
from ottla.replication.partition import Partition

OK = ErrorCode.none


@pytest.fixture
async def client(bench: CoordinatorBench) -> TransactionalClient:
    made = TransactionalClient(bench)
    await made.init()
    return made


def partition(client: TransactionalClient, index: int = 0) -> Partition:
    return client.bench.partitions.get("orders", index)


def answer(client: TransactionalClient, monkeypatch: pytest.MonkeyPatch, *errors: KafkaError) -> list[bool]:
    """Let the coordinator answer with these errors one after the other, then with its consent."""
    asked: list[bool] = []
    left = list(errors)

    async def verify(*args: Any, add: bool) -> dict[TopicPartition, KafkaError | None]:
        asked.append(add)
        return dict.fromkeys(args[-1], left.pop(0) if left else None)

    monkeypatch.setattr(client.bench.transactions, "verify", verify)
    return asked


async def test_a_partition_that_was_added_takes_the_transaction_until_its_end(
    client: TransactionalClient,
) -> None:
    await client.add(0)
    assert await client.produce(0) == [OK]
    assert await client.produce(0) == [OK]
    assert (partition(client).last_stable_offset, partition(client).high_watermark) == (0, 2)
    await client.end(commit=True)
    assert partition(client).last_stable_offset == partition(client).high_watermark == 3


@pytest.mark.parametrize(
    ("version", "code"), [(9, ErrorCode.invalid_txn_state), (11, ErrorCode.transaction_abortable)]
)
async def test_a_partition_that_was_not_added_takes_nothing(
    client: TransactionalClient, version: int, code: ErrorCode
) -> None:
    await client.add(0)
    assert await client.produce(0, 1, version=version) == [OK, code]
    assert partition(client, 1).high_watermark == 0


async def test_a_topic_of_the_brokers_is_not_added_and_gets_no_marker(client: TransactionalClient) -> None:
    await client.bench.create_topics("__audit")
    request = client.request(0)
    (orders,) = request.topic_data
    audit = replace(orders, name=TopicName("__audit"))
    response = await client.bench.ask(replace(request, topic_data=(orders, audit)), 12)
    codes = {topic.name: topic.partition_responses[0].error_code for topic in response.responses}
    assert codes == {"orders": OK, "__audit": ErrorCode.invalid_txn_state}
    await client.end(commit=True, version=5)
    assert client.bench.partitions.get("__audit", 0).high_watermark == 0


async def test_from_version_twelve_on_producing_adds_the_partition(client: TransactionalClient) -> None:
    assert await client.produce(0, 2, version=12) == [OK, OK]
    transaction = await client.bench.transactions.describe("t")
    assert transaction.partitions == {TopicPartition("orders", 0), TopicPartition("orders", 2)}
    before = client.epoch
    await client.end(commit=False, version=5)
    assert client.epoch == before + 1
    assert [each.producer_id for each in partition(client).log.aborted_transactions(0, 1)] == [
        client.producer_id
    ]
    assert await client.produce(0, version=12) == [OK]


async def test_a_late_batch_of_an_ended_transaction_is_fenced(client: TransactionalClient) -> None:
    await client.produce(0, version=12)
    old = client.epoch
    await client.end(commit=True, version=5)
    late = await client.produce(0, version=12, producer_epoch=old, base_sequence=1)
    assert late == [ErrorCode.invalid_producer_epoch]
    assert partition(client).last_stable_offset == partition(client).high_watermark


async def test_transactional_records_need_a_transactional_id(client: TransactionalClient) -> None:
    await client.add(0)
    refused = await client.produce(0, named=False)
    assert refused == [ErrorCode.transactional_id_authorization_failed]
    assert await client.produce(1, transactional=False, named=False) == [OK]


async def test_the_coordinator_is_asked_once_per_request_and_only_at_the_beginning(
    client: TransactionalClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = answer(client, monkeypatch)
    await client.produce(0, 1, 2)
    assert asked == [False]
    await client.produce(0, 1, 2)
    assert asked == [False]


async def test_it_is_asked_again_while_the_last_transaction_is_being_finished(
    client: TransactionalClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = answer(client, monkeypatch, *[ConcurrentTransactions("busy")] * 3)
    assert await client.produce(0, version=12) == [OK]
    assert asked == [True] * 4


async def test_the_last_transactions_marker_says_nothing_against_a_later_answer(
    client: TransactionalClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With several replicas the markers are in flight when the next transaction begins."""
    written: list[int] = []

    async def verify(*args: Any, add: bool) -> dict[TopicPartition, KafkaError | None]:
        if written:
            return dict.fromkeys(args[-1])
        written.append(partition(client).append_marker(_marker_before(client)).last_offset)
        return dict.fromkeys(args[-1], ConcurrentTransactions("busy"))

    monkeypatch.setattr(client.bench.transactions, "verify", verify)
    assert await client.produce(0, version=12) == [OK]


async def test_a_marker_that_comes_while_it_is_asked_makes_the_answer_worthless(
    client: TransactionalClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def verify(*args: Any, add: bool) -> dict[TopicPartition, KafkaError | None]:
        partition(client).append_marker(_marker_before(client))
        return dict.fromkeys(args[-1])

    monkeypatch.setattr(client.bench.transactions, "verify", verify)
    assert await client.produce(0, version=12) == [ErrorCode.invalid_txn_state]


def _marker_before(client: TransactionalClient) -> Marker:
    """Return the marker that gave the producer the epoch that it has."""
    return Marker(client.producer_id, client.epoch, True, 0, 2)


@pytest.mark.parametrize(
    ("error", "version", "code"),
    [
        (CoordinatorLoadInProgress("x"), 12, ErrorCode.not_enough_replicas),
        (NotCoordinator("x"), 9, ErrorCode.not_enough_replicas),
        (ProducerFenced("x"), 12, ErrorCode.invalid_producer_epoch),
        (TransactionAbortable("x"), 10, ErrorCode.invalid_txn_state),
        (TransactionAbortable("x"), 12, ErrorCode.transaction_abortable),
    ],
)
async def test_what_the_coordinator_says_reaches_the_client_as_it_can_understand_it(
    client: TransactionalClient,
    monkeypatch: pytest.MonkeyPatch,
    error: KafkaError,
    version: int,
    code: ErrorCode,
) -> None:
    answer(client, monkeypatch, error)
    assert await client.produce(0, version=version) == [code]
    assert partition(client).high_watermark == 0


async def test_a_coordinator_that_is_busy_for_long_is_reported_to_the_client(
    client: TransactionalClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ottla.api.support.transaction_verification.RETRY_S", (0.0,))
    answer(client, monkeypatch, *[ConcurrentTransactions("busy")] * 4)
    assert await client.produce(0, version=12) == [ErrorCode.concurrent_transactions]
    assert await client.produce(0, version=11, base_sequence=0) == [ErrorCode.not_enough_replicas]


async def test_a_bug_in_the_coordinator_fails_the_batch_and_nothing_else(
    client: TransactionalClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def verify(*args: Any, add: bool) -> None:
        raise ValueError("a bug")

    monkeypatch.setattr(client.bench.transactions, "verify", verify)
    assert await client.produce(0) == [ErrorCode.unknown_server_error]


async def test_batches_of_one_connection_stay_in_order_while_the_first_is_verified(
    client: TransactionalClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    real_verify = client.bench.transactions.verify

    async def verify_later(*args: Any, **kwargs: Any) -> Any:
        await asyncio.sleep(0.001)
        return real_verify(*args, **kwargs)

    monkeypatch.setattr(client.bench.transactions, "verify", verify_later)
    await client.add(0)
    requests = [client.request(0) for _ in range(5)]
    replies = [client.bench.send(each, 11) for each in requests]
    done = await asyncio.gather(*replies)
    offsets = []
    for reply in done:
        response = decode(reply, ApiKey.PRODUCE, 11, 12)
        (found,) = response.responses[0].partition_responses
        assert found.error_code == OK
        offsets.append(found.base_offset)
    assert offsets == [0, 1, 2, 3, 4]


async def test_a_transaction_has_one_producer(client: TransactionalClient) -> None:
    await client.add(0, 1)
    mine, others = client.request(0), client.request(1, producer_id=77)
    (topic,) = mine.topic_data
    data = (*topic.partition_data, *others.topic_data[0].partition_data)
    both = type(mine)(
        transactional_id=mine.transactional_id,
        acks=mine.acks,
        timeout=mine.timeout,
        topic_data=(type(topic)(name=topic.name, partition_data=data),),
    )
    response = await client.bench.ask(both, 11)
    codes = [each.error_code for each in response.responses[0].partition_responses]
    assert codes == [OK, ErrorCode.invalid_producer_id_mapping]


async def test_without_verification_what_was_not_added_is_appended_nevertheless(
    client: TransactionalClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = {"transaction.partition.verification.enable": "false"}
    client.bench.services.config = client.bench.config.with_dynamic({}, settings)
    asked = answer(client, monkeypatch)
    assert await client.produce(0) == [OK]
    assert asked == []
    assert await client.produce(1, version=12) == [OK]
    assert asked == [True]


async def test_what_is_open_at_a_crash_is_open_after_it(client: TransactionalClient) -> None:
    await client.add(0)
    await client.produce(0)
    await client.end(commit=False)
    await client.add(0)
    await client.produce(0)
    bench = client.bench
    await bench.kill()
    await bench.start()
    await bench.loaded()
    assert partition(client).last_stable_offset == 2
    assert len(partition(client).log.aborted_transactions(0, 9)) == 1
    assert await client.produce(0) == [OK]
    await client.end(commit=True)
    assert partition(client).last_stable_offset == partition(client).high_watermark == 5
