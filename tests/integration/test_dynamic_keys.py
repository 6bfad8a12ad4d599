"""Every broker key that is declared dynamic has an effect when it is altered: not its echo, its effect.

`EFFECTS` has one entry for each such key; a key without one fails the test. An effect is a coroutine that
gets a running broker, shows how it behaves, alters the key over the admin protocol, and shows the difference.
"""

from __future__ import annotations

import asyncio
import logging
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from random import Random

import pytest
from kio.schema.errors import ErrorCode
from tests.integration.configured_broker import (
    HOUR_MS,
    MINUTE_MS,
    SETTINGS,
    ConfiguredBroker,
    segments_of,
    stored,
)
from tests.integration.wire_transactions import WireProducer
from tests.unit.controller.one_partition import CONFIG, OnePartition
from tests.unit.controller.test_machine_maintenance import image_of
from tests.waiting import until

from ottla.api.support.health_facts import collect
from ottla.api.support.health_findings import findings
from ottla.broker.broker import Broker
from ottla.broker.security import SECURITY_KEYS
from ottla.client import AsyncProducer
from ottla.common.config.broker import BrokerConfig
from ottla.common.config.live import DYNAMIC_KEYS
from ottla.controller import machine
from ottla.controller.machine import ConfigAlteration, ConfigChange
from ottla.metadata.memory import MemoryStore
from ottla.metadata.records import ConfigResource
from ottla.metadata.state import ClusterState
from ottla.protocol.errors import (
    InvalidTimestamp,
    KafkaError,
    KafkaStorageError,
    MessageTooLarge,
    NotEnoughReplicas,
)
from ottla.protocol.records.batch import check_batch
from ottla.protocol.records.records import Record, encode_batch
from ottla.replication.throttle import Rate
from ottla.testing.local_cluster import NoSyncDisk, memory_folder

DEADLINE_S = 20.0

Effect = Callable[[ConfiguredBroker], Awaitable[None]]
EFFECTS: dict[str, Effect] = {}


def effect(*keys: str) -> Callable[[Effect], Effect]:
    def add(shown: Effect) -> Effect:
        EFFECTS.update(dict.fromkeys(keys, shown))
        return shown

    return add


# Maintenance, balance, health


@effect("ottla.broker.maintenance")
async def _(world: ConfiguredBroker) -> None:
    cluster = OnePartition()
    assert cluster.shape[0] == 1
    change = ConfigChange(world.key, "true")
    decided = machine.alter_configs(
        cluster.image, [ConfigAlteration(ConfigResource.BROKER, "1", (change,))], CONFIG
    )
    cluster.take(machine.with_elections(cluster.image, decided, CONFIG))
    assert cluster.shape[0] == 2


@effect("ottla.auto.balance.enable", "ottla.auto.balance.moves")
async def _(world: ConfiguredBroker) -> None:
    image = image_of(*[(1, 2)] * 9)
    for moves in (1, 3):
        config = BrokerConfig({"ottla.auto.balance.moves": str(moves)})
        assert machine.balance_replicas(image, config).results == (moves,)
    assert not world.broker.config.ottla_auto_balance_enable
    await world.alter("true" if world.key.endswith("enable") else "3")
    config = world.broker.config  # the controller reads it each time
    assert (config.ottla_auto_balance_enable, config.ottla_auto_balance_moves) in ((True, 5), (False, 3))


@effect("ottla.disk.free.warning.percent")
async def _(world: ConfiguredBroker) -> None:
    await world.alter("0")
    facts = await collect(world.broker.services)
    assert "disk-low" not in [each.code for each in findings(facts)]
    await world.alter("100")
    facts = await collect(world.broker.services)
    assert "disk-low" in [each.code for each in findings(facts)]


# Metrics, slow requests


@effect("ottla.metrics.max.topics")
async def _(world: ConfiguredBroker) -> None:
    for _ in range(2):
        world.append(await world.topic())
    assert await world.left_out("topics") == 0
    await world.alter("1")
    assert await world.left_out("topics") > 0


