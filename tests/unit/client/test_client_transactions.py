"""The states of a transaction, with coordinators that answer what the test says, and a fake broker."""

import asyncio

import pytest
from kio.schema.errors import ErrorCode
from tests.unit.client.fake_coordinators import FakeCalls

from ottla.client.admin.group_types import ConsumerGroupMetadata, OffsetAndMetadata
from ottla.client.cluster import Cluster
from ottla.client.errors import (
    ConnectionLost,
    TransactionAborted,
    TransactionFailed,
    WrongTransactionState,
    error_for,
)
from ottla.client.producer import AsyncProducer, PreparedTransaction, ProducerOptions
from ottla.client.producer.batch import Identity
from ottla.client.producer.transaction_calls import State
from ottla.common.ids import TopicPartition
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.errors import InvalidRecord, InvalidTxnState, ProducerFenced, TransactionAbortable
from ottla.protocol.records.batch import decode_header

ORDERS = TopicPartition("orders", 0)


@pytest.fixture
def calls():
    return FakeCalls()


@pytest.fixture(params=["classic", "v2"])
def generation(request, monkeypatch):
    level = 2 if request.param == "v2" else 1
    monkeypatch.setattr(Cluster, "features", {"transaction.version": level})
    return request.param


@pytest.fixture
async def producer(peer, calls, generation):
    peer.add_topic("orders")
    options = ProducerOptions(
        transactional_id="t", delivery_timeout_ms=500, transaction_two_phase_commit_enable=True
    )
    async with Cluster([peer.address]) as cluster, AsyncProducer.on(cluster, options) as made:
        made._core.transactions._calls = calls
        yield made


def numbers(peer):
    headers = map(decode_header, peer.topics["orders"].partitions[0].batches)
    return [
        (each.is_transactional, each.producer_id, each.producer_epoch, each.base_sequence) for each in headers
    ]


def state(producer):
    return producer._core.transactions.state


async def test_records_carry_the_identity_of_their_transaction(producer, peer, calls, generation):
    for _ in range(2):
        async with producer.transaction():
            await producer.send("orders", b"x")
    add = [("add", [ORDERS])] if generation == "classic" else []
    assert calls.made == [("init", -1), *add, ("end", "commit"), *add, ("end", "commit")]
    second = (True, 7, 0, 1) if generation == "classic" else (True, 7, 1, 0)
    assert numbers(peer) == [(True, 7, 0, 0), second]


async def test_what_is_no_group_is_refused_in_words_and_the_transaction_continues(producer, calls):
    async with producer.transaction():
        with pytest.raises(TypeError, match="group_metadata"):
            await producer.send_offsets_to_transaction({ORDERS: 3}, 7)
        await producer.send("orders", b"x")
    assert calls.made[-1] == ("end", "commit")


async def test_an_unused_transaction_needs_no_end(producer, calls):
    async with producer.transaction():
        pass
    await producer.begin_transaction()
    await producer.abort_transaction()
    assert calls.made == [("init", -1)]


async def test_an_exception_in_the_block_aborts_and_continues(producer, calls, peer):
    with pytest.raises(ZeroDivisionError):
        async with producer.transaction():
            await (await producer.send("orders", b"x"))
            raise ZeroDivisionError
    assert calls.made[-1] == ("end", "abort")
    assert state(producer) is State.READY


async def test_offsets_are_committed_by_who_the_consumer_is(producer, calls, generation):
    group = ConsumerGroupMetadata("g", 5, "member")
    async with producer.transaction():
        await producer.send_offsets_to_transaction({ORDERS: 3}, group)
        await producer.send_offsets_to_transaction({ORDERS: OffsetAndMetadata(4, "m")}, group)
        await producer.send_offsets_to_transaction({}, group)
    add = [("add group", "g")] if generation == "classic" else []
    assert calls.made[1:] == [
        *add,
        ("offsets", {ORDERS: OffsetAndMetadata(3)}, group),
        ("offsets", {ORDERS: OffsetAndMetadata(4, "m")}, group),
        ("end", "commit"),
    ]


async def test_offsets_that_are_refused_fail_the_transaction(producer, calls):
    await producer.begin_transaction()
    calls.errors["offsets"].append(error_for(ErrorCode.illegal_generation, "too late"))
    with pytest.raises(Exception, match="too late"):
        await producer.send_offsets_to_transaction({ORDERS: 3}, "g")
    with pytest.raises(TransactionFailed, match="abort it: too late"):
        await producer.commit_transaction()
    await producer.abort_transaction()
    assert state(producer) is State.READY


async def test_a_refused_record_fails_the_transaction_and_the_next_begins_in_a_new_epoch(
    producer, calls, peer, generation
):
    await producer.begin_transaction()
    await (await producer.send("orders", b"good"))
    peer.fail(ApiKey.PRODUCE, ErrorCode.invalid_record)
    bad = await producer.send("orders", b"bad")
    with pytest.raises(InvalidRecord):
        await bad
    with pytest.raises(TransactionFailed):
        await producer.send("orders", b"more")
    with pytest.raises(TransactionFailed):
        await producer.flush()
    await producer.abort_transaction()
    bump = [("init", 0)] if generation == "classic" else []  # numbers are missing
    assert calls.made[-1 - len(bump) :] == [("end", "abort"), *bump]
    async with producer.transaction():
        await producer.send("orders", b"next")
    assert numbers(peer)[-1] == (True, 7, 1, 0)


