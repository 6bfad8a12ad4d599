"""Peers that mean harm, or are broken: bounded memory, no leaked descriptors, no other client disturbed."""

from __future__ import annotations

import random
import socket
import struct
from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from tests.cluster.canary import Canary
from tests.cluster.hostile import (
    MIB,
    PER_ADDRESS,
    TIMEOUT_S,
    connect,
    connections,
    is_closed,
    send_as_far_as_possible,
    undisturbed,
)
from tests.cluster.load import create_topic
from tests.cluster.wire import (
    Produced,
    WirePeer,
    batch_of,
    fetch_frame,
    frame,
    metadata_frame,
    produce_frame,
)

from ottla.testing.broker_process import BrokerProcess

CORRUPT_MESSAGE = 2

BROKER_SETTINGS = {"connections.max.idle.ms": "600000", "max.connections.per.ip": str(PER_ADDRESS)}


@pytest.fixture(scope="module")
def canary(broker: BrokerProcess) -> Iterator[Canary]:
    with Canary(broker.address) as singing:
        yield singing


def test_a_thousand_idle_connections_cost_little(broker: BrokerProcess, canary: Canary) -> None:
    with undisturbed(broker, canary, grown_mib=24), connections(broker, 1_000) as idle:
        canary.assert_sings(times=50)
        idle[-1].sendall(metadata_frame())
        assert idle[-1].recv(4)


def test_one_address_gets_no_more_than_its_share(broker: BrokerProcess, canary: Canary) -> None:
    host, port = broker.address.rsplit(":", 1)
    with undisturbed(broker, canary, grown_mib=16), ExitStack() as stack:
        greedy = []
        for _ in range(PER_ADDRESS + 50):
            made = stack.enter_context(socket.socket())
            made.bind(("127.0.2.1", 0))
            made.settimeout(TIMEOUT_S)
            made.connect((host, int(port)))
            greedy.append(made)
        assert all(is_closed(each) for each in greedy[PER_ADDRESS:])
        greedy[0].sendall(metadata_frame())
        assert greedy[0].recv(4)
    assert "max.connections.per.ip" in broker.stderr_path.read_text()


def test_connections_that_come_and_go_leave_nothing_behind(broker: BrokerProcess, canary: Canary) -> None:
    with undisturbed(broker, canary, grown_mib=16):
        for number in range(2_000):
            with connect(broker, number % 100) as passing:
                if number % 2:
                    passing.sendall(metadata_frame()[: number % 30])


def test_announced_frames_of_100_mb_are_turned_away_before_they_come(
    broker: BrokerProcess, canary: Canary
) -> None:
    with undisturbed(broker, canary, grown_mib=16), connections(broker, 150) as liars:
        for number, liar in enumerate(liars):
            liar.sendall(struct.pack(">ihh", 100_000_000, number % 20, 0) + bytes(5_000))
        assert all(is_closed(liar) for liar in liars)


@pytest.mark.parametrize("announced", [2**31 - 1, -1, -(2**31), 0, 3, 17 * MIB])
def test_a_size_that_cannot_be_is_turned_away(broker: BrokerProcess, canary: Canary, announced: int) -> None:
    with undisturbed(broker, canary, grown_mib=8), connections(broker, 20) as liars:
        for liar in liars:
            liar.sendall(struct.pack(">ihh", announced, 0, 7) + bytes(100))
        assert all(is_closed(liar) for liar in liars)


def test_large_frames_that_never_come_hold_no_more_than_the_budget(
    broker: BrokerProcess, canary: Canary
) -> None:
    """Each may be 16 MiB large and begins well; all together they would take 3 GiB."""
    with undisturbed(broker, canary, grown_mib=256 + 48), connections(broker, 190) as liars:
        start = produce_frame("canary", 0, batch_of([bytes(100)]))
        for liar in liars:
            liar.sendall(struct.pack(">i", 15 * MIB) + start[4:] + bytes(40_000))
        canary.assert_sings(times=50)


def test_large_frames_that_never_come_hold_up_no_large_ones_that_do(broker: BrokerProcess) -> None:
    with connections(broker, 190) as liars:
        start = produce_frame("canary", 0, batch_of([bytes(100)]))
        for liar in liars:
            liar.sendall(struct.pack(">i", 15 * MIB) + start[4:] + bytes(40_000))
        with WirePeer(broker.address, timeout_s=20) as honest:
            assert honest.produce("canary", 0, batch_of([bytes(200_000)])).error_code == 0


