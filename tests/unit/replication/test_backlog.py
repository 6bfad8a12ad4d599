"""How far a leader may get ahead of its followers, and which requests wait."""

from __future__ import annotations

import asyncio

from tests.unit.replication.replica_cluster import Cluster, append, run, until

from ottla.protocol.errors import NotEnoughReplicas
from ottla.replication.backlog import (
    BROKER_BYTES,
    PARTITION_BYTES,
    RESERVED_BYTES,
    SILENT_MS,
    Backlog,
    BacklogSum,
)
from ottla.replication.leader import LeaderState

LONG_S = 60.0


async def turns() -> None:
    """Let everything run that can."""
    for _ in range(5):
        await asyncio.sleep(0)


async def test_requests_wait_while_it_is_full_and_continue_in_their_order() -> None:
    backlog, order = Backlog(BacklogSum()), list[int]()
    assert not backlog.is_full
    backlog.add(10, PARTITION_BYTES)
    assert backlog.is_full

    async def produce(number: int) -> None:
        assert await backlog.wait(PARTITION_BYTES // 2, LONG_S)
        order.append(number)
        backlog.add(11 + number, PARTITION_BYTES // 2)

    waiting = [asyncio.create_task(produce(number)) for number in range(3)]
    await turns()
    assert order == []
    backlog.commit(10)
    await turns()
    assert order == [0, 1], "not more than there is room for"
    backlog.commit(11)
    await asyncio.gather(*waiting)
    assert order == [0, 1, 2]


async def test_an_admitted_request_that_appends_nothing_does_not_delay_others() -> None:
    backlog = Backlog(BacklogSum())
    backlog.add(10, PARTITION_BYTES)
    waiting = [asyncio.create_task(backlog.wait(2 * PARTITION_BYTES, LONG_S)) for _ in range(5)]
    await turns()
    backlog.commit(10)
    assert await asyncio.wait_for(asyncio.gather(*waiting), 5) == [True] * 5


async def test_a_request_whose_time_is_up_leaves_the_line() -> None:
    backlog = Backlog(BacklogSum())
    backlog.add(10, PARTITION_BYTES)
    late = asyncio.create_task(backlog.wait(PARTITION_BYTES, 0.001))
    patient = asyncio.create_task(backlog.wait(1, LONG_S))
    assert await late is False
    backlog.commit(10)
    assert await patient is True
    await turns()
    assert not backlog.is_full


async def test_a_broker_with_much_that_is_not_committed_leaves_each_partition_a_little() -> None:
    broker = BacklogSum()
    hog, other = Backlog(broker), Backlog(broker)
    hog.add(1, BROKER_BYTES)
    assert not other.is_full, "it goes on, although another one stands still"
    other.add(1, RESERVED_BYTES)
    assert other.is_full
    hog.close()
    assert broker.size_bytes == RESERVED_BYTES
    assert not other.is_full


def leading_of(cluster: Cluster) -> LeaderState:
    leading = cluster.partition(1).leader_state
    assert leading is not None
    return leading


def test_with_too_few_in_sync_requests_that_wait_continue_to_be_refused() -> None:
    async def scenario() -> None:
        async with Cluster() as cluster:
            await cluster.create(1, 2, 3, min_insync_replicas="2")
            for other in (2, 3):
                cluster.cut |= {(1, other), (other, 1)}
            leading = leading_of(cluster)
            end = append(cluster.partition(1), b"a")
            leading.acks_all_backlog.add(end, PARTITION_BYTES)
            full = leading.full_backlog(-1)
            assert full is not None
            assert await full.wait(1, LONG_S)
            try:
                leading.check_in_sync()
            except NotEnoughReplicas:
                return
            raise AssertionError("too few are in sync")

    run(scenario())


def test_a_leader_that_is_deposed_lets_requests_continue_and_counts_nothing() -> None:
    async def scenario() -> None:
        async with Cluster() as cluster:
            await cluster.create(1, 2, 3)
            leading = leading_of(cluster)
            leading.acks_all_backlog.add(10, PARTITION_BYTES)
            waiting = asyncio.ensure_future(leading.acks_all_backlog.wait(1, LONG_S))
            await asyncio.sleep(0)
            await cluster.elect(2, [2, 3])
            assert await waiting
            assert cluster.nodes[1].replicator.backlog.acks_all.size_bytes == 0

    run(scenario())


def test_producers_that_need_not_wait_do_so_only_for_members_that_lag_and_fetch() -> None:
    async def scenario() -> None:
        async with Cluster(replica_lag_time_max_ms="8000") as cluster:
            await cluster.create(1, 2, 3)
            leading, leader = leading_of(cluster), cluster.partition(1)
            append(leader, b"a")
            leading.total_backlog.add(100, PARTITION_BYTES)
            await until(lambda: leader.high_watermark == 1)
            assert leading.full_backlog(-1) is None, "what nobody waits for is not in the way of others"
            assert leading.full_backlog(1) is None, "the followers have everything"
            follower = leading.isr_state.followers[3]
            follower.log_end_offset, follower.lag_start_ms = 0, leading._environment.now_ms() - 1_500
            assert leading.full_backlog(1) is leading.total_backlog, "it lags by an eighth of the limit"
            assert leading.full_backlog(0) is leading.total_backlog
            follower.fetched_ms = leading._environment.now_ms() - SILENT_MS - 1
            assert leading.full_backlog(1) is None, "it has fallen silent"

    run(scenario())
