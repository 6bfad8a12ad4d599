"""Three brokers replicate one partition: followers copy, leaders commit, failovers lose nothing."""

import asyncio
import errno
from itertools import count
from random import Random

import pytest
from tests.unit.replication.replica_cluster import Cluster, append, produce, run, until

from ottla.metadata.records import BrokerChanged, BrokerRegistered, ConfigChanged, ConfigResource
from ottla.protocol.errors import (
    IneligibleReplica,
    KafkaError,
    NotEnoughReplicas,
    NotLeaderOrFollower,
)
from ottla.protocol.records.batch import iter_batches
from ottla.protocol.records.records import decode_records
from ottla.replication.partition import Partition


def cut_off(cluster: Cluster, node_id: int) -> None:
    """Let nothing through between a node and the others."""
    for other in cluster.nodes:
        cluster.cut |= {(node_id, other), (other, node_id)}


async def failure_of(committed: "asyncio.Future[None] | None") -> KafkaError:
    """Return why something was not committed."""
    assert committed is not None
    with pytest.raises(KafkaError) as caught:
        await committed
    return caught.value


def test_followers_copy_and_the_leader_commits_what_all_have() -> None:
    async def scenario() -> None:
        async with Cluster() as cluster:
            await cluster.create(1, 2, 3)
            leader = cluster.partition(1)
            end = await produce(leader, b"a", b"b")
            assert leader.high_watermark == end == 2
            assert cluster.ends() == [2, 2, 2]
            await until(lambda: cluster.partition(2).high_watermark == 2)
            await until(lambda: cluster.partition(3).high_watermark == 2)
            assert cluster.contents(1) == cluster.contents(2) == cluster.contents(3)

    run(scenario())


def test_nothing_is_committed_that_a_member_of_the_isr_lacks() -> None:
    async def scenario() -> None:
        async with Cluster() as cluster:
            await cluster.create(1, 2, 3)
            leader = cluster.partition(1)
            await produce(leader, b"a")
            cut_off(cluster, 3)
            end = append(leader, b"b")
            await until(lambda: cluster.ends()[1] == end)
            assert leader.high_watermark == 1
            # It falls out of sync after replica.lag.time.max.ms, and holds up nobody any more.
            await until(lambda: leader.high_watermark == end)
            assert cluster.partition_image.isr == (1, 2)

    run(scenario())


def test_a_follower_that_caught_up_is_in_sync_again() -> None:
    async def scenario() -> None:
        async with Cluster() as cluster:
            await cluster.create(1, 2, 3)
            leader = cluster.partition(1)
            cut_off(cluster, 3)
            for number in range(20):
                await produce(leader, b"%d" % number)
            assert cluster.partition_image.isr == (1, 2)
            cluster.cut.clear()
            await until(lambda: cluster.partition_image.isr == (1, 2, 3))
            assert cluster.contents(3) == cluster.contents(1)

    run(scenario())


def test_with_too_few_in_sync_producers_with_acks_all_are_refused() -> None:
    async def scenario() -> None:
        async with Cluster() as cluster:
            await cluster.create(1, 2, 3, min_insync_replicas="2")
            leader = cluster.partition(1)
            cut_off(cluster, 2)
            cut_off(cluster, 3)
            waiting = leader.when_committed(append(leader, b"a"))
            await until(lambda: cluster.partition_image.isr == (1,))
            with pytest.raises(NotEnoughReplicas):
                leader.check_in_sync()
            assert leader.high_watermark == 0, "strict: what too few have is not committed"
            assert waiting is not None
            assert not waiting.done(), "what is appended may be committed yet"
            cluster.cut.clear()
            await waiting
            assert leader.high_watermark == 1

    run(scenario())


