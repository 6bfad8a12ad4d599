"""200,000 frames of strangers: before authentication nothing but authentication is served."""

from __future__ import annotations

import asyncio
import random
import struct
import tracemalloc
from pathlib import Path
from typing import Any, cast

import pytest
from tests.fuzz.harness import Client, FuzzBroker

from ottla.api.table import APIS
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.errors import KafkaError
from ottla.security.exchange import AuthenticationRefused
from ottla.security.plain import PlainServer
from ottla.security.sasl import FIRST_APIS, SaslSession
from ottla.security.scram import ScramServer, fake_credential

FRAMES = 200_000
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
MAX_BYTES_PER_STRANGER = 512 << 10
SEEDS = [
    b"n,,n=alice,r=abcdefghijklmnop",
    b"n,a=alice,n=alice,r=abcdefghijklmnop,tokenauth=true",
    b"c=biws,r=abcdefghijklmnop,p=dHJ1c3RubzE=",
    b"\0alice\0secret",
    b"n,,\x01auth=Bearer a.b.c\x01\x01",
]


class Stranger(Client):
    """A client that has not authenticated."""

    def __init__(self) -> None:
        self.is_closed = False
        self.sasl = SaslSession(MECHANISMS, new_exchange, lambda _: 0)

    def close(self, reason: str) -> None:
        self.is_closed = True


def new_exchange(mechanism: str) -> Any:
    if mechanism == "PLAIN":
        return PlainServer({"alice": "another secret"})
    return ScramServer(
        mechanism,
        lambda *_: None,
        lambda *_: None,
        lambda name, user: fake_credential(name, user, b"secret"),
        "nonce",
    )


def frame_of(chance: random.Random) -> bytes:
    """Return a frame: of any API, or one of authentication with a damaged body."""
    if chance.random() < 0.6:
        key, version = chance.choice([(18, 0), (18, 3), (17, 0), (17, 1), (17, 1), (36, 0), (36, 1), (36, 2)])
    else:
        key = chance.choice([*APIS, *FIRST_APIS, chance.randrange(-(2**15), 2**15)])
        version = chance.randrange(-1, 20)
    header = struct.pack(">hhih", key, version, chance.randrange(2**31), -1)
    if version >= 2 and chance.random() < 0.8:
        header += b"\0"
    message = bytearray(chance.choice(SEEDS))
    for _ in range(chance.randrange(4)):
        message[chance.randrange(len(message))] = chance.randrange(256)
    if key == ApiKey.SASL_HANDSHAKE:
        name = chance.choice([*MECHANISMS, "X" * chance.randrange(100)]).encode()
        body = struct.pack(">h", len(name)) + name
    elif key == ApiKey.SASL_AUTHENTICATE:
        size = bytes([len(message) + 1]) if version >= 2 else struct.pack(">i", len(message))
        body = size + bytes(message) + b"\0"
    else:
        body = chance.randbytes(chance.randrange(40))
    if chance.random() < 0.1:
        body = body[: chance.randrange(len(body) + 1)] + b"\xff" * chance.randrange(8)
    return header + body


@pytest.mark.filterwarnings("ignore:coroutine .* was never awaited")
def test_strangers_get_nowhere(tmp_path: Path) -> None:
    chance = random.Random(18)
    with FuzzBroker(tmp_path) as broker:
        stranger = Stranger()
        answered = raw = 0
        for _ in range(FRAMES):
            assert stranger.sasl is not None
            is_raw = stranger.sasl.takes_raw_tokens
            raw += is_raw
            frame = chance.choice([b"", b"\0", *SEEDS, frame_of(chance)]) if is_raw else frame_of(chance)
            key = int.from_bytes(frame[:2], "big", signed=True)
            try:
                reply = broker.dispatcher.handle(cast(Any, stranger), memoryview(bytearray(frame)))
            except KafkaError:
                stranger = Stranger()
                continue
            assert is_raw or key in FIRST_APIS, frame
            answered += 1
            if asyncio.iscoroutine(reply):  # a refusal, which comes late
                reply.close()
                stranger = Stranger()
            assert not stranger.sasl.is_authenticated
            if stranger.is_closed:
                stranger = Stranger()
        assert answered > FRAMES // 10
        assert raw > FRAMES // 100


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_stranger_costs_little_memory(mechanism: str) -> None:
    """The largest message that is read, and all that a mechanism makes of it."""
    tracemalloc.start()
    try:
        for seed in SEEDS:
            session = SaslSession(MECHANISMS, new_exchange, lambda _: 0)
            session.handshake(mechanism, 0)
            message = seed + b"x" * (64 * 1024 - len(seed))
            tracemalloc.reset_peak()
            before, _ = tracemalloc.get_traced_memory()
            with pytest.raises(AuthenticationRefused):
                session.authenticate(message, 0, 0)
            _, peak = tracemalloc.get_traced_memory()
            assert peak - before < MAX_BYTES_PER_STRANGER
    finally:
        tracemalloc.stop()