@effect("ottla.metrics.max.partitions")
async def _(world: ConfiguredBroker) -> None:
    for _ in range(2):
        await world.topic()
    assert await world.left_out("partitions") == 0
    await world.alter("1")
    assert await world.left_out("partitions") > 0


@effect("ottla.metrics.max.groups")
async def _(world: ConfiguredBroker) -> None:
    partition = await world.topic()
    await world.admin.alter_group_offsets("a-group", {partition.topic_partition: 0})
    assert await world.left_out("groups") == 0
    await world.alter("0")
    assert await world.left_out("groups") == 1


@effect("ottla.slow.request.ms")
async def _(world: ConfiguredBroker) -> None:
    await world.alter("-1")
    slow = world.broker.dispatcher.slow.count
    await world.admin.describe_cluster()
    assert world.broker.dispatcher.slow.count == slow
    await world.alter("0")
    await world.admin.describe_cluster()
    assert world.broker.dispatcher.slow.count > slow


# Transactions


@effect("transaction.partition.verification.enable")
async def _(world: ConfiguredBroker) -> None:
    partition = await world.topic()

    def produce_without_adding() -> ErrorCode:
        with WireProducer(world.address, next(world.names)) as producer:
            code: ErrorCode = producer.start().produce(partition.topic_partition, b"a").error_code
            return code

    assert await asyncio.to_thread(produce_without_adding) != ErrorCode.none
    await world.alter("false")
    assert await asyncio.to_thread(produce_without_adding) == ErrorCode.none


@effect("ottla.two.phase.commit.principals")
async def _(world: ConfiguredBroker) -> None:
    async def begin() -> None:
        async with AsyncProducer(
            world.address, transactional_id="two-phase", transaction_two_phase_commit_enable=True
        ) as producer:
            await producer.init_transactions()

    await begin()
    await world.alter("User:somebody-else")
    with pytest.raises(KafkaError, match="two-phase cannot be taken"):
        await begin()


# Compaction


@effect("log.cleaner.threads")
async def _(world: ConfiguredBroker) -> None:
    def cleaners() -> int:
        return sum(task.get_name().startswith("log cleaner") for task in asyncio.all_tasks())

    await until(lambda: cleaners() == 1)
    await world.alter("4")
    await until(lambda: cleaners() == 4)
    await world.alter("2")
    await until(lambda: cleaners() == 2)


async def keys_of_a_round(world: ConfiguredBroker) -> int:
    """Return how many offsets of a log with 1,500 different keys one round of compaction gets to."""
    await world.compact()
    partition = await world.topic(cleanup_policy="compact", segment_bytes="100000")
    for number in range(1500):
        world.append(partition, b"v" * 100, key=b"%d" % number)
    partition.log.roll()
    await world.broker.flusher.flush_up_to(partition.log, partition.log.log_end_offset)
    await world.broker.maintenance[0].cleaner.clean_dirtiest()
    return world.cleaned_to(partition)


@effect("log.cleaner.io.buffer.load.factor")
async def _(world: ConfiguredBroker) -> None:
    assert await keys_of_a_round(world) == 1500
    await world.alter("0.0001")
    assert 0 < await keys_of_a_round(world) < 1500


@effect("log.cleaner.dedupe.buffer.size")
async def _(world: ConfiguredBroker) -> None:
    await world.alter("0.001", "log.cleaner.io.buffer.load.factor")
    assert await keys_of_a_round(world) == 1500
    await world.alter(str(2 << 20))
    assert 0 < await keys_of_a_round(world) < 1500


@effect("log.cleaner.io.max.bytes.per.second")
async def _(world: ConfiguredBroker) -> None:
    await world.compact()
    await world.alter("1")
    partition = await world.compacted()
    cleaning = asyncio.create_task(world.compact())
    await until(lambda: partition.topic_partition in world.broker.maintenance[0].cleaner.in_progress)
    await asyncio.sleep(0.1)
    assert not cleaning.done()
    await world.alter("1000000000")
    await asyncio.wait_for(cleaning, DEADLINE_S)
    assert world.cleaned_to(partition) > 0


