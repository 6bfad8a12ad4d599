"""The APIs of the transaction coordinator: their versions, their codes, and what is in their answers."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest
from kio.schema.add_offsets_to_txn.v4 import AddOffsetsToTxnRequest
from kio.schema.add_partitions_to_txn.v3 import AddPartitionsToTxnRequest as AddRequestV3
from kio.schema.add_partitions_to_txn.v3.request import AddPartitionsToTxnTopic as AddTopicV3
from kio.schema.add_partitions_to_txn.v5 import AddPartitionsToTxnRequest
from kio.schema.add_partitions_to_txn.v5.request import (
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from kio.schema.describe_transactions.v0 import DescribeTransactionsRequest
from kio.schema.end_txn.v5 import EndTxnRequest
from kio.schema.errors import ErrorCode
from kio.schema.find_coordinator.v6.request import FindCoordinatorRequest
from kio.schema.init_producer_id.v6 import InitProducerIdRequest
from kio.schema.list_transactions.v2 import ListTransactionsRequest
from tests.unit.coordinator.coordinator_bench import CoordinatorBench

from ottla.protocol.own_messages import PrepareTransactionRequest
from ottla.protocol.types import (
    GroupId,
    ProducerId,
    TopicName,
    TransactionalId,
    i8,
    i16,
    i32,
    i64,
)

ID = TransactionalId("t")
OK = ErrorCode.none


async def init(bench: CoordinatorBench, version: int = 6, key: str | None = "t", **wanted: Any) -> Any:
    fields = {"transaction_timeout": timedelta(seconds=60), "transactional_id": key, **wanted}
    return await bench.ask(InitProducerIdRequest(**fields), version)


async def add(
    bench: CoordinatorBench, epoch: int, *indexes: int, topic: str = "orders", version: int = 3
) -> Any:
    request = AddRequestV3(
        v3_and_below_transactional_id=ID,
        v3_and_below_producer_id=ProducerId(0),
        v3_and_below_producer_epoch=i16(epoch),
        v3_and_below_topics=(AddTopicV3(name=TopicName(topic), partitions=tuple(map(i32, indexes))),),
    )
    response = await bench.ask(request, version)
    (result,) = response.results_by_topic_v3_and_below
    return [each.partition_error_code for each in result.results_by_partition]


async def end(bench: CoordinatorBench, epoch: int, commit: bool = True, version: int = 5) -> Any:
    request = EndTxnRequest(
        transactional_id=ID, producer_id=ProducerId(0), producer_epoch=i16(epoch), committed=commit
    )
    return await bench.ask(request, version)


async def ended(bench: CoordinatorBench) -> None:
    async with asyncio.timeout(2):
        while (await bench.transactions.describe("t")).state.is_ending:  # noqa: ASYNC110
            await asyncio.sleep(0.001)


@pytest.mark.parametrize("version", range(7))
async def test_a_producer_gets_id_and_epoch_in_every_version(bench: CoordinatorBench, version: int) -> None:
    for epoch in range(2):
        found = await init(bench, version)
        assert (found.error_code, found.producer_id, found.producer_epoch) == (OK, 0, epoch)
    plain = await init(bench, version, key=None)
    assert (plain.error_code, plain.producer_id, plain.producer_epoch) == (OK, 1, 0)


async def test_nonsense_is_refused(bench: CoordinatorBench) -> None:
    assert (await init(bench, key="")).error_code == ErrorCode.invalid_request
    for given in ({"producer_id": 3}, {"producer_epoch": 3}, {"producer_id": -7, "producer_epoch": -7}):
        assert (await init(bench, **given)).error_code == ErrorCode.invalid_request
    too_long = await init(bench, transaction_timeout=timedelta(hours=1))
    assert too_long.error_code == ErrorCode.invalid_transaction_timeout
    assert (too_long.producer_id, too_long.producer_epoch) == (-1, -1)


@pytest.mark.parametrize("version", range(4))
async def test_partitions_are_added_in_every_version_of_producers(
    bench: CoordinatorBench, version: int
) -> None:
    await init(bench)
    assert await add(bench, 0, 0, 1, version=version) == [OK, OK]


async def test_partitions_are_added_all_or_none(bench: CoordinatorBench) -> None:
    await init(bench)
    assert await add(bench, 0, 0, 9) == [
        ErrorCode.operation_not_attempted,
        ErrorCode.unknown_topic_or_partition,
    ]
    for topic in ("__transaction_state", "__consumer_offsets", "__audit"):
        assert await add(bench, 0, 0, topic=topic) == [ErrorCode.topic_authorization_failed]
    assert (await bench.transactions.describe("t")).partitions == frozenset()


@pytest.mark.parametrize(("version", "code"), [(1, "invalid_producer_epoch"), (2, "producer_fenced")])
async def test_old_clients_know_a_fenced_producer_by_an_older_code(
    bench: CoordinatorBench, version: int, code: str
) -> None:
    await init(bench)
    await init(bench)
    expected = ErrorCode[code]
    assert await add(bench, 0, 0, version=version) == [expected]
    assert (await end(bench, 0, version=version)).error_code == expected
    offsets = AddOffsetsToTxnRequest(
        transactional_id=ID, producer_id=ProducerId(0), producer_epoch=i16(0), group_id=GroupId("g")
    )
    assert (await bench.ask(offsets, version)).error_code == expected
    stale = await init(bench, version + 2, producer_id=0, producer_epoch=0)
    assert stale.error_code == expected


async def test_brokers_verify_and_add_for_many_transactions_at_once(bench: CoordinatorBench) -> None:
    await init(bench)
    await add(bench, 0, 0)

    def asked(key: str, verify_only: bool, *indexes: int) -> AddPartitionsToTxnTransaction:
        topic = AddPartitionsToTxnTopic(name=TopicName("orders"), partitions=tuple(map(i32, indexes)))
        return AddPartitionsToTxnTransaction(
            transactional_id=TransactionalId(key),
            producer_id=ProducerId(0),
            producer_epoch=i16(0),
            verify_only=verify_only,
            topics=(topic,),
        )

    async def codes(*transactions: AddPartitionsToTxnTransaction) -> list[list[ErrorCode]]:
        response = await bench.ask(AddPartitionsToTxnRequest(transactions=transactions))
        assert response.error_code == OK
        return [
            [each.partition_error_code for each in result.topic_results[0].results_by_partition]
            for result in response.results_by_transaction
        ]

    unknown = ErrorCode.invalid_producer_id_mapping
    assert await codes(asked("t", True, 0, 1), asked("nobody", True, 0), asked("", True, 0)) == [
        [OK, ErrorCode.transaction_abortable],
        [unknown],
        [ErrorCode.invalid_request],
    ]
    assert await codes(asked("t", False, 1)) == [[OK]]
    assert await codes(asked("t", True, 0, 1)) == [[OK, OK]]


async def test_offsets_of_a_group_are_a_partition_of_the_transaction(bench: CoordinatorBench) -> None:
    await init(bench)
    request = AddOffsetsToTxnRequest(
        transactional_id=ID, producer_id=ProducerId(0), producer_epoch=i16(0), group_id=GroupId("g")
    )
    assert (await bench.ask(request)).error_code == OK
    (partition,) = (await bench.transactions.describe("t")).partitions
    assert partition == await bench.groups.find_partition("g")
    no_group = AddOffsetsToTxnRequest(
        transactional_id=ID, producer_id=ProducerId(0), producer_epoch=i16(0), group_id=GroupId("")
    )
    assert (await bench.ask(no_group)).error_code == ErrorCode.invalid_group_id


@pytest.mark.parametrize("version", range(6))
async def test_a_transaction_ends_in_every_version_and_from_5_on_with_a_new_epoch(
    bench: CoordinatorBench, version: int
) -> None:
    await init(bench)
    await add(bench, 0, 0)
    found = await end(bench, 0, version=version)
    assert found.error_code == OK
    if version >= 5:
        assert (found.producer_id, found.producer_epoch) == (0, 1)
    await ended(bench)
    again = await end(bench, 0, version=version)
    assert again.error_code == OK
    assert (await end(bench, 0, commit=False, version=version)).error_code == ErrorCode.invalid_txn_state


async def test_transactions_are_listed_and_described(bench: CoordinatorBench) -> None:
    await init(bench)
    await add(bench, 0, 1, 0)
    await init(bench, key="idle/é")

    async def listed(**wanted: Any) -> Any:
        return await bench.ask(ListTransactionsRequest(**wanted))

    everything = await listed()
    assert sorted(
        (each.transactional_id, each.transaction_state) for each in everything.transaction_states
    ) == [
        ("idle/é", "Empty"),
        ("t", "Ongoing"),
    ]
    some = await listed(state_filters=("Ongoing", "Confused"))
    assert [each.transactional_id for each in some.transaction_states] == ["t"]
    assert some.unknown_state_filters == ("Confused",)
    assert (await listed(state_filters=("Confused",))).transaction_states == ()
    for pattern, names in [("idle/.", ["idle/é"]), ("t|u", ["t"]), ("nothing", []), ("", ["idle/é", "t"])]:
        found = await listed(transactional_id_pattern=pattern)
        assert sorted(each.transactional_id for each in found.transaction_states) == names
    wrong = await listed(transactional_id_pattern="(")
    assert wrong.error_code == ErrorCode.invalid_regular_expression
    assert (await listed(duration_filter=i64(10**9))).transaction_states == ()

    request = DescribeTransactionsRequest(
        transactional_ids=(ID, TransactionalId("nobody"), TransactionalId(""))
    )
    found, unknown, empty = (await bench.ask(request)).transaction_states
    assert (found.transaction_state, found.producer_id, found.producer_epoch) == ("Ongoing", 0, 0)
    assert [(each.topic, each.partitions) for each in found.topics] == [("orders", (0, 1))]
    assert found.transaction_timeout == timedelta(seconds=60)
    assert unknown.error_code == ErrorCode.transactional_id_not_found
    assert empty.error_code == ErrorCode.invalid_request


async def prepare(bench: CoordinatorBench, epoch: int) -> ErrorCode:
    request = PrepareTransactionRequest(
        transactional_id=ID, producer_id=ProducerId(0), producer_epoch=i16(epoch)
    )
    code: ErrorCode = (await bench.ask(request)).error_code
    return code


async def test_a_two_phase_transaction_is_prepared_kept_and_ended_by_another(bench: CoordinatorBench) -> None:
    await init(bench, enable2_pc=True)
    assert await prepare(bench, 0) == ErrorCode.invalid_txn_state
    await add(bench, 0, 0)
    assert await prepare(bench, 0) == OK
    assert await prepare(bench, 1) == ErrorCode.producer_fenced
    listed = await bench.ask(ListTransactionsRequest(state_filters=("Prepared",)))
    assert [(each.transactional_id, each.transaction_state) for each in listed.transaction_states] == [
        ("t", "Ongoing")
    ]
    found = await init(bench, enable2_pc=True, keep_prepared_txn=True)
    assert (found.producer_id, found.producer_epoch) == (0, 1)
    assert (found.ongoing_txn_producer_id, found.ongoing_txn_producer_epoch) == (0, 0)
    assert (await end(bench, 1)).producer_epoch == 2


async def test_two_phase_commit_can_be_switched_off() -> None:
    bench = CoordinatorBench(transaction_two_phase_commit_enable="false")
    await bench.start()
    await bench.transactions.find("t")
    refused = ErrorCode.transactional_id_authorization_failed
    assert (await init(bench, enable2_pc=True)).error_code == refused
    assert await prepare(bench, 0) == refused
    await bench.stop()


@pytest.mark.parametrize(
    ("principals", "expected"),
    [
        ("*", OK),
        ("User:spark,User:ANONYMOUS", OK),
        ("User:spark", ErrorCode.transactional_id_authorization_failed),
        ("", ErrorCode.transactional_id_authorization_failed),
    ],
)
async def test_only_the_principals_that_are_named_may_use_two_phase_commit(
    principals: str, expected: ErrorCode
) -> None:
    bench = CoordinatorBench(
        transaction_two_phase_commit_enable="true", ottla_two_phase_commit_principals=principals
    )
    await bench.start()
    await bench.create_topics("orders")
    await bench.transactions.find("t")
    assert (await init(bench, enable2_pc=True)).error_code == expected
    if expected == OK:
        await add(bench, 0, 0)
    assert await prepare(bench, 0) == expected
    assert (await init(bench)).error_code in (OK, ErrorCode.concurrent_transactions)
    await bench.stop()


async def test_the_coordinator_of_a_transactional_id_is_found(bench: CoordinatorBench) -> None:
    request = FindCoordinatorRequest(key_type=i8(1), coordinator_keys=("t", ""))
    found, empty = (await bench.ask(request)).coordinators
    assert (found.node_id, found.host, found.port) == (1, "broker.example", 9092)
    assert empty.error_code == ErrorCode.invalid_request
