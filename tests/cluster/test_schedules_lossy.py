"""Slow links that lose packets, between brokers and to clients, under load and kill -9."""

from __future__ import annotations

from pathlib import Path
from types import TracebackType
from typing import Self

import pytest
from tests.cluster.lossy_proxy import LossyProxies, Weather
from tests.cluster.seeds import seeded
from tests.cluster.trial import Trial

from ottla.testing.cluster_process import ClusterProcess

pytestmark = [pytest.mark.cluster]

CALM = (0.0, 0.0)


class LossyCluster(ClusterProcess):
    """Brokers that advertise a proxy: the others and the clients reach them through it."""

    def __init__(self, data: Path, weather: Weather) -> None:
        super().__init__(data)
        targets = {number: broker.listen for number, broker in self.brokers.items()}
        self.proxies = LossyProxies(weather, targets, seeded().randrange(1 << 30))

    @property
    def bootstrap(self) -> str:
        """The addresses of the proxies."""
        return ",".join(self.proxies.address(number) for number in self.brokers)

    def __enter__(self) -> Self:
        self.proxies.__enter__()
        for number, broker in self.brokers.items():
            broker.settings["advertised.listeners"] = f"PLAINTEXT://{self.proxies.address(number)}"
        return super().__enter__()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            super().__exit__(kind, error, trace)
        finally:
            self.proxies.__exit__()


def test_links_that_delay_lose_packets_and_break(tmp_path: Path) -> None:
    weather = Weather()
    with LossyCluster(tmp_path, weather) as cluster, Trial(cluster) as trial:
        weather.delay_ms, weather.loss = (1.0, 20.0), 0.02
        trial.wait_for_acks()
        cluster.proxies.reset_all()
        print(f"acks=all resumed {trial.wait_for_acks():.2f} s after all connections broke")
        leader = trial.leader()
        cluster.kill(leader)
        print(f"acks=all resumed {trial.wait_for_acks():.2f} s after the leader's death")
        cluster.start(leader)
        trial.wait_for_acks()
        assert cluster.proxies.lost > 0
        weather.delay_ms, weather.loss = CALM, 0.0
