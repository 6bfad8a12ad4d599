"""A transaction that begins while the one before is being committed."""

import asyncio

import pytest
from kio.schema.errors import ErrorCode
from tests.unit.client.fake_coordinators import FakeCalls
from tests.waiting import until

from ottla.client.cluster import Cluster
from ottla.client.errors import ConnectionLost, TransactionFailed, WrongTransactionState
from ottla.client.producer import AsyncProducer, ProducerOptions
from ottla.client.producer.transaction_calls import State
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.errors import InvalidRecord, ProducerFenced
from ottla.protocol.records.batch import decode_header


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
    peer.add_topic("orders", 2)
    options = ProducerOptions(transactional_id="t", delivery_timeout_ms=500)
    async with Cluster([peer.address]) as cluster, AsyncProducer.on(cluster, options) as made:
        made._core.transactions._calls = calls
        yield made
        for gate in calls.gates.values():  # after a failure, too
            gate.set()


def state(producer):
    return producer._core.transactions.state


def stored(peer, partition=0):
    return [each.value for each in peer.topics["orders"].partitions[partition].records()]


def ends(calls):
    return [made[1] for made in calls.made if made[0] == "end"]


async def committed_ahead(producer, calls):
    """Commit one record in the background, which is not answered, and begin the next transaction."""
    calls.gates["end"] = asyncio.Event()
    await producer.begin_transaction()
    await producer.send("orders", b"first", partition=0)
    commit = await producer.commit_in_background()
    await producer.begin_transaction()
    return commit


async def test_records_of_the_next_transaction_wait_for_the_commit_and_carry_what_it_gave(
    producer, peer, calls, generation
):
    commit = await committed_ahead(producer, calls)
    later = [await producer.send("orders", b"second", partition=each) for each in (0, 1)]
    await until(lambda: ends(calls) == ["commit"])
    await asyncio.sleep(0.02)
    assert (stored(peer), stored(peer, 1)) == ([b"first"], [])
    assert not commit.done()
    calls.gates["end"].set()
    await commit
    assert [(await each).offset for each in later] == [1, 0]
    await producer.commit_transaction()
    assert ends(calls) == ["commit", "commit"]
    headers = [decode_header(each) for each in peer.topics["orders"].partitions[0].batches]
    numbers = [(each.producer_epoch, each.base_sequence) for each in headers]
    assert numbers == ([(0, 0), (0, 1)] if generation == "classic" else [(0, 0), (1, 0)])


async def test_many_transactions_in_a_row_are_committed_in_their_order(producer, peer, calls):
    commits = []
    for number in range(20):
        await producer.begin_transaction()
        for place in range(5):
            await producer.send("orders", b"%d %d" % (number, place), partition=number % 2)
        commits.append(await producer.commit_in_background())
    await asyncio.gather(*commits)
    assert ends(calls) == ["commit"] * 20
    everything = sorted(stored(peer) + stored(peer, 1))
    assert everything == sorted(b"%d %d" % (number, place) for number in range(20) for place in range(5))
    assert state(producer) is State.READY


async def test_a_block_ahead_of_a_commit_is_committed_at_its_end(producer, peer, calls):
    calls.gates["end"] = asyncio.Event()
    await producer.begin_transaction()
    await producer.send("orders", b"first", partition=0)
    commit = await producer.commit_in_background()
    async with producer.transaction():
        await producer.send("orders", b"second", partition=0)
        calls.gates["end"].set()
    assert commit.done()
    assert stored(peer) == [b"first", b"second"]
    assert ends(calls) == ["commit", "commit"]


async def test_a_second_begin_is_refused_as_ever(producer, calls):
    commit = await committed_ahead(producer, calls)
    calls.gates["end"].set()
    with pytest.raises(WrongTransactionState, match="a transaction is open"):
        await producer.begin_transaction()
    await commit
    await producer.abort_transaction()


