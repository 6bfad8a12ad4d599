"""A broker without a network: metadata and disk in memory, real logs, and both coordinators on them."""

from __future__ import annotations

from collections.abc import Sequence
from inspect import isawaitable
from types import SimpleNamespace
from typing import Any, cast

from ottla.api.dispatcher import Dispatcher
from ottla.api.support.context import ProducerIds
from ottla.api.support.produce_scheduler import ProduceScheduler
from ottla.api.support.recently_fenced_brokers import RecentlyFencedBrokers
from ottla.common.clock import ManualClock
from ottla.common.config.broker import BrokerConfig
from ottla.common.topic_names import CONSUMER_OFFSETS_TOPIC
from ottla.controller.machine import NewTopic, TopicSelector
from ottla.controller.runner import Controller
from ottla.coordinator.group.record_codec import decode_record
from ottla.coordinator.group.records import Record
from ottla.coordinator.groups import GroupCoordinator
from ottla.coordinator.marker_appender import MarkerAppender
from ottla.coordinator.transactions import TransactionCoordinator
from ottla.log.directories.flusher import Flusher
from ottla.log.directories.log_directories import LogDirectories
from ottla.log.directories.log_directory import LogDirectory
from ottla.metadata.image import EMPTY
from ottla.metadata.memory import MemoryStore
from ottla.metadata.records import Endpoint
from ottla.metadata.state import ClusterState
from ottla.protocol.frames import (
    RequestHeader,
    decode_response_header,
    encode_request_header,
)
from ottla.protocol.records.batch import iter_batches
from ottla.protocol.records.records import iter_records
from ottla.protocol.schema.messages import request_encoder, response_decoder
from ottla.replication.purgatory import Purgatory
from ottla.replication.registry import PartitionRegistry
from ottla.security.sasl import SaslSession
from ottla.testing.simulation.disk import SimDisk


class Client:
    """A connection, as handlers see it."""

    peer = "10.0.0.7:4711"
    host = "10.0.0.7"
    listener_name = "PLAINTEXT"
    principal = "User:ANONYMOUS"
    is_token_authenticated = False
    sasl: SaslSession | None = None
    software = ""
    has_fetched = has_queued_request = False

    def close(self, reason: str) -> None:
        """Do nothing: there is no socket."""

    def hold(self) -> None:
        """Do nothing: what is sent is not read from a socket."""

    def release(self) -> None:
        """Do nothing, as in `hold`."""

    def mute(self, duration_ms: int) -> None:
        """Do nothing, as in `hold`."""


