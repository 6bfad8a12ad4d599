"""A cluster on a network of its own (namespaces.py): machines whose links can be cut."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.cluster.namespaces import Network

from ottla.testing.broker_process import BrokerProcess
from ottla.testing.cluster_process import ClusterProcess, ZooKeeperProcess

ZOOKEEPER = "zookeeper"
BROKERS = 3


def machine(number: int) -> str:
    """Return the name of a broker's machine."""
    return f"broker-{number}"


class NetworkCluster(ClusterProcess):
    """Three brokers and a ZooKeeper, each on a machine of its own."""

    def __init__(self, data: Path, network: Network) -> None:
        self.network = network
        super().__init__(data, brokers=BROKERS)

    def make_zookeeper(self, data: Path) -> ZooKeeperProcess:
        """Return a ZooKeeper on its machine."""
        return ZooKeeperProcess(
            data,
            host=self.network.address(ZOOKEEPER),
            port=2181,
            settings={"tickTime": "200"},
            wrapper=self.network.wrapper(ZOOKEEPER),
        )

    def make_broker(
        self, number: int, settings: dict[str, str], arguments: list[str], environment: dict[str, str]
    ) -> BrokerProcess:
        """Return a broker on its machine."""
        return BrokerProcess(
            self.data / machine(number),
            listen=f"{self.network.address(machine(number))}:9092",
            settings=settings,
            arguments=arguments,
            environment=environment,
            wrapper=self.network.wrapper(machine(number)),
        )

    def cut_brokers(self, one: int, other: int) -> None:
        """Lose everything between two brokers."""
        self.network.cut(machine(one), machine(other))

    def cut_from_zookeeper(self, number: int) -> None:
        """Lose everything between a broker and ZooKeeper."""
        self.network.cut(machine(number), ZOOKEEPER)

    def heal(self) -> None:
        """Undo every cut."""
        self.network.heal()


@contextmanager
def network_cluster(data: Path) -> Iterator[NetworkCluster]:
    """Run a cluster on its own network, and this thread with it; NoNamespaces where that is not permitted."""
    machines = [ZOOKEEPER, *(machine(number) for number in range(1, BROKERS + 1))]
    with Network(machines) as network, network.inside(), NetworkCluster(data, network) as cluster:
        yield cluster
