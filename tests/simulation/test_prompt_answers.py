"""No request holds up those behind it on its connection, whoever is away: each API of the table is tried."""

from __future__ import annotations

import asyncio
from random import Random
from struct import Struct
from typing import Any
from uuid import UUID

import pytest
from kio.schema.add_offsets_to_txn.v4 import AddOffsetsToTxnRequest
from kio.schema.errors import ErrorCode
from kio.schema.find_coordinator.v6 import FindCoordinatorRequest
from kio.schema.init_producer_id.v6 import InitProducerIdRequest
from kio.schema.metadata.v13 import MetadataRequest
from kio.schema.metadata.v13.request import MetadataRequestTopic
from tests.fuzz.messages import plausible_request
from tests.fuzz.world import World

from ottla.api.support.forwarding import FORWARDED
from ottla.api.table import ROWS
from ottla.common.topic_names import CONSUMER_OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.frames import RequestHeader, encode_request_header
from ottla.protocol.schema.messages import request_encoder
from ottla.protocol.types import GroupId, ProducerId, TopicName, TransactionalId, i8, i16
from ottla.testing.simulation.client import PORT, host_of
from ottla.testing.simulation.cluster import SimCluster
from ottla.wire.connection import milliseconds

KEY_TYPES = (0, 1)  # groups, transactional ids
SETTLED_S = 1.0
GIVE_UP_S = 30.0
TOPICS = ("t", "u")
LIMIT_S = 0.25
"""For an answer, with a request behind that waits for it: 0.1 s and the network's delays."""
LIMITS_S = {"TXN_OFFSET_COMMIT": 0.6}
"""It waits for another broker even if all are up."""
TRIES = 3
HAS_A_WAIT_OF_ITS_OWN = FORWARDED | {
    ApiKey.PRODUCE,
    ApiKey.FETCH,
    ApiKey.JOIN_GROUP,
    ApiKey.SYNC_GROUP,
    ApiKey.ALTER_PARTITION,
    ApiKey.ALLOCATE_PRODUCER_IDS,
    ApiKey.ENVELOPE,
    ApiKey.WRITE_TXN_MARKERS,
}
SIZE = Struct(">i")
_BEHIND = encode_request_header(RequestHeader(ApiKey.API_VERSIONS, 0, 2, "test"))
BEHIND = SIZE.pack(len(_BEHIND)) + _BEHIND
"""An ApiVersions, which could be answered at once."""


class Frames(asyncio.Protocol):
    """Counts the frames that arrive, and knows when the last one did, or the connection was closed."""

    def __init__(self, wanted: int) -> None:
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._wanted = wanted
        self._received = b""

    def data_received(self, data: bytes) -> None:
        self._received += data
        while len(self._received) >= SIZE.size:
            (size,) = SIZE.unpack_from(self._received)
            if len(self._received) < SIZE.size + size:
                return
            self._received = self._received[SIZE.size + size :]
            self._wanted -= 1
        if self._wanted <= 0 and not self.done.done():
            self.done.set_result(None)

    def connection_lost(self, error: Exception | None) -> None:
        if not self.done.done():
            self.done.set_result(None)