class CoordinatorBench:
    """One broker. `kill` and `start` again are a crash of its process."""

    def __init__(self, **settings: int | str) -> None:
        raw = {"group.initial.rebalance.delay.ms": "0", "offsets.topic.num.partitions": "4"}
        raw["transaction.state.log.num.partitions"] = "4"
        raw |= {name.replace("_", "."): str(value) for name, value in settings.items()}
        self.config = BrokerConfig(raw)
        self.clock = ManualClock()
        self.disk = SimDisk()
        self.store = MemoryStore()
        self.client = Client()

    async def start(self) -> None:
        self.cluster = ClusterState()
        self.controller = Controller(self.store, self.cluster, self.clock, 1, lambda: self.config)
        await self.controller.start()
        await self.controller.register_broker(
            [Endpoint("PLAINTEXT", "broker.example", 9092)], directory_ids=["disk"]
        )
        directory = LogDirectory(
            "/data", self.disk, self.clock, node_id=1, cluster_id=self.cluster.image.cluster_id
        )
        self.log_directories = LogDirectories([directory], self.clock)
        self.flusher = Flusher()
        await self.flusher.__aenter__()
        self.partitions = PartitionRegistry(1, self.log_directories, self.flusher, self.config, self.clock)
        self.log_directories.open(lambda topic: self.partitions.log_config(self.cluster.image, topic))
        await self.partitions.apply(EMPTY, self.cluster.image)
        self.cluster.subscribe(self.partitions.apply)
        self.groups = GroupCoordinator(
            1, self.cluster, self.controller, self.partitions, lambda: self.config, self.clock
        )
        await self.groups.start()
        self.producer_ids = ProducerIds(self.controller.allocate_producer_ids)
        self.transactions = TransactionCoordinator(
            1,
            self.cluster,
            self.controller,
            self.partitions,
            lambda: self.config,
            self.clock,
            self.producer_ids.next,
            MarkerAppender(self.partitions, self.groups),
            cast(Any, None),
        )
        self.services = SimpleNamespace(
            node_id=1,
            clock=self.clock,
            cluster=self.cluster,
            controller=self.controller,
            partitions=self.partitions,
            log_directories=self.log_directories,
            purgatory=Purgatory(),
            config=self.config,
            groups=self.groups,
            transactions=self.transactions,
            producer_ids=self.producer_ids,
            produce_scheduler=ProduceScheduler(),
            quotas=None,
            recently_fenced_brokers=RecentlyFencedBrokers(self.clock),
            authorizer=None,
            audit=None,
        )
        self.dispatcher = Dispatcher(cast(Any, self.services))
        await self.transactions.start()

    async def stop(self) -> None:
        await self.transactions.stop()
        await self.groups.stop()
        await self.partitions.stop()
        await self.flusher.stop()
        self.log_directories.close()
        await self.controller.stop()

    async def kill(self) -> None:
        """Lose all that is not on the disk, as far as one can within one process."""
        await self.transactions.stop()
        await self.groups.stop()
        await self.flusher.stop()
        self.disk.kill()
        await self.controller.stop()

    async def create_topics(self, *names: str, partitions: int = 3) -> None:
        await self.controller.create_topics([NewTopic(name, partitions) for name in names])

    async def delete_topics(self, *names: str) -> None:
        await self.controller.active_controller.delete_topics([TopicSelector(name) for name in names])

    async def loaded(self) -> None:
        """Wait until every partition is loaded."""
        for shard in (*self.groups._shards, *self.transactions._shards):
            if shard.loading is not None:
                await shard.loading

    def records(self) -> list[Record | None]:
        """Return all that the topic holds."""
        found = []
        for partition in self.partitions:
            if partition.topic_partition.topic == CONSUMER_OFFSETS_TOPIC:
                log = partition.log
                read = log.read(log.log_start_offset, 1 << 30, log.log_end_offset).records
                data = read if isinstance(read, bytes) else read.read()
                for _, batch in iter_batches(data):
                    found.extend(decode_record(each.key, each.value) for each in iter_records(batch))
        return found

    def send(self, request: Any, version: int | None = None, client: Client | None = None) -> Any:
        """Send a request as a client does; return the frame of the answer, or an awaitable for it."""
        api_key, newest = int(request.__api_key__), int(request.__version__)
        version = newest if version is None else version
        header = encode_request_header(RequestHeader(api_key, version, 99, "app"))
        body = request_encoder(api_key, version, newest)(request)
        return self.dispatcher.handle(client or self.client, memoryview(bytearray(header + body)))

    async def ask(self, request: Any, version: int | None = None, client: Client | None = None) -> Any:
        """Send a request and return the response, as the class of the request's version."""
        api_key, newest = int(request.__api_key__), int(request.__version__)
        version = newest if version is None else version
        reply = self.send(request, version, client)
        if isawaitable(reply):
            reply = await reply
        return decode(reply, api_key, version, newest)


def decode(reply: bytes | Sequence[bytes], api_key: int, version: int, newest: int) -> Any:
    """Return the response in a frame."""
    assert isinstance(reply, bytes)
    assert int.from_bytes(reply[:4], "big") == len(reply) - 4
    correlation_id, at = decode_response_header(reply[4:], api_key, version)
    assert correlation_id == 99
    return response_decoder(api_key, version, newest)(reply[4:], at)