def test_garbage_is_answered_with_a_closed_door(broker: BrokerProcess, canary: Canary) -> None:
    choose = random.Random(1)
    with undisturbed(broker, canary, grown_mib=16), connections(broker, 300) as noisy:
        for number, each in enumerate(noisy):
            body = choose.randbytes(choose.randrange(8, 3_000))
            if number % 3:  # with a right size, and sometimes a right API, the bytes get further
                key = struct.pack(">hh", choose.randrange(70), choose.randrange(14))
                body = struct.pack(">i", len(body) + 4) + key + body
            each.sendall(body)
        for each in noisy:
            each.shutdown(socket.SHUT_WR)
        assert all(is_closed(each) for each in noisy)


def test_senders_of_one_byte_at_a_time_are_served_and_do_not_delay_others(
    broker: BrokerProcess, canary: Canary
) -> None:
    request = metadata_frame()
    with undisturbed(broker, canary, grown_mib=16), connections(broker, 150) as slow:
        for at in range(len(request)):
            for each in slow:
                each.sendall(request[at : at + 1])
        assert all(len(each.recv(4)) == 4 for each in slow)
        canary.assert_sings()


def test_peers_that_never_read_stop_being_read_from(broker: BrokerProcess, canary: Canary) -> None:
    """Sixty peers ask for a megabyte each, a thousand times; they would have 60 GB waiting for them."""
    create_topic(broker.address, "large", 1)
    with WirePeer(broker.address) as producer:
        for _ in range(20):
            assert producer.produce("large", 0, batch_of([bytes(900_000)])).error_code == 0
    requests = b"".join(fetch_frame("large", 0, offset % 20, max_wait_ms=0) for offset in range(1_000))
    with undisturbed(broker, canary, grown_mib=64), ExitStack() as stack:
        deaf = [stack.enter_context(connect(broker, number, receive_buffer=4096)) for number in range(60)]
        unsent = send_as_far_as_possible(deaf, requests * 300)
        assert unsent == 60, "the broker reads on from peers that do not read"
        canary.assert_sings(times=20)


def test_answers_that_are_not_read_do_not_pile_up(broker: BrokerProcess, canary: Canary) -> None:
    requests = b"".join(metadata_frame(number) for number in range(50_000))
    with undisturbed(broker, canary, grown_mib=64), ExitStack() as stack:
        deaf = [stack.enter_context(connect(broker, number, receive_buffer=4096)) for number in range(40)]
        assert send_as_far_as_possible(deaf, requests * 4) == 40
        canary.assert_sings(times=20)


def test_peers_that_vanish_while_they_wait_are_forgotten(broker: BrokerProcess, canary: Canary) -> None:
    with undisturbed(broker, canary, grown_mib=16), connections(broker, 190) as waiting:
        for each in waiting:
            each.sendall(fetch_frame("canary", 0, 0, max_wait_ms=600_000, min_bytes=1 << 30))
        canary.assert_sings()


def test_a_wrong_checksum_is_refused_and_the_connection_stays(broker: BrokerProcess, canary: Canary) -> None:
    create_topic(broker.address, "checked", 1)
    good = batch_of([b"value" * 20])
    with undisturbed(broker, canary, grown_mib=16), WirePeer(broker.address) as peer:
        for at in range(21, len(good)):
            bad = bytearray(good)
            bad[at] ^= 1
            assert peer.produce("checked", 0, bytes(bad)) == Produced(CORRUPT_MESSAGE, -1)
        assert peer.produce("checked", 0, good) == Produced(0, 0)


@pytest.mark.parametrize("version", [-1, 99, 32_767])
def test_unknown_versions_and_apis_close_one_connection(
    broker: BrokerProcess, canary: Canary, version: int
) -> None:
    with undisturbed(broker, canary, grown_mib=8), ExitStack() as stack:
        for api_key in (0, 1, 3, 19, 70, 32_767):
            peer = stack.enter_context(WirePeer(broker.address))
            peer.send(frame(api_key, version, bytes(50)))
            assert peer.is_closed_by_broker()
