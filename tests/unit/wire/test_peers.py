"""Requests to other brokers: answered in order, failing with a reason, never on an old connection."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from kio.schema.heartbeat.v4 import HeartbeatRequest, HeartbeatResponse
from kio.schema.types import GroupId
from tests.unit.network.harness import until

from ottla.common.clock import SystemClock
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.errors import BrokerNotAvailable, NetworkException, RequestTimedOut
from ottla.protocol.frames import SIZE, decode_request_header, encode_frame, encode_response_header
from ottla.protocol.schema.messages import request_decoder, response_encoder
from ottla.protocol.types import NO_THROTTLE, i32
from ottla.wire.peers import PeerAddress, Peers

NODE = 7


class Broker(asyncio.Protocol):
    """Answers Heartbeats whose group id says so; keeps what else it gets."""

    def __init__(self, owner: "Cluster") -> None:
        self._owner = owner
        self._received = bytearray()

    def connection_made(self, transport: Any) -> None:
        self._transport = transport
        self._owner.connections.append(transport)

    def data_received(self, data: bytes) -> None:
        self._received += data
        while len(self._received) >= 4:
            (size,) = SIZE.unpack_from(self._received)
            if len(self._received) < 4 + size:
                return
            self._handle(bytes(self._received[4 : 4 + size]))
            del self._received[: 4 + size]

    def _handle(self, frame: bytes) -> None:
        header, at = decode_request_header(frame)
        request = request_decoder(header.api_key, header.api_version, 4)(frame, at)
        self._owner.seen.append(request.group_id)
        if request.group_id == "garbage":
            self._transport.write(b"\x7f\xff\xff\xff")
        elif request.group_id != "silence":
            response = HeartbeatResponse(throttle_time=NO_THROTTLE, error_code=0)  # type: ignore[arg-type]
            body = response_encoder(header.api_key, header.api_version, 4)(response)
            answer = encode_response_header(header.api_key, header.api_version, header.correlation_id)
            self._transport.write(encode_frame(answer, body))


class Cluster:
    """One other broker, and where it is."""

    def __init__(self) -> None:
        self.seen: list[str] = []
        self.connections: list[Any] = []
        self.address: PeerAddress | None = None
        self.peers = Peers(1, lambda node_id: self.address if node_id == NODE else None, SystemClock())

    async def start(self) -> None:
        loop = asyncio.get_running_loop()
        self.server = await loop.create_server(lambda: Broker(self), "127.0.0.1", 0)
        self.address = PeerAddress("127.0.0.1", self.server.sockets[0].getsockname()[1], 5)

    async def ask(self, what: str = "answer", timeout_ms: int = 5_000) -> HeartbeatResponse:
        request = HeartbeatRequest(
            group_id=GroupId(what), generation_id=i32(1), member_id="m", group_instance_id=None
        )
        answer: HeartbeatResponse = await self.peers.call(
            NODE, ApiKey.HEARTBEAT, 4, request, timeout_ms=timeout_ms
        )
        return answer


@pytest.fixture
async def cluster() -> AsyncIterator[Cluster]:
    made = Cluster()
    await made.start()
    yield made
    made.peers.stop()
    made.server.close()
    for connection in made.connections:
        connection.abort()


async def test_many_requests_share_one_connection(cluster: Cluster) -> None:
    answers = await asyncio.gather(*(cluster.ask(f"group-{number}") for number in range(50)))
    assert [each.error_code for each in answers] == [0] * 50
    assert len(cluster.connections) == 1
    assert cluster.seen == [f"group-{number}" for number in range(50)]


async def test_a_broker_that_nobody_knows_cannot_be_asked(cluster: Cluster) -> None:
    cluster.address = None
    with pytest.raises(BrokerNotAvailable):
        await cluster.ask()


async def test_no_answer_in_time_ends_the_connection_and_what_waits_on_it(cluster: Cluster) -> None:
    waiting = asyncio.ensure_future(cluster.ask("silence", timeout_ms=60_000))
    await until(lambda: cluster.seen)
    with pytest.raises(RequestTimedOut):
        await cluster.ask("silence", timeout_ms=50)
    with pytest.raises(NetworkException):
        await waiting
    assert (await cluster.ask()).error_code == 0
    assert len(cluster.connections) == 2


async def test_a_connection_that_breaks_fails_what_is_under_way(cluster: Cluster) -> None:
    waiting = asyncio.ensure_future(cluster.ask("silence"))
    await until(lambda: cluster.seen)
    cluster.connections[0].abort()
    with pytest.raises(NetworkException):
        await waiting
    assert (await cluster.ask()).error_code == 0


async def test_it_is_known_who_is_cut_off_until_the_connection_is_back(cluster: Cluster) -> None:
    assert not cluster.peers.is_cut_off(NODE), "nobody was asked yet"
    await cluster.ask()
    assert not cluster.peers.is_cut_off(NODE)
    cluster.connections[0].abort()
    await until(lambda: cluster.peers.is_cut_off(NODE))
    await cluster.ask()
    assert not cluster.peers.is_cut_off(NODE)
    assert not cluster.peers.is_cut_off(NODE, "another channel")


async def test_answers_that_make_no_sense_end_the_connection(cluster: Cluster) -> None:
    with pytest.raises(NetworkException, match="frame of"):
        await cluster.ask("garbage")


async def test_a_broker_that_restarted_gets_a_new_connection(cluster: Cluster) -> None:
    await cluster.ask()
    waiting = asyncio.ensure_future(cluster.ask("silence"))
    await until(lambda: "silence" in cluster.seen)
    assert cluster.address is not None
    cluster.address = cluster.address._replace(broker_epoch=6)
    cluster.peers.refresh()
    with pytest.raises(NetworkException, match="restarted"):
        await waiting
    await cluster.ask()
    assert len(cluster.connections) == 2


async def test_an_unreachable_broker_is_left_alone_for_a_moment(cluster: Cluster) -> None:
    cluster.server.close()
    await cluster.server.wait_closed()
    for _ in range(3):
        with pytest.raises(NetworkException):
            await cluster.ask()
    with pytest.raises(RequestTimedOut):
        await cluster.ask(timeout_ms=10)


async def test_nothing_is_sent_any_more_after_the_stop(cluster: Cluster) -> None:
    waiting = asyncio.ensure_future(cluster.ask("silence"))
    await until(lambda: cluster.seen)
    cluster.peers.stop()
    with pytest.raises(NetworkException):
        await waiting
    with pytest.raises(NetworkException):
        await cluster.ask()