async def test_an_abort_ahead_of_a_commit_aborts_only_the_next(producer, peer, calls):
    commit = await committed_ahead(producer, calls)
    await producer.send("orders", b"second", partition=0)
    aborting = asyncio.ensure_future(producer.abort_transaction())
    await asyncio.sleep(0.01)
    calls.gates["end"].set()
    await aborting
    await commit
    assert ends(calls)[0] == "commit"
    assert stored(peer)[0] == b"first"
    assert state(producer) is State.READY


async def test_a_record_that_is_not_stored_fails_its_commit_and_the_next_transaction(producer, peer, calls):
    await producer.begin_transaction()
    await (await producer.send("orders", b"good", partition=0))
    peer.fail(ApiKey.PRODUCE, ErrorCode.invalid_record)
    bad = await producer.send("orders", b"bad", partition=0)
    if producer._core.transactions._is_implicit:
        commit = await producer.commit_in_background()
        await producer.begin_transaction()
        with pytest.raises(TransactionFailed):
            await commit
    else:
        with pytest.raises(TransactionFailed):
            await producer.commit_in_background()
    with pytest.raises(InvalidRecord):
        await bad
    with pytest.raises(TransactionFailed, match="abort it"):
        await producer.commit_transaction()
    assert ends(calls) == []
    await producer.abort_transaction()
    assert ends(calls) == ["abort"]
    async with producer.transaction():
        await producer.send("orders", b"next", partition=0)
    assert stored(peer)[-1] == b"next"


async def test_a_commit_without_an_answer_is_not_repeated_by_a_commit_of_the_next(producer, peer, calls):
    commit = await committed_ahead(producer, calls)
    second = await producer.send("orders", b"second", partition=0)
    calls.errors["end"].append(ConnectionLost(peer.address, "gone"))
    calls.gates["end"].set()
    with pytest.raises(ConnectionLost):
        await commit
    with pytest.raises(TransactionFailed):
        await second
    with pytest.raises(TransactionFailed, match="abort it"):
        await producer.commit_transaction()
    assert ends(calls) == ["commit"]
    await producer.abort_transaction()
    assert ends(calls) == ["commit", "abort"]
    assert stored(peer) == [b"first"]


async def test_without_a_next_one_a_commit_without_an_answer_may_be_repeated(producer, peer, calls):
    await producer.begin_transaction()
    await producer.send("orders", b"x", partition=0)
    calls.errors["end"].append(ConnectionLost(peer.address, "gone"))
    with pytest.raises(ConnectionLost):
        await (await producer.commit_in_background())
    await producer.commit_transaction()
    assert ends(calls) == ["commit", "commit"]
    assert state(producer) is State.READY


async def test_a_fenced_producer_says_so_ahead_of_a_commit_too(producer, calls):
    commit = await committed_ahead(producer, calls)
    calls.errors["end"].append(ProducerFenced("another one came"))
    calls.gates["end"].set()
    with pytest.raises(ProducerFenced):
        await commit
    for call in (producer.begin_transaction, producer.commit_transaction, producer.commit_in_background):
        with pytest.raises(ProducerFenced, match="another one came"):
            await call()


async def test_a_record_of_the_next_that_expires_fails_only_the_next(producer, peer, calls):
    commit = await committed_ahead(producer, calls)
    second = await producer.send("orders", b"second", partition=0)
    with pytest.raises(Exception, match="not delivered within"):
        await second
    calls.gates["end"].set()
    await commit
    with pytest.raises(TransactionFailed, match="abort it"):
        await producer.commit_transaction()
    await producer.abort_transaction()
    assert stored(peer) == [b"first"]


async def test_a_cancelled_wait_does_not_stop_the_commit(producer, calls):
    commit = await committed_ahead(producer, calls)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(commit, 0.01)
    calls.gates["end"].set()
    await producer.commit_transaction()
    assert ends(calls) == ["commit"]  # of the next, nobody knows: it was not used


async def test_closing_waits_for_the_commit_and_aborts_what_came_after(producer, peer, calls):
    commit = await committed_ahead(producer, calls)
    await producer.send("orders", b"second", partition=0)
    asyncio.get_running_loop().call_later(0.01, calls.gates["end"].set)
    await producer.close()
    await commit
    assert ends(calls)[0] == "commit"
    assert stored(peer)[0] == b"first"
