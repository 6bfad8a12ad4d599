"""Hostile peers on real sockets, and an honest one beside them who must not notice."""

from __future__ import annotations

import os
import socket
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from random import Random
from typing import Self

import psutil
import pytest
from tests.fuzz.batches import tiny_records
from tests.fuzz.generator import FrameSource
from tests.fuzz.messages import request_head, served
from tests.fuzz.world import World
from tests.integration.wire import Wire, batch, create_topic, fetch_fields, produce, produce_fields

from ottla.protocol.api_keys import ApiKey
from ottla.testing.broker_process import BrokerProcess

pytestmark = pytest.mark.timeout(300)

BROKER_SETTINGS = {
    "offsets.topic.num.partitions": "3",
    "transaction.state.log.num.partitions": "3",
    "group.min.session.timeout.ms": "100",
    "group.max.session.timeout.ms": "1000",
    "num.partitions": "1",
}
SEED = os.environ.get("OTTLA_FUZZ_SEED", "1")
FRAMES = 3000
CHANGES_FOR_ALL = (ApiKey.ALTER_CONFIGS, ApiKey.INCREMENTAL_ALTER_CONFIGS)
"""Whoever may change the configs of all topics does disturb the others."""

CANARY_TOPIC = "canary"
TIMEOUT_S = 20.0
MAX_NEW_BYTES = 64 << 20
FEW = 2
MB = 1 << 20