async def test_a_fenced_producer_says_so_from_then_on(producer, calls, generation):
    await producer.begin_transaction()
    await producer.send_offsets_to_transaction({ORDERS: 3}, "g")
    calls.errors["end"].append(ProducerFenced("another one came"))
    with pytest.raises(ProducerFenced):
        await producer.commit_transaction()
    for call in (producer.begin_transaction, producer.commit_transaction, producer.abort_transaction):
        with pytest.raises(ProducerFenced, match="another one came"):
            await call()
    with pytest.raises(ProducerFenced):
        await producer.send("orders", b"x")


async def test_a_commit_without_an_answer_may_be_repeated_and_nothing_else(producer, calls, peer):
    await producer.begin_transaction()
    await producer.send("orders", b"x")
    calls.errors["end"].append(ConnectionLost(peer.address, "gone"))
    with pytest.raises(ConnectionLost):
        await producer.commit_transaction()
    with pytest.raises(WrongTransactionState, match="repeat commit_transaction"):
        await producer.abort_transaction()
    with pytest.raises(WrongTransactionState, match="repeat commit_transaction"):
        await producer.send("orders", b"y")
    await producer.commit_transaction()
    assert state(producer) is State.READY


async def test_a_commit_that_the_coordinator_wants_aborted_can_be(producer, calls):
    await producer.begin_transaction()
    await (await producer.send("orders", b"x"))
    calls.errors["end"].append(TransactionAbortable("no"))
    with pytest.raises(TransactionAbortable):
        await producer.commit_transaction()
    with pytest.raises(TransactionFailed):
        await producer.commit_transaction()
    await producer.abort_transaction()
    assert calls.made[-2:] == [("end", "commit"), ("end", "abort")]


@pytest.mark.parametrize("generation", ["classic"], indirect=True)
async def test_partitions_are_written_to_only_after_they_are_added(producer, calls, peer):
    calls.gates["add"] = asyncio.Event()
    await producer.begin_transaction()
    delivery = await producer.send("orders", b"x")
    await asyncio.sleep(0.02)
    assert peer.sent(ApiKey.PRODUCE) == []
    calls.gates["add"].set()
    assert (await delivery).offset == 0
    await producer.commit_transaction()


@pytest.mark.parametrize("generation", ["classic"], indirect=True)
async def test_an_abort_waits_for_what_is_being_added(producer, calls):
    calls.gates["add"] = asyncio.Event()
    await producer.begin_transaction()
    delivery = await producer.send("orders", b"x")
    await asyncio.sleep(0.01)
    aborting = asyncio.ensure_future(producer.abort_transaction())
    await asyncio.sleep(0.01)
    assert ("end", "abort") not in calls.made
    calls.gates["add"].set()
    await aborting
    assert calls.made[-1] == ("end", "abort")
    with pytest.raises(TransactionAborted):
        await delivery


@pytest.mark.parametrize("generation", ["classic"], indirect=True)
async def test_a_partition_that_cannot_be_added_fails_the_transaction_and_nothing_is_to_be_ended(
    producer, calls
):
    calls.errors["add"].append(error_for(ErrorCode.topic_authorization_failed, "not yours"))
    await producer.begin_transaction()
    delivery = await producer.send("orders", b"x")
    with pytest.raises(TransactionFailed, match="not yours"):
        await delivery
    await producer.abort_transaction()
    assert calls.made[-1][0] == "add"
    async with producer.transaction():
        await producer.send("orders", b"y")


@pytest.mark.parametrize("generation", ["classic"], indirect=True)
async def test_if_it_is_unknown_whether_it_was_added_an_abort_of_nothing_is_fine(producer, calls, peer):
    calls.errors["add"].append(ConnectionLost(peer.address, "gone"))
    calls.errors["end"].append(InvalidTxnState("there is none"))
    await producer.begin_transaction()
    delivery = await producer.send("orders", b"x")
    with pytest.raises(TransactionFailed):
        await delivery
    await producer.abort_transaction()
    assert calls.made[-1] == ("end", "abort")
    assert state(producer) is State.READY


async def test_a_record_that_comes_while_its_transaction_ends_is_refused(producer, calls, generation):
    calls.gates["end"] = asyncio.Event()
    await producer.begin_transaction()
    await (await producer.send("orders", b"x"))
    committing = asyncio.ensure_future(producer.commit_transaction())
    await asyncio.sleep(0.01)
    # As a thread does that has looked at the state just before:
    core = producer._core
    late = core.preparer.take("orders", b"late", None, None, None)
    core.wake(late)
    with pytest.raises(WrongTransactionState, match="while its transaction was being ended"):
        await late
    calls.gates["end"].set()
    await committing


async def test_a_prepared_transaction_takes_nothing_more_and_survives_its_producer(producer, calls):
    await producer.begin_transaction()
    with pytest.raises(WrongTransactionState, match="nothing in the transaction to be prepared"):
        await producer.prepare_transaction()
    await producer.send("orders", b"x")
    prepared = await producer.prepare_transaction()
    assert prepared == PreparedTransaction(7, 0)
    assert PreparedTransaction.parse(str(prepared)) == prepared
    with pytest.raises(WrongTransactionState, match="only commit or abort it"):
        await producer.send("orders", b"y")
    await producer.close()
    assert calls.made[-1] == ("prepare",)


async def test_a_prepared_transaction_that_is_found_is_to_be_ended_first(producer, calls):
    calls.ongoing = Identity(7, 4)
    assert await producer.init_transactions(keep_prepared=True) == PreparedTransaction(7, 4)
    with pytest.raises(WrongTransactionState, match="only commit or abort it"):
        await producer.begin_transaction()
    await producer.commit_transaction()
    await producer.begin_transaction()
