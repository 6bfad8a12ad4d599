"""A controller, a few partitions that are only pretended, and requests that go through real bytes."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from inspect import isawaitable
from types import SimpleNamespace
from typing import Any, cast

import pytest
import pytest_asyncio
from tests.unit.api.authorization_stage import BROKER, Stage

from ottla.api.support.context import RequestContext
from ottla.api.table import APIS, BYTES
from ottla.broker.broker import Broker
from ottla.common.clock import ManualClock
from ottla.common.config.broker import BrokerConfig
from ottla.common.ids import TopicPartition
from ottla.common.units import MAX_LONG
from ottla.controller.machine import NewTopic
from ottla.controller.runner import Controller
from ottla.log.disk import RealDisk
from ottla.log.storage import Storage
from ottla.metadata.image import ClusterImage, TopicImage
from ottla.metadata.memory import MemoryStore
from ottla.metadata.records import Endpoint
from ottla.metadata.state import ClusterState
from ottla.protocol.errors import OffsetOutOfRange, UnknownTopicOrPartition
from ottla.protocol.schema.messages import (
    request_class,
    request_decoder,
    request_encoder,
    response_decoder,
    response_encoder,
)
from ottla.replication.directory_moves import DirectoryMoves
from ottla.replication.throttle import Rate

FRAME_SIZE_AND_CORRELATION_ID = 8


@dataclass
class PretendedPartition:
    """As much of a partition as the admin APIs see."""

    topic_partition: TopicPartition
    high_watermark: int = 100
    log: Any = field(
        default_factory=lambda: SimpleNamespace(
            config=SimpleNamespace(cleanup_policy=frozenset({"delete"})),
            size_bytes=1234,
            log_end_offset=100,
        )
    )
    log_start_offset: int = 0
    leader_state: None = None

    def delete_records(self, offset: int) -> int:
        target = self.high_watermark if offset == -1 else offset
        if not 0 <= target <= self.high_watermark:
            raise OffsetOutOfRange(str(target))
        self.log_start_offset = max(self.log_start_offset, target)
        return self.log_start_offset


class PretendedRegistry(dict[tuple[str, int], PretendedPartition]):
    """As much of the registry as the admin APIs see; iterates over partitions, as the real one does."""

    def __init__(self) -> None:
        self.storage = Storage(RealDisk(), "/tmp")

    def get(self, topic: str, index: int) -> PretendedPartition:  # type: ignore[override]
        try:
            return self[topic, index]
        except KeyError:
            raise UnknownTopicOrPartition(f"{topic}-{index}") from None

    def get_replica(self, topic: str, index: int) -> PretendedPartition:
        return self.get(topic, index)

    def __iter__(self) -> Any:
        return iter(list(self.values()))

    def add(self, topic: str, index: int) -> PretendedPartition:
        made = self[topic, index] = PretendedPartition(TopicPartition(topic, index))
        made.log.storage = self.storage
        return made


class AdminBench:
    """One broker without its logs."""

    def __init__(self, **settings: str) -> None:
        raw = {"node.id": "1", **{key.replace("_", "."): value for key, value in settings.items()}}
        self.static = BrokerConfig(raw)
        self.clock = ManualClock()
        self.cluster = ClusterState()
        self.cluster.subscribe(self._reconfigure)
        self.controller = Controller(MemoryStore(), self.cluster, self.clock, 1, lambda: self.services.config)
        self.partitions = PretendedRegistry()
        self.checkpoints_written = 0
        self.disk_error: OSError | None = None
        only = SimpleNamespace(path="/tmp", storage=self.partitions.storage)
        directories = SimpleNamespace(
            directories=[only],
            directory_of=lambda log: only,
            unusable={},
            offline=set(),
            preferred={},
            capture_checkpoints=lambda: self._write_checkpoints,
        )
        self.services = SimpleNamespace(
            node_id=1,
            clock=self.clock,
            cluster=self.cluster,
            controller=self.controller,
            partitions=self.partitions,
            log_directories=directories,
            directory_moves=DirectoryMoves(
                cast(Any, directories),
                cast(Any, self.partitions),
                lambda _: False,
                lambda _: None,
                Rate(lambda: MAX_LONG, self.clock),
            ),
            config=self.static,
            check_config=lambda config, keys: None,
            quotas=None,
            authorizer=None,
            audit=None,
        )

    @property
    def image(self) -> ClusterImage:
        return self.cluster.image

    async def start(self) -> None:
        await self.controller.start()
        await self.controller.register_broker([Endpoint("PLAINTEXT", "broker.example", 9092)], "rack-1")

    async def create_topic(self, name: str) -> TopicImage:
        """Create a topic with the broker's defaults."""
        (made,) = await self.controller.create_topics([NewTopic(name)])
        assert isinstance(made, TopicImage), made
        return made

    def _write_checkpoints(self) -> None:
        if self.disk_error is not None:
            raise self.disk_error
        self.checkpoints_written += 1

    def _reconfigure(self, _old: ClusterImage, new: ClusterImage) -> None:
        self.services.config = self.static.with_dynamic(new.broker_overrides(1), new.broker_overrides())

    async def ask(self, request: Any, version: int | None = None) -> Any:
        """Send `request` in `version` as bytes and return the response, as the newest class."""
        api_key, newest = int(request.__api_key__), int(request.__version__)
        version = newest if version is None else version
        serving = APIS[api_key].range_for(version)
        assert serving is not None
        assert serving.max_version == newest
        frame = request_encoder(api_key, version, newest)(request)
        connection = SimpleNamespace(
            peer="client:1",
            listener_name="PLAINTEXT",
            software="",
            has_fetched=False,
            has_queued_request=False,
            principal="User:ANONYMOUS",
            is_token_authenticated=False,
            host="127.0.0.1",
            sasl=None,
        )
        ctx = RequestContext(cast(Any, self.services), connection, api_key, version, 7, "test")
        handler = serving.load()
        if serving.kind == BYTES:
            reply = handler(memoryview(frame), 0, ctx)
            return _unframed(
                bytes(cast(bytes, await reply if isawaitable(reply) else reply)), api_key, version, newest
            )
        response = handler(request_decoder(api_key, version, newest)(frame, 0), ctx)
        if isawaitable(response):
            response = await response
        if isinstance(response, bytes):
            return _unframed(response, api_key, version, newest)
        body = response_encoder(api_key, version, newest)(response)
        return response_decoder(api_key, version, newest)(body, 0)


def _unframed(answer: bytes, api_key: int, version: int, newest: int) -> Any:
    assert int.from_bytes(answer[:4], "big") == len(answer) - 4
    flexible = bool(request_class(api_key, version).__flexible__)
    return response_decoder(api_key, version, newest)(answer, FRAME_SIZE_AND_CORRELATION_ID + flexible)


@pytest.fixture
async def bench() -> AsyncIterator[AdminBench]:
    made = AdminBench()
    await made.start()
    yield made
    await made.controller.stop()


@pytest.fixture
def make_bench() -> type[AdminBench]:
    return AdminBench


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def authorizing_broker(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Broker]:
    """A whole broker with an authorizer."""
    async with Broker({**BROKER, "log.dirs": str(tmp_path_factory.mktemp("broker"))}) as made:
        yield made


@pytest_asyncio.fixture(loop_scope="module")
async def stage(authorizing_broker: Broker) -> Stage:
    """Alice's client of that broker, with all that her requests name in place."""
    made = Stage(authorizing_broker)
    await made.prepare()
    return made