@effect("log.cleaner.backoff.ms")
async def _(world: ConfiguredBroker) -> None:
    partition = await world.compacted()
    world.cleans_in_background = True
    assert world.cleaned_to(partition) == 0
    await world.alter("10")
    await until(lambda: world.cleaned_to(partition) > 0)
    world.cleans_in_background = False


@effect("log.cleaner.min.cleanable.ratio")
async def _(world: ConfiguredBroker) -> None:
    await world.alter("1.0")
    partition = await world.compacted()
    await world.compact()
    assert world.cleaned_to(partition) == 0
    await world.alter("0.1")
    await world.compact()
    assert world.cleaned_to(partition) > 0


@effect("log.cleaner.delete.retention.ms")
async def _(world: ConfiguredBroker) -> None:
    async def tombstones_after_two_rounds() -> bool:
        partition = await world.topic(cleanup_policy="compact", segment_bytes="300")
        batch = memoryview(encode_batch([Record(0, world.clock.wall_ms(), b"deleted", None)]))
        partition.append(batch, check_batch(batch))
        for _ in range(2):
            for _ in range(5):
                world.append(partition, b"v" * 150)
            await world.broker.flusher.flush_up_to(partition.log, partition.log.log_end_offset)
            await world.compact()
            world.clock.advance(1000)
        return partition.log.read(0, 1, partition.log.log_end_offset).next_offset == 1

    assert await tombstones_after_two_rounds()
    await world.alter("0")
    assert not await tombstones_after_two_rounds()


@effect("log.cleaner.min.compaction.lag.ms")
async def _(world: ConfiguredBroker) -> None:
    await world.alter(str(HOUR_MS))
    partition = await world.compacted()
    await world.compact()
    assert world.cleaned_to(partition) == 0
    await world.alter("0")
    await world.compact()
    assert world.cleaned_to(partition) > 0


@effect("log.cleaner.max.compaction.lag.ms")
async def _(world: ConfiguredBroker) -> None:
    partition = await world.compacted(min_cleanable_dirty_ratio="1.0")
    world.clock.advance(2 * MINUTE_MS)
    await world.compact()
    assert world.cleaned_to(partition) == 0
    await world.alter(str(MINUTE_MS))
    await world.compact()
    assert world.cleaned_to(partition) > 0


# What is appended, and how


@effect("message.max.bytes")
async def _(world: ConfiguredBroker) -> None:
    partition = await world.topic()
    world.append(partition, b"v" * 1000)
    await world.alter("500")
    with pytest.raises(MessageTooLarge):
        world.append(partition, b"v" * 1000)


@effect("compression.type")
async def _(world: ConfiguredBroker) -> None:
    partition = await world.topic()
    world.append(partition, b"v" * 1000)
    await world.alter("zstd")
    world.append(partition, b"v" * 1000)
    assert [codec for codec, _, _ in stored(partition.log)] == [0, 4]


def level(codec: str, low: int, high: int) -> None:
    @effect(f"compression.{codec}.level")
    async def _(world: ConfiguredBroker) -> None:
        partition = await world.topic(compression_type=codec)
        value = bytes(Random(1).choices(b"aaaabbbccd\n", k=50_000))
        for each in (low, high):
            await world.alter(str(each))
            world.append(partition, value)
        (_, low_bytes, _), (_, high_bytes, _) = stored(partition.log)
        assert high_bytes < low_bytes


for _codec, _low, _high in (("gzip", 1, 9), ("lz4", 1, 12), ("zstd", 1, 19)):
    level(_codec, _low, _high)


@effect("log.message.timestamp.type")
async def _(world: ConfiguredBroker) -> None:
    partition = await world.topic()
    world.append(partition)
    await world.alter("LogAppendTime")
    world.append(partition)
    assert [is_brokers for _, _, is_brokers in stored(partition.log)] == [False, True]


@effect("log.message.timestamp.before.max.ms")
async def _(world: ConfiguredBroker) -> None:
    partition = await world.topic()
    world.append(partition, ago_ms=2 * MINUTE_MS)
    await world.alter(str(MINUTE_MS))
    with pytest.raises(InvalidTimestamp):
        world.append(partition, ago_ms=2 * MINUTE_MS)


