"""A trial: load on a cluster while a fault is made, then everything that was promised is checked.

    with Trial(cluster) as trial:
        trial.run_for(1)                 # records flow
        cluster.kill(trial.leader())     # the fault
        trial.wait_for_acks()            # acks=all works again
        cluster.start(...)
    # healed: all replicas in sync, all that was acknowledged is there once and in order,
    # the group had it all, and the replicas are the same bytes

Producers are idempotent with acks=all; the topic has three replicas and min.insync.replicas=2. Offsets that
the group committed stay committed, unless the power of all brokers is cut: they are not flushed.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from confluent_kafka.admin import AdminClient
from tests.cluster.conditions import ConditionedCluster
from tests.cluster.group_reader import GroupReader
from tests.cluster.history import Checker, History, Place
from tests.cluster.load import LoadProducer, client_config, create_topic
from tests.cluster.reading import Reader
from tests.cluster.replicas import differences
from tests.cluster.seeds import seeded

from ottla.testing.cluster_process import ClusterProcess, wait_until

TOPIC = "t"
GROUP = "group"
PARTITIONS = 3
HEALED_WITHIN_S = 30.0
SEND_EVERY_S = 0.004
REQUEST_TIMEOUT_MS = 4_000
"""Shorter than clients' 30 s: a test does not wait that long for a broker that was paused."""


class Trial:
    """Load and checks around a fault."""

    def __init__(
        self,
        cluster: ClusterProcess,
        configs: Mapping[str, str] | None = None,
        *,
        keeps_commits: bool = True,
        clients: str | None = None,
    ) -> None:
        self.cluster = cluster
        self._clients = clients
        self._keeps_commits = keeps_commits
        self.choose = seeded()
        self.history = History()
        self.places: list[Place] = [(TOPIC, partition) for partition in range(PARTITIONS)]
        self.longest_wait_s = 0.0
        """The longest time without any acknowledgement."""
        self._configs = {"min.insync.replicas": "2", "segment.bytes": "262144", **(configs or {})}
        self._stopping = threading.Event()
        self._sender = threading.Thread(target=self._send, name="load", daemon=True)
        self._sender_failure: BaseException | None = None

    @property
    def address(self) -> str:
        """Where clients connect: the first listener, unless another was named."""
        return self._clients or self.cluster.bootstrap

    def __enter__(self) -> Self:
        create_topic(self.address, TOPIC, PARTITIONS, self._configs, replicas=3)
        self.cluster.wait_until_in_sync()
        config: dict[str, Any] = {"request.timeout.ms": REQUEST_TIMEOUT_MS, "socket.timeout.ms": 5_000}
        self._producers = [
            LoadProducer(self.address, self.history, "plain", self.places, config=config),
            LoadProducer(
                self.address,
                self.history,
                "lz4",
                self.places,
                config={**config, "compression.type": "lz4"},
            ),
        ]
        self._group = GroupReader(self.address, [TOPIC], group=GROUP)
        self._group.start()
        self._sender.start()
        self.wait_for_acks()
        wait_until(
            lambda: len(self._group.ends()) == PARTITIONS, HEALED_WITHIN_S, lambda: "the group reads nothing"
        )
        if isinstance(self.cluster, ConditionedCluster):
            self.cluster.begin()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stopping.set()
        self._sender.join()
        if error is not None:
            self._group.stop()
            return
        assert self._sender_failure is None, self._sender_failure
        try:
            self._check()
        finally:
            self._group.stop()

    # While it runs

    def run_for(self, seconds: float) -> None:
        """Let records flow for a while."""
        self._stopping.wait(seconds)

    def wait_for_acks(self, count: int = 50, within_s: float = HEALED_WITHIN_S) -> float:
        """Wait until `count` more records to every partition are acknowledged; return how long that took."""
        start = time.monotonic()
        before = {place: self._acks(place) for place in self.places}
        wait_until(
            lambda: all(self._acks(place) >= before[place] + count for place in self.places),
            within_s,
            lambda: f"too few acknowledgements: { {p: self._acks(p) - before[p] for p in self.places} }",
        )
        return time.monotonic() - start

    def leader(self, partition: int = 0) -> int:
        """Return the leader of a partition."""
        return self.cluster.leader_of(TOPIC, partition)

    def follower(self, partition: int = 0) -> int:
        """Return a follower of a partition that is not the controller, if there is one."""
        view = self.cluster.view()
        of = view.partitions[TOPIC, partition]
        others = [number for number in of.replicas if number != of.leader]
        return next((number for number in others if number != view.controller), others[0])

    def coordinator(self) -> int:
        """Return the broker that coordinates the group."""
        admin = AdminClient(client_config(self.address))
        described = admin.describe_consumer_groups([GROUP])[GROUP].result(30)
        return int(described.coordinator.id)

    def group_position(self) -> int:
        """Return how many records the group has been given."""
        return sum(self._group.ends().values())

    def directory(self, number: int, place: Place) -> Path:
        """Return the log directory of a replica; may be overridden."""
        return self.cluster.brokers[number].data

    def _acks(self, place: Place) -> int:
        return len(self.history.acknowledged(place)) // 3

    def _send(self) -> None:
        try:
            self._send_until_stopped()
        except BaseException as error:
            self._sender_failure = error
            raise

    def _send_until_stopped(self) -> None:
        choose = random.Random(self.choose.random())
        last, since = 0, time.monotonic()
        while not self._stopping.is_set():
            for producer in self._producers:
                producer.send(choose.randint(1, 10), choose)
            if (acks := self.history.ack_count) != last:
                last, since = acks, time.monotonic()
            self.longest_wait_s = max(self.longest_wait_s, time.monotonic() - since)
            time.sleep(SEND_EVERY_S)

    # After it

    def _check(self) -> None:
        if isinstance(self.cluster, ConditionedCluster):
            self.cluster.calm()
        for producer in self._producers:
            producer.settle(HEALED_WITHIN_S)
        self.cluster.wait_until_in_sync(HEALED_WITHIN_S)
        checker = Checker(self.history)
        with Reader(self.address) as reader:
            ends = {place: reader.ends(place)[1] for place in self.places}
            found = reader.read(checker.positions)
        for place, records in found.items():
            assert checker.check(place, records) == [], place
        assert checker.check_implied() == []
        wait_until(
            lambda: self._group.ends() == ends,
            HEALED_WITHIN_S,
            lambda: f"the group has read {self._group.ends()} of {ends}",
        )
        self._group.stop()
        assert self._group.problems == []
        if self._keeps_commits:
            assert self._group.check_commits() == []
        for place, records in found.items():
            assert self._group.values(place) == records
        self.cluster.stop_all()
        for place in self.places:
            data = {number: self.directory(number, place) for number in self.cluster.brokers}
            assert differences(data, place) == []
        for number, broker in self.cluster.brokers.items():
            assert "Traceback" not in broker.stderr_path.read_text(), f"broker {number}"
        print(f"{self.history.ack_count} records acknowledged, longest pause {self.longest_wait_s:.2f} s")