class Scene:
    """Three brokers whose internal topics have one replica: what is away keeps no other from committing."""

    def __init__(self, *, with_internal_topics: bool) -> None:
        settings = {
            "offsets.topic.replication.factor": "1",
            "offsets.topic.num.partitions": "1",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.num.partitions": "1",
            "transaction.state.log.min.isr": "1",
        }
        self.cluster = SimCluster(1, 3, settings, session_timeout_s=200.0)
        self.client = self.cluster.new_client()
        self.world = World()
        self._with_internal_topics = with_internal_topics

    async def begin(self) -> None:
        for node in self.cluster.nodes.values():
            node.start()
        for topic in TOPICS:
            await self.client.process.spawn(self.client.create_topic(topic, 3, 1))
        # Followed by all: whoever follows a broker knows when it is gone.
        await self.client.process.spawn(self.client.create_topic("followed", 3, 3))
        for key_type in KEY_TYPES if self._with_internal_topics else ():
            await self.client.process.spawn(self._find(key_type))
        self.world.topics = {
            name: topic.topic_id for name, topic in self.cluster.image.topics.items() if topic.topic_id
        }
        await asyncio.sleep(SETTLED_S)

    async def _find(self, key_type: int) -> None:
        """Have an internal topic made."""
        while True:
            answer = await self.client.call(1, ApiKey.FIND_COORDINATOR, 6, find_coordinator(key_type))
            if answer.coordinators[0].error_code is ErrorCode.none:
                return
            await self.client.pause()

    def lose(self, who: str) -> None:
        """Let the store be away, and with it the broker that is meant: then no broker takes its place."""
        for node in self.cluster.nodes.values():
            node.cut_store()
        if who == "controller":
            session = self.cluster.server.controller
            assert session is not None
            self.cluster.nodes[session.node_id].pause()
        elif who in self.cluster.image.topics:
            self.cluster.nodes[self.cluster.image.topics[who].partitions[0].leader].kill()

    async def slow_answers(self) -> list[str]:
        """Return the requests that were not answered soon, by a broker that lives."""
        living = [node.node_id for node in self.cluster.nodes.values() if node.is_up and not node.is_paused]
        asked = [(node_id, *each) for node_id in living for each in requests(self.world)]
        await asyncio.sleep(SETTLED_S)  # followers notice which broker is down
        times = await asyncio.gather(
            *(self.client.process.spawn(self._answered_after(node_id, frame)) for node_id, _, frame in asked)
        )
        return [
            f"{name} of broker {node_id}: {took_s:.2f} s"
            for (node_id, name, _), took_s in zip(asked, times, strict=True)
            if took_s > LIMITS_S.get(name.partition(" ")[0], LIMIT_S)
        ]

    async def _answered_after(self, node_id: int, frame: bytes) -> float:
        """Send a request and another one behind it; return after how long both are answered."""
        loop = self.cluster.loop
        transport, answers = await loop.create_connection(lambda: Frames(2), host_of(node_id), PORT)
        began_s = loop.now
        transport.write(SIZE.pack(len(frame)) + frame + BEHIND)
        await asyncio.wait([answers.done], timeout=GIVE_UP_S)
        transport.close()
        return loop.now - began_s


def requests(world: World) -> list[tuple[str, bytes]]:
    """Return requests of every API that has no wait of its own, by name."""
    random = Random(1)
    found = [(type(each).__name__, encoded(each)) for each in TELLING]
    for row in ROWS:
        if row.key not in HAS_A_WAIT_OF_ITS_OWN:
            for _ in range(TRIES):
                frame = plausible_request(random, world, row.key, row.max_version)
                found.append((f"{row.key.name} v{row.max_version}", frame))
    return found


def encoded(request: Any) -> bytes:
    key, version = request.__api_key__, request.__version__
    header = encode_request_header(RequestHeader(key, version, 1, "test"))
    return header + request_encoder(key, version, version)(request)


def find_coordinator(key_type: int) -> FindCoordinatorRequest:
    return FindCoordinatorRequest(key_type=i8(key_type), coordinator_keys=("k",))


def metadata(topic: str) -> MetadataRequest:
    asked = MetadataRequestTopic(topic_id=None, name=TopicName(topic))
    return MetadataRequest(
        topics=(asked,), allow_auto_topic_creation=True, include_topic_authorized_operations=False
    )


def init_producer_id(transactional_id: str | None) -> InitProducerIdRequest:
    return InitProducerIdRequest(
        transactional_id=None if transactional_id is None else TransactionalId(transactional_id),
        transaction_timeout=milliseconds(10_000),
        enable2_pc=False,
        keep_prepared_txn=False,
    )


TELLING = (
    *(find_coordinator(key_type) for key_type in KEY_TYPES),
    *(metadata(topic) for topic in ("new", CONSUMER_OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC)),
    init_producer_id(None),
    init_producer_id("tx"),
    AddOffsetsToTxnRequest(
        transactional_id=TransactionalId("tx"),
        producer_id=ProducerId(1),
        producer_epoch=i16(0),
        group_id=GroupId("k"),
    ),
)
"""Requests that need the controller, or a coordinator that is away."""


@pytest.mark.parametrize(
    ("away", "with_internal_topics"),
    [
        ("store", False),
        ("store", True),
        ("controller", False),
        ("controller", True),
        (CONSUMER_OFFSETS_TOPIC, True),
        (TRANSACTION_STATE_TOPIC, True),
    ],
)
def test_no_request_holds_up_those_behind_it(away: str, with_internal_topics: bool) -> None:
    """`away` is the store alone, or with it the controller, or the coordinator on an internal topic."""
    scene = Scene(with_internal_topics=with_internal_topics)

    async def main() -> None:
        await scene.begin()
        scene.lose(away)
        slow = await scene.slow_answers()
        assert not slow, slow

    scene.cluster.run(main())


def test_every_api_is_tried() -> None:
    world = World()
    world.topics = {topic: UUID(int=number) for number, topic in enumerate(TOPICS, 1)}
    tried = {name.partition(" ")[0] for name, _ in requests(world)}
    assert {row.key.name for row in ROWS} - {key.name for key in HAS_A_WAIT_OF_ITS_OWN} <= tried