@effect("log.message.timestamp.after.max.ms")
async def _(world: ConfiguredBroker) -> None:
    partition = await world.topic()
    world.append(partition, ago_ms=-2 * MINUTE_MS)
    await world.alter(str(MINUTE_MS))
    with pytest.raises(InvalidTimestamp):
        world.append(partition, ago_ms=-2 * MINUTE_MS)


@effect("log.flush.interval.messages")
async def _(world: ConfiguredBroker) -> None:
    partition = await world.topic()
    world.append(partition)
    assert partition.log.recovery_point == 0
    await world.alter("1")
    world.append(partition)
    await until(lambda: partition.log.recovery_point == 2)


@effect("log.flush.interval.ms")
async def _(world: ConfiguredBroker) -> None:
    partition = await world.topic()
    world.append(partition)
    world.clock.advance(10_000)
    await world.broker.maintenance[0].flush()
    assert partition.log.recovery_point == 0
    await world.alter("1000")
    await world.broker.maintenance[0].flush()
    assert partition.log.recovery_point == 1


@effect("producer.id.expiration.ms")
async def _(world: ConfiguredBroker) -> None:
    partition = await world.topic()
    world.append(partition, producer_id=77, producer_epoch=0, base_sequence=0)
    world.clock.advance(10_000)
    await world.broker.maintenance[0].expire_producers()
    assert 77 in partition.log.producers.producers
    await world.alter("5000")
    await world.broker.maintenance[0].expire_producers()
    assert 77 not in partition.log.producers.producers


@effect("ottla.producer.ids.max")
async def _(world: ConfiguredBroker) -> None:
    partition = await world.topic()
    world.append(partition, producer_id=78, producer_epoch=0, base_sequence=0)
    await world.alter("1")
    with pytest.raises(KafkaStorageError, match=r"ottla\.producer\.ids\.max"):
        world.append(partition, producer_id=79, producer_epoch=0, base_sequence=0)
    await world.alter("1000")
    world.append(partition, producer_id=79, producer_epoch=0, base_sequence=0)


# Segments and retention


@effect("log.segment.bytes")
async def _(world: ConfiguredBroker) -> None:
    partition = await world.topic()
    for _ in range(3):
        world.append(partition, b"v" * 150)
    assert segments_of(partition) == 1
    await world.alter("300")
    world.append(partition, b"v" * 150)
    assert segments_of(partition) == 2


@effect("log.roll.ms")
async def _(world: ConfiguredBroker) -> None:
    partition = await world.topic()
    world.append(partition)
    world.clock.advance(10_000)
    world.append(partition)
    assert segments_of(partition) == 1
    await world.alter("1000")
    world.append(partition)
    assert segments_of(partition) == 2


@effect("log.roll.jitter.ms")
async def _(world: ConfiguredBroker) -> None:
    partitions = [await world.topic(segment_ms=str(HOUR_MS)) for _ in range(3)]
    for partition in partitions:
        world.append(partition)
    world.clock.advance(HOUR_MS - MINUTE_MS)
    for partition in partitions:
        world.append(partition)
    assert {segments_of(each) for each in partitions} == {1}
    await world.alter(str(HOUR_MS))
    for partition in partitions:
        world.append(partition)
    assert max(map(segments_of, partitions)) == 2, "each is rolled early by a random part of an hour"


@effect("log.index.interval.bytes")
async def _(world: ConfiguredBroker) -> None:
    async def index_bytes() -> int:
        partition = await world.topic()
        for _ in range(10):
            world.append(partition, b"v" * 1000)
        return partition.log.active.index_bytes

    usual = await index_bytes()
    await world.alter("100")
    assert await index_bytes() > usual


@effect("log.index.size.max.bytes")
async def _(world: ConfiguredBroker) -> None:
    partition = await world.topic(index_interval_bytes="1")
    for _ in range(10):
        world.append(partition)
    assert segments_of(partition) == 1
    await world.alter("40")
    world.append(partition)
    assert segments_of(partition) == 2