class Canary:
    """An honest client that produces and fetches all the time. Use as a context manager."""

    def __init__(self, address: str) -> None:
        self._wire = Wire(address)
        self._is_done = threading.Event()
        self._thread = threading.Thread(target=self._sing, daemon=True)
        self.sung = 0
        self.longest_s = 0.0
        self.error: Exception | None = None

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_done.set()
        self._thread.join()
        self._wire.__exit__()
        if self.error is not None:
            raise self.error
        assert self.sung > 0
        assert self.longest_s < TIMEOUT_S

    def _sing(self) -> None:
        try:
            while not self._is_done.is_set():
                started = time.monotonic()
                self._sing_once()
                self.longest_s = max(self.longest_s, time.monotonic() - started)
                self.sung += 1
        except Exception as error:
            self.error = error

    def _sing_once(self) -> None:
        value = b"tweet %d" % self.sung
        produced = produce(self._wire, CANARY_TOPIC, batch(value, timestamp=time.time_ns() // 1_000_000))
        assert produced.error_code == 0
        offset = produced.base_offset
        fetched = self._wire.call(ApiKey.FETCH, 12, **fetch_fields(CANARY_TOPIC, (0, offset)))
        assert value in fetched.responses[0].partitions[0].records


@pytest.fixture(scope="module", autouse=True)
def canary_topic(broker: BrokerProcess) -> None:
    with Wire(broker.address) as wire:
        create_topic(wire, CANARY_TOPIC)
        create_topic(wire, "fuzz-compact", cleanup_policy="compact")


@pytest.fixture(autouse=True)
def undisturbed(broker: BrokerProcess, canary_topic: None) -> Iterator[None]:
    """The canary sings through every test; afterwards the broker holds no more than before."""
    with Wire(broker.address) as wire:
        produce(wire, CANARY_TOPIC, batch(b"warm"))
    rss, pid = broker.rss_bytes(), broker.pid
    with Canary(broker.address):
        yield
    assert broker.pid == pid
    assert broker.rss_bytes() - rss < MAX_NEW_BYTES
    deadline = time.monotonic() + TIMEOUT_S
    while connections(broker) > FEW and time.monotonic() < deadline:
        time.sleep(0.05)
    assert connections(broker) <= FEW
    assert "Traceback" not in broker.stderr_path.read_text(errors="replace")


def connections(broker: BrokerProcess) -> int:
    """Return how many connections the broker has."""
    sockets = psutil.Process(broker.pid).net_connections("tcp")
    return sum(each.status != psutil.CONN_LISTEN for each in sockets)


def connect(broker: BrokerProcess) -> socket.socket:
    host, port = broker.address.rsplit(":", 1)
    return socket.create_connection((host, int(port)), timeout=TIMEOUT_S)


def sized(frame: bytes) -> bytes:
    return struct.pack(">i", len(frame)) + frame


def until_closed(peer: socket.socket) -> bytes:
    """Return all that the broker still says; it must hang up in time."""
    said = b""
    try:
        while data := peer.recv(65_536):
            said += data
    except ConnectionError:
        pass
    return said


def say(broker: BrokerProcess, *data: bytes) -> bytes:
    """Send bytes, half-close the connection, and return the broker's response."""
    with connect(broker) as peer:
        try:
            for each in data:
                peer.sendall(each)
            peer.shutdown(socket.SHUT_WR)
        except OSError:
            pass  # it has hung up on us
        return until_closed(peer)


def test_mutated_frames_of_every_api_are_harmless(broker: BrokerProcess) -> None:
    world = World()
    with Wire(broker.address) as wire:
        for name in ("fuzz-plain", "fuzz-other"):
            world.topics[name] = create_topic(wire, name)
    random = Random(SEED)
    sources = [
        FrameSource(f"{SEED}/socket/{key.name}", world, key, versions)
        for key, versions in served()
        if key not in CHANGES_FOR_ALL
    ]
    for _ in range(FRAMES // 3):
        say(broker, *(sized(frame) for frame in random.choice(sources).take(3)))


@pytest.mark.parametrize(
    "data",
    [
        b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(32),
        b"\x00\x00\x00\x00" * 100,
        b"\xff\xff\xff\xff" + bytes(100),
        b"\x80\x00\x00\x00" + bytes(100),
        b"\x7f\xff\xff\xff" + bytes(100),
        b"\x00\x00\x00\x07" + bytes(7),
        b"*1\r\n$4\r\nPING\r\n",
    ],
    ids=["http", "tls", "empty", "minus one", "minus 2^31", "2^31 - 1", "too short", "redis"],
)
def test_what_is_not_kafka_is_hung_up_on(broker: BrokerProcess, data: bytes) -> None:
    with connect(broker) as peer:
        peer.sendall(data + bytes(64))
        assert until_closed(peer) == b""


def test_random_bytes_are_harmless(broker: BrokerProcess) -> None:
    random = Random(SEED)
    for _ in range(300):
        say(broker, random.randbytes(random.randrange(200)))


@pytest.mark.parametrize("api_key", [ApiKey.PRODUCE, ApiKey.FETCH, ApiKey.METADATA])
def test_a_frame_of_100_mb_is_refused_before_it_is_read(broker: BrokerProcess, api_key: ApiKey) -> None:
    before = broker.rss_bytes()
    sent = 0
    with connect(broker) as peer:
        peer.sendall(struct.pack(">i", 100 * MB) + request_head(api_key, 3, 7))
        try:
            for _ in range(100):
                peer.sendall(bytes(MB))
                sent += 1
        except ConnectionError:
            pass
        assert until_closed(peer) == b""
    assert sent < 100
    assert broker.rss_bytes() - before < 20 * MB


def test_frames_that_are_begun_and_never_finished_cost_nothing(broker: BrokerProcess) -> None:
    before = broker.rss_bytes()
    with ExitStack() as stack:
        for _ in range(300):
            peer = stack.enter_context(connect(broker))
            peer.sendall(struct.pack(">i", 15 * MB) + request_head(ApiKey.PRODUCE, 9, 7))
        with Wire(broker.address) as wire:
            assert produce(wire, CANARY_TOPIC, batch(b"still here")).error_code == 0
        assert broker.rss_bytes() - before < 20 * MB


def test_a_thousand_idle_connections_cost_little(broker: BrokerProcess) -> None:
    before = broker.rss_bytes()
    with ExitStack() as stack:
        for _ in range(1000):
            stack.enter_context(connect(broker))
        with Wire(broker.address) as wire:
            assert produce(wire, CANARY_TOPIC, batch(b"still here")).error_code == 0
        assert broker.rss_bytes() - before < 1000 * 12_000


def test_bombs_sent_to_a_compacted_topic_leave_others_in_peace(broker: BrokerProcess) -> None:
    bomb = tiny_records(300_000, 4)
    wires = [Wire(broker.address) for _ in range(3)]
    for wire in wires:
        for _ in range(2):
            wire.send(ApiKey.PRODUCE, 9, **produce_fields("fuzz-compact", bomb))
    for wire in wires:
        for correlation_id in (1, 2):
            answer = wire.receive(ApiKey.PRODUCE, 9, correlation_id)
            assert answer.responses[0].partition_responses[0].error_code == 0
        wire.__exit__()


def test_a_peer_that_reads_no_answers_is_not_answered_without_end(broker: BrokerProcess) -> None:
    before = broker.rss_bytes()
    ask_all = sized(request_head(ApiKey.API_VERSIONS, 0, 7)) * 1000
    with connect(broker) as peer:
        peer.settimeout(0.5)
        try:
            for _ in range(2000):
                peer.sendall(ask_all)
        except TimeoutError:
            pass
        assert broker.rss_bytes() - before < 20 * MB
