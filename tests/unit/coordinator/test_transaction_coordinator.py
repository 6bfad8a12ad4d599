"""The transaction coordinator on real logs: its topic, its markers, and what a crash leaves."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

import pytest
from kio.schema.add_partitions_to_txn.v5 import AddPartitionsToTxnRequest, AddPartitionsToTxnResponse
from kio.schema.add_partitions_to_txn.v5.response import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopicResult,
)
from kio.schema.errors import ErrorCode
from tests.unit.coordinator.coordinator_bench import CoordinatorBench

from ottla.api.support.coordinator_calls import await_reply
from ottla.common.ids import TopicPartition
from ottla.common.topic_names import TRANSACTION_STATE_TOPIC
from ottla.coordinator import partitions
from ottla.coordinator.transaction.requests import EndRequest, InitRequest, ListFilter
from ottla.coordinator.transaction.transaction import LAST_EPOCH, Producer, State, Transaction
from ottla.protocol.errors import (
    ConcurrentTransactions,
    CoordinatorNotAvailable,
    NetworkException,
    NotCoordinator,
    ProducerFenced,
    TransactionalIdNotFound,
)
from ottla.protocol.records.batch import iter_batches
from ottla.protocol.records.control import Marker
from ottla.protocol.records.records import Record, encode_batch
from ottla.protocol.types import NO_THROTTLE, TopicName, TransactionalId, i32

A, B = TopicPartition("orders", 0), TopicPartition("orders", 1)


@pytest.fixture
async def bench() -> AsyncIterator[CoordinatorBench]:
    made = CoordinatorBench()
    await made.start()
    await made.create_topics("orders")
    await made.transactions.find("t")
    yield made
    await made.stop()


async def begin(bench: CoordinatorBench, *partitions: TopicPartition, **wanted: Any) -> Producer:
    initiated = await bench.transactions.init_producer_id(InitRequest("t", 60_000, **wanted))
    await await_reply(
        bench.transactions.add_partitions("t", initiated.producer, frozenset(partitions or (A,)))
    )
    return initiated.producer


async def end(bench: CoordinatorBench, producer: Producer, commit: bool = True) -> Producer:
    ended: Producer = await await_reply(
        bench.transactions.end(EndRequest("t", producer, commit, bumps_epoch=True))
    )
    return ended


def send_by(bench: CoordinatorBench, send: Any) -> None:
    """Let all markers be sent by `send`, also those that could be written here at once."""
    writer: Any = bench.transactions._markers
    writer._deliver = send
    appender: Any = bench.transactions.marker_appender
    appender.append_committed = lambda marker, partitions: []


async def completed(bench: CoordinatorBench) -> Transaction:
    """Wait until all markers are written."""
    async with asyncio.timeout(2):
        while (found := await bench.transactions.describe("t")).state.is_ending:  # noqa: ASYNC110
            await asyncio.sleep(0.001)
    return found


def markers(bench: CoordinatorBench, at: TopicPartition) -> list[tuple[int, int]]:
    """Return producer id and epoch of the control batches in a partition."""
    log = bench.partitions.get(*at).log
    headers, offset = [], 0
    while offset < log.log_end_offset:
        read = log.read(offset, 1 << 20, log.log_end_offset)
        data = read.records if isinstance(read.records, bytes) else read.records.read()
        headers += [header for header, _ in iter_batches(data)]
        offset = read.next_offset
    return [(each.producer_id, each.producer_epoch) for each in headers if each.is_control]


async def test_the_topic_is_made_on_first_use_as_kafka_makes_it(bench: CoordinatorBench) -> None:
    assert len(bench.cluster.image.topics[TRANSACTION_STATE_TOPIC].partitions) == 4
    assert bench.cluster.image.topic_overrides(TRANSACTION_STATE_TOPIC) == {
        "cleanup.policy": "compact",
        "compression.type": "uncompressed",
        "min.insync.replicas": "1",
        "segment.bytes": "104857600",
        "unclean.leader.election.enable": "false",
    }


async def test_every_partition_gets_its_marker(bench: CoordinatorBench) -> None:
    producer = await begin(bench, A, B)
    after = await end(bench, producer)
    found = await completed(bench)
    assert found.state == State.COMPLETE_COMMIT
    assert markers(bench, A) == markers(bench, B) == [after]


async def test_on_one_broker_markers_need_no_task_and_are_there_before_the_next_request(
    bench: CoordinatorBench,
) -> None:
    producer = await begin(bench, A, B)
    await end(bench, producer)
    await asyncio.sleep(0)
    assert (await bench.transactions.describe("t")).state == State.COMPLETE_COMMIT
    assert not bench.transactions._markers._tasks


async def test_more_markers_than_one_turn_should_take_are_written_in_the_background(
    bench: CoordinatorBench,
) -> None:
    await bench.create_topics("wide", partitions=50)
    wide = [TopicPartition("wide", index) for index in range(50)]
    after = await end(bench, await begin(bench, *wide))
    await asyncio.sleep(0)
    assert bench.transactions._markers._tasks
    await completed(bench)
    assert all(markers(bench, each) == [after] for each in wide)


async def test_a_completion_that_cannot_be_written_is_tried_again(bench: CoordinatorBench) -> None:
    producer = await begin(bench, A)
    after = await end(bench, producer)
    bench.disk.fail("write", errno.ENOSPC, times=1, path_part=TRANSACTION_STATE_TOPIC)
    await asyncio.sleep(0)
    assert (await bench.transactions.describe("t")).state == State.PREPARE_COMMIT
    bench.disk.heal()
    await completed(bench)
    assert markers(bench, A) == [after]


async def test_a_partition_that_cannot_be_written_is_tried_again(
    bench: CoordinatorBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    producer = await begin(bench, A, B)
    bench.disk.fail("write", errno.ENOSPC, times=2, path_part="orders-1/")
    after = await end(bench, producer)
    await asyncio.sleep(0)
    with pytest.raises(ConcurrentTransactions):
        await await_reply(bench.transactions.add_partitions("t", after, frozenset({A})))
    bench.disk.heal()
    await completed(bench)
    assert markers(bench, B) == [after]


async def test_while_it_ends_only_partitions_without_a_marker_are_described(bench: CoordinatorBench) -> None:
    producer = await begin(bench, A, B)
    held = asyncio.Event()
    real_send = bench.transactions._markers._deliver

    async def send(*markers: Any) -> Any:
        await held.wait()
        return await real_send(*markers)

    send_by(bench, send)
    await end(bench, producer)
    assert (await bench.transactions.describe("t")).partitions == {A, B}
    held.set()
    assert (await completed(bench)).partitions == frozenset()


async def test_the_markers_of_a_deleted_topic_are_not_written(bench: CoordinatorBench) -> None:
    producer = await begin(bench)
    await bench.delete_topics("orders")
    await end(bench, producer)
    assert (await completed(bench)).state == State.COMPLETE_COMMIT


# After a power failure of all its replicas the coordinator may know less than the partitions (decision 90).


def write_ahead(bench: CoordinatorBench, at: TopicPartition, producer: Producer) -> None:
    """Append a batch of a later epoch: of a transaction that the coordinator has forgotten."""
    batch = encode_batch(
        [Record(0, 1_000, None, b"later")],
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch + 5,
        base_sequence=0,
        transactional=True,
    )
    (header, data), *_ = iter_batches(batch)
    partition = bench.partitions.get(*at)
    partition.log.verifications.begin(header.producer_id, header.producer_epoch, 0).confirm()
    partition.append(data, header)


@pytest.mark.parametrize("commit", [True, False])
@pytest.mark.parametrize("bumps_epoch", [True, False])
async def test_a_partition_that_is_ahead_of_its_coordinator_does_not_block_the_id(
    bench: CoordinatorBench, commit: bool, bumps_epoch: bool
) -> None:
    producer = await begin(bench, A, B)
    write_ahead(bench, A, producer)
    await await_reply(bench.transactions.end(EndRequest("t", producer, commit, bumps_epoch)))
    found = await completed(bench)
    assert found.state == (State.COMPLETE_COMMIT if commit else State.COMPLETE_ABORT)
    assert markers(bench, A) == [(producer.producer_id, LAST_EPOCH)]
    assert markers(bench, B) == [(producer.producer_id, producer.epoch + bumps_epoch)]
    assert bench.partitions.get(*A).log.producers.first_open_offset() is None
    # The old producer is fenced; the next one is none that A has ever seen.
    with pytest.raises(ProducerFenced):
        await await_reply(bench.transactions.add_partitions("t", producer, frozenset({A})))
    after = await begin(bench, A)
    assert after.producer_id != producer.producer_id
    assert await end(bench, after)
    assert (await completed(bench)).state == State.COMPLETE_COMMIT


async def test_a_coordinator_that_was_replaced_does_not_fence_what_its_successor_began(
    bench: CoordinatorBench,
) -> None:
    producer = await begin(bench, A)
    partition = bench.partitions.get(*A)
    partition.append_marker(Marker(*producer, True, 1_000, 0))  # by the successor
    write_ahead(bench, A, producer)
    await end(bench, producer)
    async with asyncio.timeout(2):
        while bench.transactions._markers._tasks:  # noqa: ASYNC110
            await asyncio.sleep(0.001)
    assert (await bench.transactions.describe("t")).state == State.PREPARE_COMMIT  # left to the successor
    assert partition.log.producers.first_open_offset() is not None


@pytest.mark.parametrize("commit", [True, False])
async def test_what_was_decided_before_a_crash_is_carried_out_after_it(commit: bool) -> None:
    bench = CoordinatorBench(log_flush_interval_messages=1)
    await bench.start()
    await bench.create_topics("orders")
    await bench.transactions.find("t")
    producer = await begin(bench)

    async def send(*markers: Any) -> Any:
        raise OSError("cut off")

    send_by(bench, send)
    after = await end(bench, producer, commit)
    await bench.kill()
    await bench.start()
    await bench.loaded()
    found = await completed(bench)
    assert found.state == (State.COMPLETE_COMMIT if commit else State.COMPLETE_ABORT)
    assert markers(bench, A) == [after]
    assert await end(bench, producer, commit) == after  # the client has not heard of it
    await bench.stop()


async def test_a_prepared_transaction_is_there_after_a_restart() -> None:
    bench = CoordinatorBench(transaction_two_phase_commit_enable="true")
    await bench.start()
    await bench.create_topics("orders")
    await bench.transactions.find("t")
    producer = await begin(bench, is_two_phase=True)
    await bench.transactions.prepare("t", producer, "")
    await bench.stop()
    await bench.start()
    await bench.loaded()
    listed = await bench.transactions.list_transactions(ListFilter(states=frozenset({"Prepared"})))
    assert [each.transactional_id for each in listed] == ["t"]
    wanted = InitRequest("t", 60_000, is_two_phase=True, keeps_prepared=True)
    now, ongoing = await bench.transactions.init_producer_id(wanted)
    assert ongoing == producer
    await end(bench, now)
    await completed(bench)
    assert len(markers(bench, A)) == 1
    await bench.stop()


async def test_partitions_are_verified_or_added(bench: CoordinatorBench) -> None:
    producer = await begin(bench)

    async def verify(*args: Any, **kwargs: Any) -> Any:
        return await await_reply(bench.transactions.verify(*args, **kwargs))

    assert await verify("t", *producer, [A], add=False) == {A: None}
    found = await verify("t", *producer, [A, B], add=False)
    assert found[A] is None
    assert found[B] is not None
    assert found[B].code == ErrorCode.transaction_abortable
    assert await verify("t", *producer, [A, B], add=True) == {A: None, B: None}
    assert await verify("t", *producer, [B], add=False) == {B: None}
    refused = await verify("t", producer.producer_id, producer.epoch + 1, [A], add=True)
    assert isinstance(refused[A], ProducerFenced)


async def test_another_broker_verifies_what_it_coordinates(
    bench: CoordinatorBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[AddPartitionsToTxnRequest] = []

    async def call(
        node_id: int, api_key: int, version: int, request: AddPartitionsToTxnRequest, *, channel: str
    ) -> AddPartitionsToTxnResponse:
        asked.append(request)
        result = AddPartitionsToTxnPartitionResult(
            partition_index=i32(0), partition_error_code=ErrorCode.producer_fenced
        )
        topic = AddPartitionsToTxnTopicResult(name=TopicName("orders"), results_by_partition=(result,))
        return AddPartitionsToTxnResponse(
            throttle_time=NO_THROTTLE,
            error_code=ErrorCode.none,
            results_by_transaction=(
                AddPartitionsToTxnResult(transactional_id=TransactionalId("t"), topic_results=(topic,)),
            ),
        )

    monkeypatch.setattr(bench.transactions, "_brokers", SimpleNamespace(call=call))
    monkeypatch.setattr(bench.transactions._shards, "leader_of", lambda _: 7)
    found = await await_reply(bench.transactions.verify("t", 5, 1, [A], add=False))
    assert isinstance(found[A], ProducerFenced)
    (transaction,) = asked[0].transactions
    assert transaction.verify_only
    assert transaction.producer_id == 5


@pytest.mark.parametrize("error", [NetworkException("cut off"), OSError("cut off")])
async def test_a_coordinator_that_cannot_be_reached_is_not_available(
    bench: CoordinatorBench, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    """Clients know nothing of the network between brokers: NETWORK_EXCEPTION would be news to them."""

    async def call(*request: Any, channel: str) -> Any:
        raise error

    monkeypatch.setattr(bench.transactions, "_brokers", SimpleNamespace(call=call))
    monkeypatch.setattr(bench.transactions._shards, "leader_of", lambda _: 7)
    found = await await_reply(bench.transactions.verify("t", 5, 1, [A], add=True))
    assert isinstance(found[A], CoordinatorNotAvailable)


async def test_a_broker_that_has_lost_its_session_coordinates_nothing(bench: CoordinatorBench) -> None:
    """Though the image says otherwise until others have noticed."""
    producer = await begin(bench, A)
    bench.partitions.fence()
    with pytest.raises(NotCoordinator):
        await bench.transactions.describe("t")
    with pytest.raises(NotCoordinator):
        await end(bench, producer)
    await bench.partitions.unfence(bench.cluster.image)
    assert (await bench.transactions.describe("t")).state == State.ONGOING


async def test_a_partition_that_is_not_led_yet_is_loaded_once_it_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(partitions, "LEAD_AGAIN_S", 0.005)
    bench = CoordinatorBench()
    await bench.start()
    await bench.transactions.find("t")
    await bench.transactions.stop()
    bench.partitions.fence()
    await bench.transactions.start()
    with pytest.raises(NotCoordinator):
        await bench.transactions.describe("t")
    await bench.partitions.unfence(bench.cluster.image)
    async with asyncio.timeout(2):
        while len(list(bench.transactions._shards)) < 4:  # noqa: ASYNC110
            await asyncio.sleep(0.001)
    await bench.loaded()
    with pytest.raises(TransactionalIdNotFound):
        await bench.transactions.describe("t")
    await bench.stop()


async def test_losing_the_topic_stops_the_markers(bench: CoordinatorBench) -> None:
    producer = await begin(bench)
    bench.disk.fail("write", errno.ENOSPC, times=1000, path_part="orders-0/")
    await end(bench, producer)
    await bench.delete_topics(TRANSACTION_STATE_TOPIC)
    with pytest.raises(NotCoordinator):
        await end(bench, producer)
    async with asyncio.timeout(2):
        while bench.transactions._markers._tasks:  # noqa: ASYNC110
            await asyncio.sleep(0.001)
    bench.disk.heal()


async def test_a_coordinator_that_was_replaced_leaves_the_markers_to_the_next(
    bench: CoordinatorBench,
) -> None:
    producer = await begin(bench)
    attempts = []
    real_send = bench.transactions._markers._deliver

    async def send(*markers: Any) -> Any:
        attempts.append(markers)
        results = await real_send(*markers)
        return dict.fromkeys(results, ErrorCode.transaction_coordinator_fenced)

    send_by(bench, send)
    await end(bench, producer)
    async with asyncio.timeout(2):
        while not attempts or bench.transactions._markers._tasks:  # noqa: ASYNC110
            await asyncio.sleep(0.001)
    assert len(attempts) == 1
    assert (await bench.transactions.describe("t")).state == State.PREPARE_COMMIT
