"""WriteTxnMarkers and DescribeProducers: how transactions end in partitions, and which have not."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from kio.schema.describe_producers.v0 import DescribeProducersRequest
from kio.schema.describe_producers.v0.request import TopicRequest
from kio.schema.errors import ErrorCode
from kio.schema.write_txn_markers.v2 import WriteTxnMarkersRequest
from kio.schema.write_txn_markers.v2.request import WritableTxnMarker, WritableTxnMarkerTopic
from tests.unit.api.transactions.wire import TransactionalClient
from tests.unit.coordinator.coordinator_bench import CoordinatorBench

from ottla.common.ids import TopicPartition
from ottla.common.topic_names import CONSUMER_OFFSETS_TOPIC
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.errors import NotLeaderOrFollower
from ottla.protocol.records.control import Marker
from ottla.protocol.types import ProducerId, TopicName, i8, i16, i32
from ottla.replication.partition import Partition

OK = ErrorCode.none


@pytest.fixture
async def client(bench: CoordinatorBench) -> TransactionalClient:
    await bench.groups.find("g")
    made = TransactionalClient(bench)
    await made.init()
    await made.add(0, 1)
    await made.add_offsets()
    await made.produce(0, 1)
    return made


def marker_of(
    client: TransactionalClient,
    *topics: tuple[str, tuple[int, ...]],
    commit: bool = True,
    coordinator_epoch: int = 0,
    epoch: int | None = None,
    transaction_version: int = 0,
) -> WritableTxnMarker:
    return WritableTxnMarker(
        producer_id=ProducerId(client.producer_id),
        producer_epoch=i16(client.epoch if epoch is None else epoch),
        transaction_result=commit,
        topics=tuple(
            WritableTxnMarkerTopic(name=TopicName(name), partition_indexes=tuple(map(i32, indexes)))
            for name, indexes in topics
        ),
        coordinator_epoch=i32(coordinator_epoch),
        transaction_version=i8(transaction_version),
    )


async def write(
    client: TransactionalClient,
    *topics: tuple[str, tuple[int, ...]],
    commit: bool = True,
    version: int = 2,
    coordinator_epoch: int = 0,
    epoch: int | None = None,
    transaction_version: int = 0,
) -> list[ErrorCode]:
    marker = marker_of(
        client,
        *topics,
        commit=commit,
        coordinator_epoch=coordinator_epoch,
        epoch=epoch,
        transaction_version=transaction_version,
    )
    response = await client.bench.ask(WriteTxnMarkersRequest(markers=(marker,)), version)
    (result,) = response.markers
    assert result.producer_id == client.producer_id
    assert [topic.name for topic in result.topics] == [name for name, _ in topics]
    return [each.error_code for topic in result.topics for each in topic.partitions]


@pytest.mark.parametrize("version", [1, 2])
async def test_markers_end_the_transaction_where_they_are_written(
    client: TransactionalClient, version: int
) -> None:
    partitions = [client.bench.partitions.get("orders", index) for index in (0, 1)]
    codes = await write(client, ("orders", (0, 9)), ("nowhere", (0,)), commit=False, version=version)
    assert codes == [OK, ErrorCode.unknown_topic_or_partition, ErrorCode.unknown_topic_or_partition]
    assert [each.last_stable_offset for each in partitions] == [2, 0]
    assert len(partitions[0].log.aborted_transactions(0, 1)) == 1


async def test_an_old_coordinator_and_an_old_epoch_are_fenced(client: TransactionalClient) -> None:
    assert await write(client, ("orders", (0,)), coordinator_epoch=5) == [OK]
    fenced = await write(client, ("orders", (0,)), coordinator_epoch=4)
    assert fenced == [ErrorCode.transaction_coordinator_fenced]
    stale = await write(client, ("orders", (1,)), epoch=client.epoch, transaction_version=2)
    assert stale == [ErrorCode.invalid_producer_epoch]
    assert await write(client, ("orders", (1,)), epoch=client.epoch + 1, transaction_version=2) == [OK]


async def test_a_marker_in_the_topic_of_offsets_decides_what_groups_have_pending(
    client: TransactionalClient,
) -> None:
    await client.commit_offset(7, version=3)
    topic, index = await client.bench.groups.find_partition("g")
    assert topic == CONSUMER_OFFSETS_TOPIC
    assert await write(client, (topic, (index, 99))) == [OK, ErrorCode.not_leader_or_follower]
    machine: Any = client.bench.groups._shards.of("g").runtime.machine
    assert machine.offsets.of_group("g")["orders"][0].offset == 7


async def test_a_partition_of_offsets_that_is_still_loading_is_to_be_tried_again(
    client: TransactionalClient,
) -> None:
    bench = client.bench
    topic, index = await bench.groups.find_partition("g")
    await bench.kill()
    await bench.start()
    assert await write(client, (topic, (index,))) == [ErrorCode.not_leader_or_follower]
    await bench.loaded()
    assert await write(client, (topic, (index,))) == [OK]


async def test_producers_are_described_with_their_open_transactions(client: TransactionalClient) -> None:
    await write(client, ("orders", (1,)), coordinator_epoch=3)
    request = DescribeProducersRequest(
        topics=(
            TopicRequest(name=TopicName("orders"), partition_indexes=(i32(0), i32(1), i32(2), i32(0))),
            TopicRequest(name=TopicName("nowhere"), partition_indexes=(i32(0),)),
        )
    )
    response = await client.bench.ask(request)
    orders, nowhere = response.topics
    assert [each.partition_index for each in orders.partitions] == [0, 1, 2]
    (opened,), (ended,), nobody = (each.active_producers for each in orders.partitions)
    assert (opened.producer_id, opened.producer_epoch) == (client.producer_id, client.epoch)
    assert (opened.last_sequence, opened.current_txn_start_offset, opened.coordinator_epoch) == (0, 0, -1)
    assert (ended.current_txn_start_offset, ended.coordinator_epoch) == (-1, 3)
    assert nobody == ()
    assert nowhere.partitions[0].error_code == ErrorCode.unknown_topic_or_partition


async def test_of_too_many_producers_those_with_open_transactions_are_described(
    client: TransactionalClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ottla.api.describe_producers.MAX_PRODUCERS", 2)
    for producer_id in (50, 51, 52):
        fields = {"producer_id": producer_id, "base_sequence": 0, "transactional": False, "named": False}
        assert await client.produce(0, **fields) == [OK]
    indexes = (i32(0), i32(1))
    request = DescribeProducersRequest(
        topics=(TopicRequest(name=TopicName("orders"), partition_indexes=indexes),)
    )
    (orders,) = (await client.bench.ask(request)).topics
    first, second = (each.active_producers for each in orders.partitions)
    assert [each.producer_id for each in first] == [client.producer_id, 50]
    assert second == ()


async def test_a_coordinator_that_has_been_replaced_waits_for_its_markers_no_more(
    client: TransactionalClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    waiting: list[asyncio.Future[None]] = []

    def never(partition: Partition, offset: int) -> asyncio.Future[None]:
        waiting.append(asyncio.get_running_loop().create_future())
        return waiting[-1]

    monkeypatch.setattr(Partition, "when_committed", never)
    marker = Marker(client.producer_id, client.epoch, True, 0, 0)
    partitions = [TopicPartition("orders", index) for index in (0, 1)]
    appender = client.bench.transactions.marker_appender
    writing = asyncio.create_task(appender.append_all([(marker, each) for each in partitions]))
    await asyncio.sleep(0)
    waiting[0].set_exception(NotLeaderOrFollower("led elsewhere"))
    writing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await writing
    assert waiting[1].cancelled()  # else its error, too, would be one that nobody has looked at


async def test_markers_on_one_connection_do_not_wait_for_each_other(client: TransactionalClient) -> None:
    assert client.bench.dispatcher.may_overlap(ApiKey.WRITE_TXN_MARKERS)
    assert not client.bench.dispatcher.may_overlap(ApiKey.END_TXN)
