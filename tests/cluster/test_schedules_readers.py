"""Members of librdkafka and assigned readers, while all brokers die: one after the other, then all at once.

Every partition is watched by itself: a reader that reads only two of three partitions counts as stopped.
Members of the consumer protocol (KIP-848) join and leave meanwhile, so that coordinators die in the middle of
rebalances. OTTLA_TEST_ROUNDS is how often all of it is repeated.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterable
from contextlib import ExitStack
from typing import Any, Self

import pytest
from confluent_kafka import Consumer, TopicPartition
from tests.cluster.conditions import ClusterMaker
from tests.cluster.history import Place
from tests.cluster.load import client_config
from tests.cluster.trial import TOPIC, Trial

from ottla.testing.cluster_process import ClusterProcess, wait_until

pytestmark = [pytest.mark.cluster]

ROUNDS = int(os.environ.get("OTTLA_TEST_ROUNDS", "1"))
GO_ON_WITHIN_S = 40.0
MORE = 20
SETTINGS = {
    "group.consumer.min.session.timeout.ms": "6000",
    "group.consumer.session.timeout.ms": "6000",
    "group.consumer.min.heartbeat.interval.ms": "1000",
    "group.consumer.heartbeat.interval.ms": "1000",
}
"""A member whose first or last heartbeat was lost with a broker keeps its partitions for a session."""


class WatchedReader:
    """One consumer on a thread of its own; remembers how far it is in every partition."""

    def __init__(self, address: str, group: str, places: Iterable[Place] = (), **more: Any) -> None:
        self.positions: dict[Place, int] = {}
        self._ending = threading.Event()
        config = {"group.id": group, "auto.offset.reset": "earliest", **more}
        self._consumer = Consumer(client_config(address, config))
        if assigned := [TopicPartition(*place, 0) for place in places]:
            self._consumer.assign(assigned)
        else:
            self._consumer.subscribe([TOPIC])
        self._thread = threading.Thread(target=self._read, name=f"reader of {group}", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ending.set()
        self._thread.join(30)

    def _read(self) -> None:
        while not self._ending.is_set():
            for message in self._consumer.consume(500, 0.1):
                if message.error() is None:
                    place = message.topic() or "", message.partition() or 0
                    self.positions[place] = (message.offset() or 0) + 1
        self._consumer.close()


class Watch:
    """Groups, and readers without one, that all have to go on in every partition."""

    def __init__(self, places: Iterable[Place], groups: dict[str, list[WatchedReader]]) -> None:
        self._places = list(places)
        self._groups = groups
        self.slowest_s = 0.0

    def wait_for_more(self) -> None:
        """Return once every group, and every reader, has got more of each partition."""
        start, before = time.monotonic(), self._ends()
        wait_until(
            lambda: all(end >= before[key] + MORE for key, end in self._ends().items()),
            GO_ON_WITHIN_S,
            lambda: f"standing still: { {key: (before[key], end) for key, end in self._ends().items()} }",
        )
        self.slowest_s = max(self.slowest_s, time.monotonic() - start)

    def _ends(self) -> dict[tuple[str, Place], int]:
        return {
            (name, place): max((each.positions.get(place, 0) for each in readers), default=0)
            for name, readers in self._groups.items()
            for place in self._places
        }


def test_every_partition_is_read_on_when_all_brokers_die(under_conditions: ClusterMaker) -> None:
    with under_conditions(settings=SETTINGS) as cluster, Trial(cluster) as trial, ExitStack() as stack:

        def reader(group: str, places: Iterable[Place] = (), **more: Any) -> WatchedReader:
            return stack.enter_context(WatchedReader(trial.address, group, places, **more))

        new = {"group.protocol": "consumer"}
        groups = {
            "new": [reader("new", **new), reader("new", **new)],
            "assigned": [reader("assigned", trial.places)],
            "uncommitted": [reader("assigned", trial.places, **{"isolation.level": "read_uncommitted"})],
        }
        watch = Watch(trial.places, groups)
        watch.wait_for_more()
        for _ in range(ROUNDS):
            die_in_turn(cluster, trial, groups["new"], watch)
            trial.run_for(trial.choose.random())
            for number in cluster.brokers:
                cluster.kill(number)
            trial.run_for(2 * trial.choose.random())
            cluster.start_together(cluster.brokers)
            watch.wait_for_more()
            cluster.wait_until_in_sync()
        print(f"all readers went on after {watch.slowest_s:.1f} s at most")


def die_in_turn(cluster: ClusterProcess, trial: Trial, members: list[WatchedReader], watch: Watch) -> None:
    """Kill each broker while another member joins; it is back before the next one dies."""
    for number in cluster.brokers:
        with WatchedReader(trial.address, "new", **{"group.protocol": "consumer"}) as guest:
            members.append(guest)
            trial.run_for(0.5 * trial.choose.random())
            cluster.kill(number)
            watch.wait_for_more()
            cluster.start(number)
            trial.run_for(trial.choose.random())
        watch.wait_for_more()
        members.remove(guest)