@effect("log.retention.ms")
async def _(world: ConfiguredBroker) -> None:
    partition = await world.topic(segment_bytes="300")
    for _ in range(3):
        world.append(partition, b"v" * 150)
    world.clock.advance(10_000)
    await world.broker.maintenance[0].delete_old_segments()
    assert partition.log.log_start_offset == 0
    await world.alter("1000")
    await world.broker.maintenance[0].delete_old_segments()
    assert partition.log.log_start_offset > 0


@effect("log.retention.bytes")
async def _(world: ConfiguredBroker) -> None:
    partition = await world.topic(segment_bytes="300")
    for _ in range(5):
        world.append(partition, b"v" * 150)
    await world.broker.maintenance[0].delete_old_segments()
    assert partition.log.log_start_offset == 0
    await world.alter("300")
    await world.broker.maintenance[0].delete_old_segments()
    assert partition.log.log_start_offset > 0


@effect("log.segment.delete.delay.ms")
async def _(world: ConfiguredBroker) -> None:
    async def waiting_after_a_removal() -> int:
        partition = await world.topic(segment_bytes="300", retention_bytes="300")
        for _ in range(5):
            world.append(partition, b"v" * 150)
        await world.broker.maintenance[0].delete_old_segments()
        await world.broker.maintenance[0].remove_files()
        return len(world.broker.maintenance[0].remover)

    before = await waiting_after_a_removal()
    assert before > 0
    await world.alter("0")
    assert await waiting_after_a_removal() <= before, "the new files did not wait"


@effect("log.cleanup.policy")
async def _(world: ConfiguredBroker) -> None:
    partition = await world.topic(segment_bytes="300")
    for _ in range(11):
        world.append(partition, b"v" * 150)
    await world.broker.flusher.flush_up_to(partition.log, partition.log.log_end_offset)
    await world.compact()
    assert world.cleaned_to(partition) == 0
    await world.alter("compact")
    await world.compact()
    assert world.cleaned_to(partition) > 0


# Replication and leadership


@effect("leader.replication.throttled.rate")
async def _(world: ConfiguredBroker) -> None:
    await shows_that_it_limits(world, world.broker.replicator.leader_rate)


@effect("follower.replication.throttled.rate")
async def _(world: ConfiguredBroker) -> None:
    await shows_that_it_limits(world, world.broker.replicator.follower_rate)


@effect("replica.alter.log.dirs.io.max.bytes.per.second")
async def _(world: ConfiguredBroker) -> None:
    await shows_that_it_limits(world, world.broker.directory_moves.rate)


async def shows_that_it_limits(world: ConfiguredBroker, rate: Rate) -> None:
    rate.record(100_000)
    assert not rate.is_exhausted
    await world.alter("1000")
    rate.record(100_000)
    assert rate.is_exhausted


@effect("min.insync.replicas")
async def _(world: ConfiguredBroker) -> None:
    # A cluster of its own: the topics of the coordinators would wait for the broker that is stopped here.
    world = await ConfiguredBroker(f"{world.folder}/two").started(world.key)
    second = await world.start_broker(2)
    name = next(world.names)
    await world.admin.create_topic(name, partitions=1, replication_factor=2)
    await until(lambda: world.broker.cluster.image.partition(name, 0) is not None)
    await second.stop()
    await until(lambda: led_alone(world.broker.cluster, name))
    await until(
        lambda: any(each.topic_partition.topic == name and each.is_leader for each in world.broker.partitions)
    )
    partition = world.broker.partitions.get(name, 0)
    partition.check_in_sync()
    await world.alter("2")
    with pytest.raises(NotEnoughReplicas):
        partition.check_in_sync()
    await world.stop()


def led_alone(cluster: ClusterState, name: str) -> bool:
    known = cluster.image.partition(name, 0)
    return known is not None and known.leader == 1 and known.isr == (1,)


@effect("unclean.leader.election.enable")
async def _(world: ConfiguredBroker) -> None:
    cluster = OnePartition()
    cluster.alter(1, 2)
    cluster.kill(1, 2)
    assert cluster.partition.replicas == (1, 2, 3)
    assert cluster.shape[0] == -1
    change = ConfigAlteration(ConfigResource.BROKER, "", (ConfigChange(world.key, "true"),))
    decision = machine.alter_configs(cluster.image, [change], CONFIG)
    cluster.take(machine.with_elections(cluster.image, decision, CONFIG))
    assert cluster.shape[0] == 3


