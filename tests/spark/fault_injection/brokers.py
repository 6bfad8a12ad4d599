"""What the pipeline talks to: one broker, or three with a ZooKeeper, as processes that can be killed."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Protocol

from ottla.testing.broker_process import BrokerProcess
from ottla.testing.cluster_process import ClusterProcess

SETTINGS = {
    "transaction.two.phase.commit.enable": "true",
    "transaction.state.log.num.partitions": "5",
    "auto.create.topics.enable": "true",
}
IN_SYNC_WITHIN_S = 120.0


class Brokers(Protocol):
    """A cluster of any size."""

    replicas: int

    @property
    def bootstrap(self) -> str: ...

    def strike(self, choice: float, away_s: float) -> None:
        """Kill one broker without warning, and start it again a little later."""

    def stop(self) -> None: ...


class OneBroker:
    """A broker, killed and started again on the same data."""

    replicas = 1

    def __init__(self, data: Path) -> None:
        self._broker = BrokerProcess(data / "broker", settings=SETTINGS).start()

    @property
    def bootstrap(self) -> str:
        return self._broker.address

    def strike(self, choice: float, away_s: float) -> None:
        self._broker.kill()
        time.sleep(away_s)
        self._broker.start()

    def stop(self) -> None:
        self._broker.stop()


class ThreeBrokers:
    """Three brokers, of which one at a time is away; the next one dies when all replicas are back."""

    replicas = 3

    def __init__(self, data: Path) -> None:
        settings = {**SETTINGS, "min.insync.replicas": "2"}
        self._cluster = ClusterProcess(data / "cluster", brokers=3, settings=settings).start_all()

    @property
    def bootstrap(self) -> str:
        return self._cluster.bootstrap

    def strike(self, choice: float, away_s: float) -> None:
        self._cluster.wait_until_in_sync(IN_SYNC_WITHIN_S)
        number = 1 + int(choice * len(self._cluster.brokers))
        self._cluster.kill(number)
        time.sleep(away_s)
        self._cluster.start(number)

    def stop(self) -> None:
        self._cluster.stop_all()


def start_brokers(count: int, data: Path) -> Brokers:
    """Start one broker or three."""
    return ThreeBrokers(data) if count == 3 else OneBroker(data)
