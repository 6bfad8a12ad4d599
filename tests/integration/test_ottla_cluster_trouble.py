"""Our clients on three brokers, while leaders die, move and lag; both faces of each."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from tests.integration.clients import wait_until
from tests.integration.ottla_faces import open_face

from ottla import client as ottla
from ottla.client import Admin, TopicPartition
from ottla.testing.local_cluster import LocalCluster

RECORDS = 600
SOON_S = 30
_numbers = itertools.count()

Open = Callable[..., Any]


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    with LocalCluster(3, racks=("a", "b", "c"), replica_selector_class="RackAwareReplicaSelector") as running:
        yield running
        assert running.running == [1, 2, 3], "a test must start again what it stops"


@pytest.fixture
def topic(cluster: LocalCluster) -> str:
    cluster.wait_until_in_sync()
    name = f"orders-{next(_numbers)}"
    cluster.create_topic(name, partitions=2)
    return name


@pytest.fixture(params=["sync", "async"])
def opened(request: pytest.FixtureRequest, cluster: LocalCluster) -> Iterator[Open]:
    """Open clients of each face in turn: `opened("Producer", linger_ms=5)`."""
    with ExitStack() as stack:

        def open_client(name: str, **options: Any) -> Any:
            face = getattr(ottla, f"Async{name}" if request.param == "async" else name)
            made = open_face(face, cluster.bootstrap_servers, retry_backoff_ms=20, **options)
            stack.callback(made.close)
            return made

        yield open_client


def read(consumer: Any, places: list[TopicPartition], count: int) -> dict[TopicPartition, list[bytes]]:
    """Return so many records by partition; a repeated or a missing offset fails."""
    found: dict[TopicPartition, list[Any]] = {place: [] for place in places}
    deadline = time.monotonic() + SOON_S
    while sum(map(len, found.values())) < count and time.monotonic() < deadline:
        for place, records in consumer.getmany(timeout_ms=500).items():
            found[place] += records
    for records in found.values():
        assert [each.offset for each in records] == list(range(len(records)))
    return {place: [each.value for each in records] for place, records in found.items()}


def send_half(producer: Any, topic: str, start: int) -> list[Any]:
    return [
        producer.send(topic, b"%d" % number, partition=number % 2)
        for number in range(start, start + RECORDS // 2)
    ]


def expected(topic: str) -> dict[TopicPartition, list[bytes]]:
    return {
        TopicPartition(topic, index): [b"%d" % number for number in range(index, RECORDS, 2)]
        for index in range(2)
    }


def test_a_killed_leader_costs_no_record_and_no_order(
    cluster: LocalCluster, opened: Open, topic: str
) -> None:
    places = [TopicPartition(topic, index) for index in range(2)]
    producer = opened("Producer", batch_size=2_000)
    consumer = opened("Consumer", auto_offset_reset="earliest", fetch_max_wait_ms=100)
    consumer.assign(places)
    deliveries = send_half(producer, topic, 0)
    dead = cluster.kill(leader_of=topic)
    try:
        deliveries += send_half(producer, topic, RECORDS // 2)
        offsets = [each.result(SOON_S).offset for each in deliveries]
        assert read(consumer, places, RECORDS) == expected(topic)
    finally:
        cluster.start(dead)
    assert [offset for offset in offsets if offset >= 0] == [
        number // 2 for number, offset in enumerate(offsets) if offset >= 0
    ]


def test_a_leader_that_moves_is_followed_by_both(cluster: LocalCluster, opened: Open, topic: str) -> None:
    places = [TopicPartition(topic, index) for index in range(2)]
    producer = opened("Producer", batch_size=2_000)
    consumer = opened("Consumer", auto_offset_reset="earliest", fetch_max_wait_ms=100)
    consumer.assign(places)
    deliveries = send_half(producer, topic, 0)
    with Admin(cluster.bootstrap_servers) as admin:
        before = cluster.leader_of(topic)
        others = [node_id for node_id in (1, 2, 3) if node_id != before]
        assert admin.reassign({places[0]: [*others, before]}) == {places[0]: None}
        admin.elect_leaders([places[0]])
        wait_until(lambda: cluster.leader_of(topic) == others[0], "another broker to lead")
    deliveries += send_half(producer, topic, RECORDS // 2)
    for each in deliveries:
        each.result(SOON_S)
    assert read(consumer, places, RECORDS) == expected(topic)


def test_a_group_continues_when_its_coordinator_is_killed(
    cluster: LocalCluster, opened: Open, topic: str
) -> None:
    group = f"group-{next(_numbers)}"
    options = {"group_id": group, "auto_offset_reset": "earliest", "enable_auto_commit": False}
    place = TopicPartition(topic, 0)
    producer = opened("Producer")
    consumer = opened("Consumer", **options)
    consumer.subscribe([topic])
    producer.send(topic, b"before", partition=0).result(SOON_S)
    assert consumer.getone(timeout_ms=SOON_S * 1000).value == b"before"
    consumer.commit()
    with Admin(cluster.bootstrap_servers) as admin:
        coordinator = admin.describe_group(group).coordinator
    cluster.kill(coordinator)
    try:
        producer.send(topic, b"after", partition=0).result(SOON_S)
        assert consumer.getone(timeout_ms=SOON_S * 1000).value == b"after"
        consumer.commit()
        assert consumer.committed([place])[place].offset == 2
    finally:
        cluster.start(coordinator)


def test_a_consumer_reads_from_the_replica_in_its_rack_and_elsewhere_when_that_dies(
    cluster: LocalCluster, opened: Open, topic: str
) -> None:
    place = TopicPartition(topic, 0)
    producer = opened("Producer")
    near = next(node_id for node_id in (1, 2, 3) if node_id != cluster.leader_of(topic))
    consumer = opened(
        "Consumer", auto_offset_reset="earliest", client_rack=cluster.racks[near], fetch_max_wait_ms=100
    )
    consumer.assign([place])

    def send_and_read(value: bytes) -> None:
        producer.send(topic, value, partition=0).result(SOON_S)
        assert consumer.getone(timeout_ms=SOON_S * 1000).value == value

    send_and_read(b"first")
    wait_until(lambda: _read_from(consumer, place) == near, "the replica in the rack to be read")
    send_and_read(b"from a follower")
    cluster.kill(near)
    try:
        send_and_read(b"from the leader again")
    finally:
        cluster.start(near)


def _read_from(consumer: Any, place: TopicPartition) -> int:
    """Return the replica that is read instead of the leader: nothing public says so."""
    face = getattr(consumer, "_client", None) or consumer._async
    replica: int = face._core.assignment[place].preferred_replica
    return replica
