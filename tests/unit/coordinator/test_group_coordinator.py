"""The coordinator on real logs: the topic, loading, unloading, and what a crash leaves."""

from __future__ import annotations

import asyncio
import errno
from inspect import isawaitable
from typing import Any

import pytest
from tests.unit.coordinator.coordinator_bench import CoordinatorBench

from ottla.common.topic_names import CONSUMER_OFFSETS_TOPIC
from ottla.coordinator.group.machine import GroupMachine
from ottla.coordinator.group.records import OffsetKey, OffsetValue, Record
from ottla.coordinator.group.requests import CommitRequest, FetchRequest, JoinRequest, OffsetToCommit
from ottla.coordinator.partition_writer import BATCH_BYTES
from ottla.coordinator.partitions import partition_for
from ottla.protocol.errors import CoordinatorNotAvailable, NotCoordinator
from ottla.protocol.records.batch import decode_header
from ottla.protocol.records.records import Record as LogRecord
from ottla.protocol.records.records import encode_batch


def commit_of(group_id: str, *offsets: int, topic: str = "orders", metadata: str = "") -> CommitRequest:
    partitions = tuple(OffsetToCommit(index, offset, -1, metadata) for index, offset in enumerate(offsets))
    return CommitRequest(group_id, "", None, -1, ((topic, partitions),))


async def commit(bench: CoordinatorBench, group_id: str, *offsets: int, **changes: Any) -> object:
    reply = bench.groups.call(group_id, GroupMachine.commit, commit_of(group_id, *offsets, **changes))
    return await reply if isawaitable(reply) else reply


async def committed(bench: CoordinatorBench, group_id: str) -> list[int]:
    found = bench.groups.call(group_id, GroupMachine.fetch, FetchRequest(group_id, None))
    return [value.offset for _, offsets in found for _, value in offsets]


def join_of(group_id: str) -> JoinRequest:
    protocols = (("range", b""),)
    return JoinRequest(
        group_id, "", None, "c", "/h", 10_000, 10_000, "consumer", protocols, "1", requires_member_id=False
    )


async def test_the_topic_is_made_on_first_use_as_kafka_makes_it(bench: CoordinatorBench) -> None:
    assert CONSUMER_OFFSETS_TOPIC not in bench.cluster.image.topics
    with pytest.raises(NotCoordinator):
        await commit(bench, "g", 1)
    assert await asyncio.gather(*(bench.groups.find(f"g{each}") for each in range(5))) == [1] * 5
    assert len(bench.cluster.image.topics[CONSUMER_OFFSETS_TOPIC].partitions) == 4
    assert bench.cluster.image.topic_overrides(CONSUMER_OFFSETS_TOPIC) == {
        "cleanup.policy": "compact",
        "compression.type": "producer",
        "segment.bytes": "104857600",
    }
    assert await commit(bench, "g", 1)


async def test_a_topic_that_cannot_be_made_is_no_coordinator() -> None:
    bench = CoordinatorBench(offsets_topic_num_partitions=10_001)
    await bench.start()
    with pytest.raises(CoordinatorNotAvailable, match="cannot be created"):
        await bench.groups.find("g")
    await bench.stop()


async def test_groups_are_spread_over_the_partitions_by_their_hash(bench: CoordinatorBench) -> None:
    await bench.groups.find("g")
    for group in range(20):
        await commit(bench, f"g{group}", group)
    sizes = {
        each.topic_partition.partition: each.log.log_end_offset
        for each in bench.partitions
        if each.topic_partition.topic == CONSUMER_OFFSETS_TOPIC
    }
    expected = [partition_for(f"g{group}", 4) for group in range(20)]
    assert sizes == {index: expected.count(index) for index in range(4)}


@pytest.mark.parametrize("is_clean", [True, False])
async def test_offsets_and_groups_are_there_after_a_restart(is_clean: bool) -> None:
    bench = CoordinatorBench()
    await bench.start()
    await bench.create_topics("orders")
    await bench.groups.find("g")
    for group in range(10):
        await commit(bench, f"g{group}", group, group + 100)
    await commit(bench, "g3", 33)
    await (bench.stop() if is_clean else bench.kill())
    await bench.start()
    await bench.loaded()
    assert await committed(bench, "g3") == [33, 103]
    assert await committed(bench, "g7") == [7, 107]
    await bench.stop()


async def test_requests_wait_for_the_flush_where_the_topic_asks_for_it() -> None:
    bench = CoordinatorBench(log_flush_interval_messages=1)
    await bench.start()
    await bench.create_topics("orders")
    await bench.groups.find("g")
    fsyncs = bench.disk.fsyncs
    reply = bench.groups.call("g", GroupMachine.commit, commit_of("g", 5))
    assert isinstance(reply, asyncio.Future)
    assert not reply.done()
    await reply
    assert bench.disk.fsyncs > fsyncs
    await bench.stop()


async def test_a_failed_flush_is_no_commit() -> None:
    bench = CoordinatorBench(log_flush_interval_messages=1)
    await bench.start()
    await bench.groups.find("g")
    bench.disk.fail("fsync", errno.EIO, times=100, path_part=CONSUMER_OFFSETS_TOPIC)
    with pytest.raises(NotCoordinator):
        await commit(bench, "g", 5)
    bench.disk.heal()
    await bench.stop()


