"""Requests to other brokers: answered in order, failing with a reason, never on an old connection."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest
from kio.schema.api_versions.v3 import ApiVersionsResponse
from kio.schema.api_versions.v3.response import ApiVersion
from kio.schema.heartbeat.v4 import HeartbeatRequest, HeartbeatResponse
from kio.schema.sasl_authenticate.v2 import SaslAuthenticateResponse
from kio.schema.sasl_handshake.v1 import SaslHandshakeResponse
from kio.schema.types import GroupId
from tests.unit.network.harness import until

from ottla.common.clock import SystemClock
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.errors import BrokerNotAvailable, NetworkException, RequestTimedOut
from ottla.protocol.frames import (
    SIZE,
    RequestHeader,
    decode_request_header,
    encode_frame,
    encode_response_header,
)
from ottla.protocol.schema.messages import request_decoder, response_encoder
from ottla.protocol.types import NO_THROTTLE, i16, i32
from ottla.wire.connection import milliseconds
from ottla.wire.peers import PeerAddress, Peers
from ottla.wire.security import Security, SecurityOptions

NODE = 7
HANDSHAKE: dict[ApiKey, Any] = {
    ApiKey.API_VERSIONS: ApiVersionsResponse(
        error_code=0,  # type: ignore[arg-type]
        api_keys=(ApiVersion(api_key=i16(ApiKey.SASL_AUTHENTICATE), min_version=i16(0), max_version=i16(2)),),
        throttle_time=NO_THROTTLE,
    ),
    ApiKey.SASL_HANDSHAKE: SaslHandshakeResponse(error_code=0, mechanisms=("PLAIN",)),  # type: ignore[arg-type]
    ApiKey.SASL_AUTHENTICATE: SaslAuthenticateResponse(
        error_code=0,  # type: ignore[arg-type]
        error_message=None,
        auth_bytes=b"",
        session_lifetime=milliseconds(0),
    ),
}


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

    def _respond(self, header: RequestHeader, response: Any) -> None:
        version = header.api_version
        body = response_encoder(header.api_key, version, response.__version__)(response)
        answer = encode_response_header(header.api_key, version, header.correlation_id)
        self._transport.write(encode_frame(answer, body))

    def _handle(self, frame: bytes) -> None:
        header, at = decode_request_header(frame)
        if header.api_key in HANDSHAKE:
            self._owner.handshake.append(header.api_key)
            response = HANDSHAKE[ApiKey(header.api_key)]
            if header.api_key == ApiKey.SASL_AUTHENTICATE:
                given = request_decoder(header.api_key, header.api_version, 2)(frame, at).auth_bytes
                response = replace(response, error_code=0 if given == b"\0broker\0secret" else 58)
            self._respond(header, response)
            return
        request = request_decoder(header.api_key, header.api_version, 4)(frame, at)
        self._owner.seen.append(request.group_id)
        if request.group_id == "garbage":
            self._transport.write(b"\x7f\xff\xff\xff")
        elif request.group_id != "silence":
            self._respond(header, HeartbeatResponse(throttle_time=NO_THROTTLE, error_code=0))  # type: ignore[arg-type]


class Cluster:
    """One other broker, and where it is."""

    def __init__(self) -> None:
        self.seen: list[str] = []
        self.handshake: list[int] = []
        self.connections: list[Any] = []
        self.address: PeerAddress | None = None
        self.peers = self.connect_as(None)

    def connect_as(self, security: Security | None) -> Peers:
        return Peers(1, lambda node_id: self.address if node_id == NODE else None, SystemClock(), security)

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


async def test_an_unknown_broker_cannot_be_asked(cluster: Cluster) -> None:
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


async def test_a_connection_that_breaks_fails_what_is_in_flight(cluster: Cluster) -> None:
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


def sasl(password: str) -> Security:
    return Security(SecurityOptions(sasl_mechanism="PLAIN", sasl_username="broker", sasl_password=password))


async def test_brokers_among_themselves_need_no_handshake(cluster: Cluster) -> None:
    await cluster.ask()
    assert cluster.handshake == []


async def test_brokers_authenticate_to_each_other_by_the_clients_code(cluster: Cluster) -> None:
    cluster.peers = cluster.connect_as(sasl("secret"))
    await asyncio.gather(*(cluster.ask() for _ in range(3)))
    assert cluster.handshake == [ApiKey.API_VERSIONS, ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE]
    assert cluster.seen == ["answer"] * 3


async def test_a_broker_whose_credentials_are_rejected_sends_nothing(cluster: Cluster) -> None:
    cluster.peers = cluster.connect_as(sasl("guess"))
    with pytest.raises(NetworkException, match="refused the login: sasl_authentication_failed"):
        await cluster.ask()
    assert cluster.seen == []
