import asyncio

import pytest
from kio.schema.errors import ErrorCode
from kio.schema.metadata.v12 import MetadataRequest, MetadataResponse

from ottla.client.errors import BrokerUnreachable, ConnectionLost, NotKafka
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.errors import KafkaError, UnsupportedVersion
from ottla.wire.address import Address
from ottla.wire.connection import Connection

EVERYTHING = MetadataRequest(topics=None, include_topic_authorized_operations=False)


async def test_the_first_request_asks_for_versions_and_the_next_goes_out_in_the_newest_shared(peer):
    connection = await Connection.open(peer.address)
    await connection.request(EVERYTHING, MetadataResponse)
    assert [(key, version) for key, version, _ in peer.requests] == [(18, 3), (3, 12)]


async def test_an_older_broker_is_spoken_to_in_its_own_version(peer):
    peer.versions[ApiKey.METADATA] = (0, 5)
    peer.add_topic("orders", 2)
    connection = await Connection.open(peer.address)
    response = await connection.request(EVERYTHING, MetadataResponse)
    assert peer.requests[-1][1] == 5
    assert response.topics[0].name == "orders"
    assert response.topics[0].partitions[0].leader_epoch == -1  # version 5 does not say


async def test_a_broker_that_knows_only_old_api_versions_is_asked_again_in_version_0(peer):
    peer.versions[ApiKey.API_VERSIONS] = (0, 2)
    connection = await Connection.open(peer.address)
    assert connection.session.versions[ApiKey.METADATA] == (0, 12)
    assert peer.requests[0][:2] == (18, 0)


async def test_an_api_that_the_broker_does_not_serve_is_refused_by_name(peer):
    del peer.versions[ApiKey.METADATA]
    connection = await Connection.open(peer.address)
    with pytest.raises(UnsupportedVersion, match="no version of Metadata"):
        await connection.request(EVERYTHING, MetadataResponse)


async def test_a_broker_from_the_future_says_which_versions_it_has_left(peer):
    peer.versions[ApiKey.METADATA] = (20, 25)
    connection = await Connection.open(peer.address)
    with pytest.raises(UnsupportedVersion, match="only versions 20-25 of Metadata"):
        await connection.request(EVERYTHING, MetadataResponse)


async def test_many_requests_may_be_in_flight_at_once(peer):
    peer.add_topic("orders")
    connection = await Connection.open(peer.address)
    replies = await asyncio.gather(*(connection.request(EVERYTHING, MetadataResponse) for _ in range(50)))
    assert all(reply.topics[0].name == "orders" for reply in replies)


async def test_a_refused_connection_says_where_and_why(network):
    with pytest.raises(BrokerUnreachable, match="no broker at nowhere:9092: connection refused") as caught:
        await Connection.open(Address("nowhere", 9092))
    assert caught.value.addresses == (Address("nowhere", 9092),)


async def test_waiting_calls_fail_when_the_connection_breaks(peer):
    connection = await Connection.open(peer.address)
    peer.fail(ApiKey.METADATA, "drop")
    with pytest.raises(ConnectionLost, match="connection reset by peer"):
        await connection.request(EVERYTHING, MetadataResponse)
    assert not connection.is_open
    with pytest.raises(ConnectionLost):
        await connection.request(EVERYTHING, MetadataResponse)


async def test_a_broker_that_does_not_answer_in_time_loses_its_connection(peer):
    connection = await Connection.open(peer.address)
    peer.fail(ApiKey.METADATA, "silent")
    with pytest.raises(ConnectionLost, match=r"no reply to Metadata within 0\.01 s"):
        await connection.request(EVERYTHING, MetadataResponse, timeout_ms=10)
    assert not connection.is_open


async def test_a_closed_connection_refuses_requests(peer):
    connection = await Connection.open(peer.address)
    connection.close()
    with pytest.raises(ConnectionLost, match="closed on this side"):
        await connection.request(EVERYTHING, MetadataResponse)


@pytest.mark.parametrize("reply", [b"HTTP/1.1 400 Bad Request\r\n\r\n", b"\xff\xff\xff\xff\0\0\0\0"])
async def test_a_peer_that_does_not_speak_kafka_is_called_that(network, reply):
    network.listening["web", 80] = lambda frame: reply
    with pytest.raises(NotKafka, match="web:80 does not answer like a Kafka broker"):
        await Connection.open(Address("web", 80))


async def test_a_garbled_reply_closes_the_connection(peer, network):
    connection = await Connection.open(peer.address)
    network.listening[peer.address] = lambda frame: b"\0\0\0\x09" + bytes(frame[4:8]) + b"\0\xff\xff\xff\xff"
    with pytest.raises(NotKafka, match="its reply to Metadata v12 is garbled"):
        await connection.request(EVERYTHING, MetadataResponse)
    assert not connection.is_open


async def test_senders_wait_while_the_socket_is_full(peer):
    connection = await Connection.open(peer.address)
    connection.pause_writing()
    waiting = asyncio.ensure_future(connection.request(EVERYTHING, MetadataResponse))
    await asyncio.sleep(0)
    assert peer.sent(ApiKey.METADATA) == []
    connection.resume_writing()
    assert (await waiting).cluster_id == "fake-cluster"


async def test_a_broker_that_refuses_to_name_its_versions_is_not_used(peer, network):
    def refuse(frame):
        reply = bytearray(peer.answer(frame))
        reply[8:10] = int(ErrorCode.cluster_authorization_failed).to_bytes(2, "big")
        return bytes(reply)

    network.listening[peer.address] = refuse
    with pytest.raises(KafkaError, match="rejected ApiVersions") as caught:
        await Connection.open(peer.address)
    assert caught.value.code is ErrorCode.cluster_authorization_failed
    assert network.connections[0].is_closing()