def test_nothing_is_committed_that_a_replica_lacks_which_may_be_elected() -> None:
    """The controller's min.insync.replicas says which may be, and the leader's is smaller."""

    async def scenario() -> None:
        async with Cluster(min_insync_replicas="1") as cluster:
            await cluster.create(1, 2)
            leader = cluster.partition(1)
            cut_off(cluster, 2)
            await cluster.alter(isr=(1,), elr=(2,))
            with pytest.raises(NotEnoughReplicas):
                leader.check_in_sync()
            waiting = leader.when_committed(append(leader, b"a"))
            assert waiting is not None
            await asyncio.sleep(2)
            assert leader.high_watermark == 0
            await cluster.alter(elr=())
            await waiting

    run(scenario())


def test_a_producer_that_waits_when_the_leader_changes_looks_for_the_new_one() -> None:
    async def scenario() -> None:
        async with Cluster() as cluster:
            await cluster.create(1, 2, 3)
            old = cluster.partition(1)
            cut_off(cluster, 1)
            waiting = old.when_committed(append(old, b"lost"))
            await cluster.elect(2, [2, 3])
            assert isinstance(await failure_of(waiting), NotLeaderOrFollower)
            with pytest.raises(NotLeaderOrFollower):
                append(old, b"more")

    run(scenario())


def test_an_old_leader_truncates_what_only_it_had() -> None:
    async def scenario() -> None:
        async with Cluster() as cluster:
            await cluster.create(1, 2, 3)
            await produce(cluster.partition(1), b"kept")
            cut_off(cluster, 1)
            append(cluster.partition(1), b"never", b"committed")
            await cluster.elect(2, [2, 3])
            await produce(cluster.partition(2), b"after")
            assert cluster.ends()[1:] == [2, 2]
            cluster.cut.clear()
            await until(lambda: cluster.partition_image.isr == (2, 3, 1))
            assert cluster.contents(1) == cluster.contents(2) == cluster.contents(3)

    run(scenario())


def test_logs_that_parted_more_than_once_are_brought_together() -> None:
    async def scenario() -> None:
        async with Cluster(min_insync_replicas="1") as cluster:
            await cluster.create(1, 2, 3)
            await produce(cluster.partition(1), b"common")
            for node_id in (1, 2, 3):
                cut_off(cluster, node_id)
            # Each of them leads for a while, alone (as after unclean elections), and writes something else.
            for leader, count in ((1, 3), (2, 1), (1, 2), (3, 2)):
                await cluster.elect(leader, [leader])
                for number in range(count):
                    append(cluster.partition(leader), b"%d from %d" % (number, leader))
            cluster.cut.clear()
            await until(lambda: len(cluster.partition_image.isr) == 3)
            await produce(cluster.partition(3), b"end")
            assert cluster.contents(1) == cluster.contents(2) == cluster.contents(3)

    run(scenario())


def test_a_leader_that_is_killed_and_returns_follows_the_new_one() -> None:
    async def scenario() -> None:
        async with Cluster() as cluster:
            await cluster.create(1, 2, 3)
            await produce(cluster.partition(1), b"a")
            await cluster.nodes[1].stop(kill=True)
            await cluster.elect(2, [2, 3])
            await produce(cluster.partition(2), b"b")
            await cluster.nodes[1].start()
            await until(lambda: cluster.partition_image.isr == (2, 3, 1))
            assert cluster.contents(1) == cluster.contents(2)
            await until(lambda: cluster.partition(1).high_watermark == 2)

    run(scenario())


@pytest.mark.parametrize("restart", ["clean", "kill"])
def test_a_replica_with_a_hole_in_its_log_copies_what_is_missing(restart: str) -> None:
    async def scenario() -> None:
        async with Cluster() as cluster:
            await cluster.create(1, 2, 3)
            for value in (b"first", b"second", b"third"):
                await produce(cluster.partition(1), value)
            whole = cluster.contents(1)
            await cluster.nodes[3].stop(kill=True)
            await cluster.alter(isr=(1, 2))
            log = cluster.nodes[3].disk.contents("/data/orders-0/00000000000000000000.log")
            log[log.index(b"second")] ^= 1
            await cluster.nodes[3].start()
            assert [tuple(hole) for hole in cluster.partition(3).log.holes] == [(1, 2)]
            await cluster.nodes[3].stop(kill=restart == "kill")  # before it has fetched anything
            await cluster.nodes[3].start()
            await until(lambda: 3 in cluster.partition_image.isr)
            assert cluster.contents(3) == whole

    run(scenario())


