"""Descriptors as a scarce good: peers that are gone give theirs back, and running out of them passes."""

from __future__ import annotations

import resource
import socket
from pathlib import Path

import pytest
from tests.cluster.canary import Canary
from tests.cluster.hostile import connections, is_closed, wait_until
from tests.cluster.load import create_topic
from tests.cluster.wire import Produced, WirePeer, batch_of, metadata_frame

from ottla.testing.broker_process import BrokerProcess

UNKNOWN_TOPIC = 3
STORAGE_ERROR = 56
TCP_REPAIR = 19


class FewDescriptors(BrokerProcess):
    """A broker that may have no more than 150 descriptors open."""

    def command(self) -> list[str]:
        return ["prlimit", "--nofile=150:150", *super().command()]


def test_connections_leave_descriptors_for_the_logs(tmp_path: Path) -> None:
    """There are more connections than descriptors, and the logs are closed: appends open them still."""
    topics = ["a", "b", "c"]
    with FewDescriptors(tmp_path / "data") as broker:
        for topic in topics:
            create_topic(broker.address, topic, 1, {"segment.bytes": "1500"})
        broker.restart()
        with WirePeer(broker.address) as peer, connections(broker, 170) as crowd:
            assert is_closed(crowd[-1])
            for number in range(5):
                for topic in topics:
                    assert peer.produce(topic, 0, batch_of([bytes(1_000)])) == Produced(0, number)
                    assert peer.fetch_error(topic, 0, 0) == 0
            assert broker.descriptors() < 150
    said = broker.stderr_path.read_text()
    assert "as many as the descriptor limit leaves room for" in said
    assert "Traceback" not in said


def test_running_out_of_descriptors_passes(tmp_path: Path) -> None:
    """The logs are closed, and an append finds no descriptor to open its file with."""
    topics = ["a", "b", "c"]
    with BrokerProcess(tmp_path / "data") as broker:
        for topic in topics:
            create_topic(broker.address, topic, 1, {"segment.bytes": "1500"})
            with WirePeer(broker.address) as peer:
                assert peer.produce(topic, 0, batch_of([bytes(1_000)])) == Produced(0, 0)
        broker.restart()
        with WirePeer(broker.address) as peer:
            assert peer.produce("unknown", 0, batch_of([b"x"])).error_code == UNKNOWN_TOPIC
            assert peer.fetch_error("unknown", 0, 0) == UNKNOWN_TOPIC
            soft, hard = resource.prlimit(broker.pid, resource.RLIMIT_NOFILE)
            resource.prlimit(broker.pid, resource.RLIMIT_NOFILE, (1, hard))
            for topic in topics:
                assert peer.produce(topic, 0, batch_of([bytes(100)])).error_code == STORAGE_ERROR
                assert peer.produce(topic, 0, batch_of([bytes(1_000)])).error_code == STORAGE_ERROR
                assert peer.fetch_error(topic, 0, 0) == STORAGE_ERROR
            resource.prlimit(broker.pid, resource.RLIMIT_NOFILE, (soft, hard))
            for topic in topics:
                assert peer.produce(topic, 0, batch_of([bytes(1_000)])) == Produced(0, 1)
                assert peer.fetch_error(topic, 0, 0) == 0
        broker.restart()
        with WirePeer(broker.address) as peer:
            for topic in topics:
                assert peer.produce(topic, 0, batch_of([bytes(1_000)])) == Produced(0, 2)
    assert "Traceback" not in broker.stderr_path.read_text()


def test_half_open_connections_are_closed_after_a_while(tmp_path: Path) -> None:
    """The peers are gone without a word: no FIN, no RST, as when a cable is cut."""
    settings = {"connections.max.idle.ms": "1500"}
    with BrokerProcess(tmp_path / "data", settings=settings) as broker, Canary(broker.address) as canary:
        descriptors = broker.descriptors()
        with connections(broker, 100) as gone:
            wait_until(lambda: broker.descriptors() >= descriptors + 100, "not all connected")
            for number, each in enumerate(gone):
                each.sendall(metadata_frame()[: number % 20])
                vanish(each)
        wait_until(lambda: broker.descriptors() <= descriptors + 2, "half-open connections are kept")
        canary.assert_sings()


def vanish(peer: socket.socket) -> None:
    """Make the coming close silent; that takes root, without it the connection just stays idle a while."""
    try:
        peer.setsockopt(socket.IPPROTO_TCP, TCP_REPAIR, 1)
    except PermissionError:
        pytest.skip("silent closes need root")
