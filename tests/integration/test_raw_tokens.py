"""SaslHandshake v0: the messages of the mechanism follow without requests, as clients before 1.0 do it."""

from __future__ import annotations

import struct
import time
from collections.abc import Iterator

import pytest
from kafka import KafkaConsumer, KafkaProducer
from kio.schema.errors import ErrorCode
from scramp import ScramClient
from tests.integration.secure_stage import PASSWORD, USER, SecureCluster, secure_broker
from tests.integration.wire import Closed, Wire

from ottla.protocol.api_keys import ApiKey

PLAIN = f"\0{USER}\0{PASSWORD}".encode()
DELAY_MS = 200
TIMER_MS = 2  # the resolution of the event loop's timers


@pytest.fixture(scope="module")
def secure(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureCluster]:
    more = {"connection.failed.authentication.delay.ms": str(DELAY_MS)}
    with secure_broker(tmp_path_factory.mktemp("security"), **more) as started:
        yield started


@pytest.fixture
def wire(secure: SecureCluster) -> Iterator[Wire]:
    with Wire(secure.bootstrap("SASL_PLAINTEXT")) as opened:
        yield opened


def handshake(wire: Wire, mechanism: str) -> None:
    answer = wire.call(ApiKey.SASL_HANDSHAKE, 0, mechanism=mechanism)
    assert answer.error_code is ErrorCode.none
    assert mechanism in answer.mechanisms


def exchange(wire: Wire, message: bytes) -> bytes:
    wire.send_frame(message)
    return wire.receive_frame()


def test_plain_ends_with_an_empty_answer(wire: Wire, secure: SecureCluster) -> None:
    handshake(wire, "PLAIN")
    assert exchange(wire, PLAIN) == b""
    assert wire.call(ApiKey.METADATA, 12, topics=[]).brokers, "requests have headers again"
    assert f"User:{USER}" in {each.principal for each in secure.cluster.broker(1).server.connections}


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_scram_proves_the_broker_too(wire: Wire, mechanism: str) -> None:
    handshake(wire, mechanism)
    client = ScramClient([mechanism], USER, PASSWORD)
    client.set_server_first(exchange(wire, client.get_client_first().encode()).decode())
    client.set_server_final(exchange(wire, client.get_client_final().encode()).decode())
    assert wire.call(ApiKey.METADATA, 12, topics=[]).brokers


def test_the_first_message_may_come_with_the_handshake(wire: Wire) -> None:
    sent = wire.send(ApiKey.SASL_HANDSHAKE, 0, mechanism="PLAIN")
    wire.send_frame(PLAIN)
    assert wire.receive(ApiKey.SASL_HANDSHAKE, 0, sent).error_code is ErrorCode.none
    assert wire.receive_frame() == b""


@pytest.mark.parametrize("message", [b"", b"\0", b"\0\0\0", b"\0alice\0wrong", b"\0\x12\0\0\0\0\0\1\xff\xff"])
def test_a_refused_message_of_any_size_closes_the_connection_late(wire: Wire, message: bytes) -> None:
    handshake(wire, "PLAIN")
    began = time.monotonic()
    with pytest.raises(Closed):
        exchange(wire, message)
    assert time.monotonic() - began >= (DELAY_MS - TIMER_MS) / 1000


@pytest.mark.parametrize("size", [64 * 1024 + 1, 2**31 - 1, -1])
def test_a_message_above_the_limit_is_not_allocated(wire: Wire, secure: SecureCluster, size: int) -> None:
    handshake(wire, "SCRAM-SHA-256")
    wire._socket.sendall(struct.pack(">i", size) + b"x" * 20_000)
    with pytest.raises(Closed):
        wire.receive_frame()
    assert secure.cluster.broker(1).server.frame_bytes.used == 0


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-512"])
def test_kafka_python_as_for_a_broker_of_0_11(secure: SecureCluster, mechanism: str) -> None:
    options = {
        "bootstrap_servers": secure.bootstrap("SASL_PLAINTEXT"),
        "api_version": (0, 11),
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": mechanism,
        "sasl_plain_username": USER,
        "sasl_plain_password": PASSWORD,
    }
    topic = f"raw-{mechanism}"
    producer = KafkaProducer(**options)
    producer.send(topic, b"one").get(20)
    producer.close()
    consumer = KafkaConsumer(topic, **options, auto_offset_reset="earliest", group_id=topic)
    assert next(iter(consumer)).value == b"one"
    consumer.close()
    requests = {(each.api, each.version) for each in secure.cluster.broker(1).dispatcher.times()}
    assert ("SaslHandshake", 0) in requests