# Connections


@asynccontextmanager
async def connection(world: ConfiguredBroker) -> AsyncIterator[asyncio.StreamReader]:
    host, _, port = world.address.rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    yield reader
    writer.close()
    with suppress(OSError):
        await writer.wait_closed()


async def is_refused(reader: asyncio.StreamReader) -> bool:
    """Return whether the broker closes a connection by itself, within a moment."""
    try:
        return await asyncio.wait_for(reader.read(1), 0.2) == b""
    except TimeoutError:
        return False
    except ConnectionError:
        return True


@effect("max.connections", "max.connections.per.ip")
async def _(world: ConfiguredBroker) -> None:
    async with connection(world) as reader:
        assert not await is_refused(reader)
    await world.alter("1")
    async with connection(world) as first, connection(world) as reader:
        assert await is_refused(reader) or await is_refused(first)


@effect("max.connection.creation.rate")
async def _(world: ConfiguredBroker) -> None:
    server = world.broker.server
    async with connection(world):
        assert server.stats.delayed == 0
    await world.alter("1")
    async with AsyncExitStack() as stack:
        for _ in range(13):  # eleven at once, as quota.window.num says
            await stack.enter_async_context(connection(world))
        await until(lambda: server.stats.delayed > 0)
        assert server.stats.rejected == 0
    await until(lambda: not any(each._muting for each in server.connections))


async def alter_while_a_broker_starts(world: ConfiguredBroker) -> Broker:
    """Return broker 2, whose limit of connections was altered while it opened its logs and ports."""
    altered = asyncio.Event()

    class Interrupted(Broker):
        async def _start_coordinators(self) -> None:
            await world.admin.alter_broker_configs(set_to={"max.connections.per.ip": "1"})
            await until(lambda: bool(self.cluster.image.broker_overrides()))
            await until(lambda: self.config.max_connections_per_ip == 1)
            altered.set()
            await super()._start_coordinators()

    raw = {**SETTINGS, "node.id": "2", "log.dirs": f"{world.folder}/2"}
    broker = Interrupted(raw, world.clock, store=MemoryStore(world.server, 2), disk=NoSyncDisk())
    await broker.start()
    assert altered.is_set()
    return broker


def test_a_config_that_is_altered_while_a_broker_starts_is_in_force_there() -> None:
    async def show() -> None:
        folder = memory_folder()
        world = await ConfiguredBroker(str(folder)).started("max.connections.per.ip")
        broker = await alter_while_a_broker_starts(world)
        world.broker, first = broker, world.broker
        async with connection(world) as one, connection(world) as other:
            assert await is_refused(other) or await is_refused(one)
        assert broker.services.config.max_connections_per_ip == 1
        await broker.stop()
        world.broker = first
        await world.stop()
        shutil.rmtree(folder)

    asyncio.run(show())


@pytest.fixture(scope="module")
def world() -> Iterator[tuple[ConfiguredBroker, asyncio.Runner]]:
    folder = memory_folder()
    with asyncio.Runner() as runner:
        world = ConfiguredBroker(str(folder))
        runner.run(world.start())
        yield world, runner
        runner.run(world.stop())
    shutil.rmtree(folder)


def test_every_dynamic_key_has_an_effect_to_show() -> None:
    elsewhere = {key.name for key in SECURITY_KEYS}  # test_dynamic_security_keys.py
    assert {key.name for key in DYNAMIC_KEYS} - elsewhere == set(EFFECTS)


@pytest.mark.parametrize("key", sorted(EFFECTS))
def test_a_dynamic_key_has_an_effect(
    key: str, world: tuple[ConfiguredBroker, asyncio.Runner], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.ERROR)
    here, runner = world

    async def show() -> None:
        here.key = key
        try:
            await EFFECTS[key](here)
        finally:
            await here.reset()

    runner.run(show())