@pytest.mark.parametrize("start", [2, 4, 5])
@pytest.mark.parametrize("is_known", [True, False])
def test_a_replica_whose_hole_is_deleted_on_the_leader_copies_the_rest_once(
    start: int, is_known: bool
) -> None:
    async def scenario() -> None:
        async with Cluster() as cluster:
            await cluster.create(1, 2, 3)
            leader, node = cluster.partition(1), cluster.nodes[3]
            for values in ((b"a",), (b"damaged", b"b", b"c"), (b"d",), (b"e",)):
                await produce(leader, *values)
            if is_known:
                leader.delete_records(start)
                await until(lambda: cluster.partition(3).log_start_offset == start)
                node.directory.capture_checkpoints()()
            await node.stop(kill=True)
            await cluster.alter(isr=(1, 2))
            leader.delete_records(start)
            log = node.disk.contents("/data/orders-0/00000000000000000000.log")
            log[log.index(b"damaged")] ^= 1
            await node.start()
            holes = [tuple(hole) for hole in cluster.partition(3).log.holes]
            assert holes == ([] if is_known and start >= 4 else [(1, 4)])
            await until(lambda: 3 in cluster.partition_image.isr)
            assert cluster.contents(3) == cluster.contents(1)

    run(scenario())


def test_what_is_flushed_on_ack_is_on_the_disk_of_every_member() -> None:
    async def scenario() -> None:
        async with Cluster() as cluster:
            await cluster.create(1, 2, 3, flush_messages="1")
            leader = cluster.partition(1)
            for number in range(5):
                end = await produce(leader, b"%d" % number)
                assert all(cluster.partition(each).log.recovery_point >= end for each in (1, 2, 3))

    run(scenario())


def test_a_broker_without_its_session_leads_nothing_until_it_is_registered_anew() -> None:
    async def scenario() -> None:
        async with Cluster() as cluster:
            await cluster.create(1, 2, 3)
            leader = cluster.partition(1)
            cut_off(cluster, 1)
            waiting = leader.when_committed(append(leader, b"a"))
            cluster.nodes[1].registry.fence()
            assert isinstance(await failure_of(waiting), NotLeaderOrFollower)
            with pytest.raises(NotLeaderOrFollower):
                cluster.nodes[1].registry.get("orders", 0)
            cluster.cut.clear()
            await cluster.elect(1, [1, 2, 3])
            with pytest.raises(NotLeaderOrFollower):
                cluster.nodes[1].registry.get("orders", 0)
            await cluster.nodes[1].registry.unfence(cluster.image)
            await produce(cluster.nodes[1].registry.get("orders", 0), b"b")

    run(scenario())


def test_a_leader_that_the_controller_calls_fenced_stops_leading_at_once() -> None:
    async def scenario() -> None:
        async with Cluster() as cluster:
            await cluster.create(1, 2, 3)
            cut_off(cluster, 1)
            waiting = cluster.partition(1).when_committed(append(cluster.partition(1), b"a"))
            # It is cut from the metadata too: it hears of its successor only when it wants to shrink the ISR.
            await cluster.elect(2, [2, 3], told=[2, 3])
            assert isinstance(await failure_of(waiting), NotLeaderOrFollower)
            assert not cluster.partition(1).is_leader

    run(scenario())