async def test_a_full_disk_refuses_commits_and_changes_nothing(bench: CoordinatorBench) -> None:
    await bench.create_topics("orders")
    await bench.groups.find("g")
    await commit(bench, "g", 1)
    bench.disk.capacity_bytes = bench.disk.used_bytes()
    with pytest.raises(NotCoordinator):
        await commit(bench, "g", 2)
    assert await committed(bench, "g") == [1]
    bench.disk.heal()
    await commit(bench, "g", 3)
    assert await committed(bench, "g") == [3]


async def test_a_step_that_is_too_much_for_one_batch_is_written_in_several(bench: CoordinatorBench) -> None:
    await bench.groups.find("g")
    many = 300
    await commit(bench, "g", *range(many), metadata="x" * 4000)
    index = partition_for("g", 4)
    log = bench.partitions.get(CONSUMER_OFFSETS_TOPIC, index).log
    assert log.size_bytes > 2 * BATCH_BYTES
    assert log.log_end_offset == many
    assert len(await committed(bench, "g")) == many


async def test_records_that_cannot_be_decoded_are_skipped(
    bench: CoordinatorBench, caplog: pytest.LogCaptureFixture
) -> None:
    await bench.create_topics("orders")
    await bench.groups.find("g")
    await commit(bench, "g", 1)
    partition = bench.partitions.get(CONSUMER_OFFSETS_TOPIC, partition_for("g", 4))
    strange = [
        LogRecord(0, 0, bytes.fromhex("000b000167"), b"\x00\x00"),  # a share group
        LogRecord(1, 0, b"\x00\x01torn", b"\x00\x03"),
    ]
    marker = LogRecord(0, 0, bytes(4), bytes(6))
    for each in (encode_batch(strange), encode_batch([marker], control=True)):
        partition.append(memoryview(each), decode_header(each))
    await commit(bench, "g", 2)
    await bench.stop()
    await bench.start()
    await bench.loaded()
    assert await committed(bench, "g") == [2]
    assert "skipped 1 records: unknown record type" in caplog.text
    assert "skipped 1 records: the message ends in the middle of a field" in caplog.text


async def test_a_partition_that_cannot_be_read_is_loaded_again_later(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ottla.coordinator.partitions.RETRY_S", 0.01)
    bench = CoordinatorBench(offsets_topic_num_partitions=1)
    await bench.start()
    await bench.create_topics("orders")
    await bench.groups.find("g")
    await commit(bench, "g", 1)
    await bench.stop()
    await bench.start()
    bench.disk.fail("read", errno.EIO, path_part=f"{CONSUMER_OFFSETS_TOPIC}-0/00000000000000000000.log")
    await bench.loaded()  # in vain
    await bench.loaded()
    assert await committed(bench, "g") == [1]
    await bench.stop()


async def test_deleting_a_topic_forgets_its_offsets(bench: CoordinatorBench) -> None:
    await bench.create_topics("orders", "payments")
    await bench.groups.find("g")
    await commit(bench, "g", 1)
    await commit(bench, "g", 2, topic="payments")
    await bench.delete_topics("orders")
    async with asyncio.timeout(2):
        while await committed(bench, "g") != [2]:  # noqa: ASYNC110
            await asyncio.sleep(0.001)
    assert Record(OffsetKey("g", "orders", 0)) in bench.records()


async def test_losing_the_topic_unloads_it_and_answers_everyone() -> None:
    bench = CoordinatorBench(group_initial_rebalance_delay_ms=60_000)
    await bench.start()
    await bench.groups.find("g")
    parked = bench.groups.call("g", GroupMachine.join, join_of("g"))
    assert isinstance(parked, asyncio.Future)
    await bench.delete_topics(CONSUMER_OFFSETS_TOPIC)
    with pytest.raises(NotCoordinator):
        await parked
    with pytest.raises(NotCoordinator):
        await commit(bench, "g", 1)
    await bench.stop()


async def test_stopping_answers_everyone() -> None:
    bench = CoordinatorBench(group_initial_rebalance_delay_ms=60_000)
    await bench.start()
    await bench.groups.find("g")
    parked = bench.groups.park(bench.client, bench.groups.call("g", GroupMachine.join, join_of("g")))
    await bench.stop()
    with pytest.raises(NotCoordinator):
        await parked
    with pytest.raises(CoordinatorNotAvailable):
        bench.groups.call("g", GroupMachine.describe, "g")


async def test_a_client_that_goes_away_frees_its_place_but_its_member_stays() -> None:
    bench = CoordinatorBench(group_initial_rebalance_delay_ms=60_000)
    await bench.start()
    await bench.groups.find("g")
    parked = bench.groups.park(bench.client, bench.groups.call("g", GroupMachine.join, join_of("g")))
    bench.groups.leave(bench.client)
    await asyncio.sleep(0)
    assert parked.cancelled()
    bench.groups.leave(bench.client)
    described = bench.groups.call("g", GroupMachine.describe, "g")
    assert len(described.members) == 1
    await bench.stop()


async def test_what_is_written_can_be_read_by_other_tools(bench: CoordinatorBench) -> None:
    await bench.create_topics("orders")
    await bench.groups.find("g")
    await commit(bench, "g", 7)
    expected = OffsetValue(7, -1, "", bench.clock.now_ms)
    assert bench.records() == [Record(OffsetKey("g", "orders", 0), expected)]