def test_a_change_whose_answer_was_lost_counts_until_the_image_tells() -> None:
    async def scenario() -> None:
        async with Cluster() as cluster:
            await cluster.create(1, 2, 3)
            leader = cluster.partition(1)
            cluster.lose_answers = True
            cut_off(cluster, 3)
            end = append(leader, b"a")
            await until(lambda: cluster.partition_image.isr == (1, 2))
            await until(lambda: len(cluster.changes) > 3)
            assert leader.high_watermark == 0, "broker 3 may still be in the ISR, for all that is known"
            cluster.lose_answers = False
            await cluster.nodes[1].follow()
            assert leader.high_watermark == end

    run(scenario())


def test_a_replica_that_moves_away_leaves_no_log_behind() -> None:
    async def scenario() -> None:
        async with Cluster() as cluster:
            await cluster.create(1, 2)
            await produce(cluster.partition(1), b"a")
            await cluster.alter(replicas=(1, 2, 3), adding=(3,))
            await until(lambda: cluster.partition_image.isr == (1, 2, 3))
            await cluster.alter(replicas=(1, 3), isr=(1, 3), adding=())
            assert not cluster.nodes[2].directory.logs
            await produce(cluster.partition(1), b"b")
            assert cluster.ends() == [2, 2]

    run(scenario())


def test_high_watermarks_outlive_a_kill() -> None:
    async def scenario() -> None:
        async with Cluster() as cluster:
            await cluster.create(1, 2, 3)
            await produce(cluster.partition(1), b"a", b"b")
            await asyncio.sleep(11)
            await cluster.nodes[2].stop(kill=True)
            cut_off(cluster, 2)
            await cluster.nodes[2].start()
            assert cluster.partition(2).high_watermark == 2

    run(scenario())


def test_a_follower_that_is_behind_the_start_of_its_leaders_log_begins_there() -> None:
    async def scenario() -> None:
        async with Cluster() as cluster:
            await cluster.create(1, 2, 3)
            leader = cluster.partition(1)
            cut_off(cluster, 3)
            for number in range(3):
                await produce(leader, b"%d" % number, b"and", b"more")
            leader.delete_records(7)
            cluster.cut.clear()
            await until(lambda: cluster.partition_image.isr == (1, 2, 3))
            await until(lambda: cluster.partition(3).log_start_offset == 7)
            assert cluster.ends() == [9, 9, 9]

    run(scenario())


@pytest.mark.parametrize("start", [7, 9], ids=["some-left", "none-left"])
@pytest.mark.parametrize("written", [1, 4, 5, 12])
@pytest.mark.parametrize("restarts", [False, True], ids=["", "restarted"])
def test_a_follower_whose_log_starts_above_the_end_of_its_leaders_begins_anew(
    start: int, written: int, restarts: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """An unclean election made a broker the leader that had fallen far behind."""

    async def scenario() -> None:
        async with Cluster(min_insync_replicas="1") as cluster:
            await cluster.create(1, 2, 3)
            await produce(cluster.partition(1), b"0", b"1", b"2")
            cut_off(cluster, 3)
            await produce(cluster.partition(1), b"3", b"4", b"5", b"6", b"7")
            await produce(cluster.partition(1), b"8")
            cluster.partition(1).delete_records(start)
            await until(lambda: cluster.partition(2).log_start_offset == start)
            for node_id in (1, 2):
                cut_off(cluster, node_id)
                if restarts:
                    await cluster.nodes[node_id].stop()
                    await cluster.nodes[node_id].start()
            await cluster.elect(3, [3])
            for number in range(written):
                append(cluster.partition(3), b"new %d" % number)
            cluster.cut.clear()
            await until(lambda: set(cluster.partition_image.isr) == {1, 2, 3})
            await produce(cluster.partition(3), b"end")
            assert cluster.contents(1) == cluster.contents(2) == cluster.contents(3)
            assert cluster.ends() == [4 + written] * 3
            assert cluster.partition(1).log_start_offset == 0

    run(scenario())
    assert "restarting at the leader" in caplog.text


@pytest.mark.parametrize("seed", range(25))
def test_replicas_are_equal_after_any_elections_and_deletions(seed: int) -> None:
    """Elections are unclean, so records may be lost; but all replicas have what their last leader has.

    A replica may lack what was deleted elsewhere before the last leader heard of it, and nothing else.
    """
    chance, values, deleted = Random(seed), count(), set[bytes]()

    async def lead_for_a_while(cluster: Cluster) -> None:
        leader = cluster.partition(cluster.partition_image.leader)
        for _ in range(chance.randint(0, 6)):
            append(leader, *[b"%d" % next(values) for _ in range(chance.randint(1, 3))])
        await asyncio.sleep(chance.choice((0, 0.01, 0.1)))
        if chance.random() < 0.5:
            start = chance.randint(leader.log_start_offset, leader.high_watermark)
            deleted.update(value for offset, value in values_in(cluster, leader).items() if offset < start)
            leader.delete_records(start)
            await asyncio.sleep(chance.choice((0, 0.1)))

    async def scenario() -> None:
        async with Cluster(min_insync_replicas="1") as cluster:
            await cluster.create(1, 2, 3, segment_bytes="300")
            for _ in range(chance.randint(2, 8)):
                await lead_for_a_while(cluster)
                cluster.cut.clear()
                cut_off(cluster, chance.choice((1, 2, 3)))
                if chance.random() < 0.6:
                    node_id = chance.choice((1, 2, 3))
                    await cluster.elect(node_id, [node_id])
            cluster.cut.clear()
            await until(lambda: len(cluster.partition_image.isr) == 3)
            leader = cluster.partition(cluster.partition_image.leader)
            await produce(leader, b"end")
            there = values_in(cluster, leader)
            for node_id in (1, 2, 3):
                here = values_in(cluster, cluster.partition(node_id))
                assert all(there[offset] == here[offset] for offset in there.keys() & here.keys())
                assert {there[offset] for offset in there.keys() - here.keys()} <= deleted

    run(scenario(), seed)


def values_in(cluster: Cluster, partition: Partition) -> dict[int, bytes]:
    """Return every record of a replica that can be read: offset -> value."""
    (node_id,) = (each for each in cluster.nodes if cluster.partition(each) is partition)
    return {
        record.offset: record.value or b""
        for _, batch in iter_batches(cluster.contents(node_id))
        for record in decode_records(batch)
        if record.offset >= partition.log_start_offset
    }


def test_a_new_partition_does_not_wait_for_the_fetch_in_flight() -> None:
    async def scenario() -> None:
        slow = {"replica_fetch_wait_max_ms": "9000", "replica_lag_time_max_ms": "60000"}
        async with Cluster(**slow) as cluster:
            await cluster.create(1, 2, 3)
            await produce(cluster.partition(1), b"a")
            await cluster.create(1, 2, 3, name="payments")
            began = asyncio.get_running_loop().time()
            await produce(cluster.nodes[1].registry.get("payments", 0), b"b")
            assert asyncio.get_running_loop().time() - began < 0.2

    run(scenario())


def test_only_the_incarnation_that_caught_up_joins_the_isr() -> None:
    async def scenario() -> None:
        async with Cluster() as cluster:
            await cluster.create(1, 2, 3)
            leading = cluster.partition(1).leader_state
            assert leading is not None
            await cluster.alter(isr=(1, 2))
            await until(lambda: cluster.partition_image.isr == (1, 2, 3))
            await cluster.nodes[3].stop()
            await cluster.alter(isr=(1, 2))
            cluster.nodes[3].broker_epoch = 31  # registered anew: what the leader knows is of the one before
            await cluster.change(BrokerRegistered(3, 31, None, ()))
            leading.check_followers()
            assert leading.isr_state.proposed is None
            with pytest.raises(NotLeaderOrFollower):
                leading.check_fetch(3, broker_epoch=30)
            await cluster.nodes[3].start()
            await until(lambda: cluster.partition_image.isr == (1, 2, 3))
            assert cluster.changes[-1].new_isr == ((1, 10), (2, 20), (3, 31))

    run(scenario())


def test_a_fenced_broker_or_one_about_to_stop_does_not_join() -> None:
    async def scenario() -> None:
        async with Cluster() as cluster:
            await cluster.create(1, 2, 3)
            await cluster.change(BrokerChanged(3, 30, fenced=False, shutting_down=True))
            await cluster.alter(isr=(1, 2))
            await produce(cluster.partition(1), b"a")
            await asyncio.sleep(3)
            assert cluster.partition_image.isr == (1, 2)
            await cluster.change(BrokerChanged(3, 30, fenced=False, shutting_down=False))
            await until(lambda: cluster.partition_image.isr == (1, 2, 3))

    run(scenario())


def test_a_replica_on_a_failed_disk_is_neither_waited_for_nor_proposed() -> None:
    async def scenario() -> None:
        async with Cluster() as cluster:
            await cluster.create(1, 2, 3)
            await produce(cluster.partition(1), b"a")
            cut_off(cluster, 3)  # it was caught up a moment ago, and its broker is alive
            await cluster.alter(isr=(1, 2), failed=(3,))
            async with asyncio.timeout(1):
                await produce(cluster.partition(1), b"b")
            assert cluster.partition_image.isr == (1, 2)

    run(scenario())


def test_a_proposal_that_is_refused_is_made_again_later() -> None:
    async def scenario() -> None:
        async with Cluster() as cluster:
            await cluster.create(1, 2, 3)
            cluster.refuse = IneligibleReplica("not now")
            await cluster.alter(isr=(1, 2))
            await asyncio.sleep(2)
            assert 1 <= len(cluster.changes) <= 5, "not with every fetch"
            cluster.refuse = None
            await until(lambda: cluster.partition_image.isr == (1, 2, 3))

    run(scenario())


def test_a_follower_without_a_session_fetches_nothing() -> None:
    async def scenario() -> None:
        async with Cluster() as cluster:
            await cluster.create(1, 2, 3)
            cluster.nodes[3].broker_epoch = -1
            await asyncio.sleep(0.5)
            cluster.fetches.clear()
            await produce(cluster.partition(1), b"a")
            assert {by for by, _, _ in cluster.fetches} == {2}

    run(scenario())


def test_more_in_sync_replicas_can_be_asked_for_at_any_time() -> None:
    async def scenario() -> None:
        async with Cluster() as cluster:
            await cluster.create(1, 2, 3)
            cut_off(cluster, 3)
            await produce(cluster.partition(1), b"a")
            waiting = cluster.partition(1).when_committed(append(cluster.partition(1), b"b"))
            await cluster.change(ConfigChanged(ConfigResource.TOPIC, "orders", "min.insync.replicas", "3"))
            await asyncio.sleep(2)
            assert waiting is not None
            assert not waiting.done()
            await cluster.change(ConfigChanged(ConfigResource.TOPIC, "orders", "min.insync.replicas", "2"))
            await waiting

    run(scenario())


def test_a_full_disk_keeps_a_follower_out_of_the_isr_until_there_is_room() -> None:
    async def scenario() -> None:
        async with Cluster() as cluster:
            await cluster.create(1, 2, 3)
            await produce(cluster.partition(1), b"a")
            cluster.nodes[3].disk.fail("write", errno.ENOSPC, times=10_000)
            await produce(cluster.partition(1), b"b")
            assert cluster.partition_image.isr == (1, 2)
            cluster.nodes[3].disk.heal()
            await until(lambda: cluster.partition_image.isr == (1, 2, 3))
            assert cluster.contents(1) == cluster.contents(3)

    run(scenario())
