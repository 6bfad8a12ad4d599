"""Ottla: one broker with its defaults, and three with a ZooKeeper."""

from __future__ import annotations

from pathlib import Path

import ottla
from benchmarks.peers.servers import Server, is_listening, wait_until
from ottla.testing.broker_process import BrokerProcess
from ottla.testing.cluster_process import ClusterProcess

# Bytecode is kept, as for whoever installs Ottla by pip, even if the environment asks for none to be written.
BYTECODE = {
    "PYTHONDONTWRITEBYTECODE": "",
    "PYTHONPYCACHEPREFIX": str(Path(__file__).resolve().parents[2] / "build" / "bytecode"),
}


class OneOttla(Server):
    """`ottla serve` as it is, but for where it listens (and no metrics server: Kafka has none either)."""

    name = "ottla"
    version = ottla.__version__

    def __init__(self, folder: Path, settings: dict[str, str] | None = None) -> None:
        super().__init__(folder)
        self.broker = BrokerProcess(folder / "data", settings=settings, environment=BYTECODE)

    @property
    def address(self) -> str:
        """Where it listens."""
        return self.broker.listen

    def launch(self) -> None:
        """Start the broker; this returns with its ready line."""
        self.broker.start(ready_within_s=120)

    def pids(self) -> list[int]:
        """Return the broker."""
        return [self.broker.pid] if self.broker.is_running else []

    def is_ready(self) -> bool:
        """Return whether its port is open."""
        return is_listening(self.address)

    def stop(self) -> None:
        """Stop cleanly."""
        self.broker.stop(within_s=60)

    def kill(self) -> None:
        """End it at once."""
        self.broker.kill()


class OttlaCluster(Server):
    """Some brokers and the ZooKeeper that they share, which is measured with them: `ottla serve -n`."""

    version = ottla.__version__

    def __init__(self, folder: Path, settings: dict[str, str] | None = None, *, brokers: int) -> None:
        super().__init__(folder)
        self.name = f"ottla x{brokers}"
        # Sessions as long as Kafka's defaults: no broker dies here, and a busy machine is no dead broker.
        self.cluster = ClusterProcess(
            folder / "data",
            brokers=brokers,
            settings=settings,
            session_timeout_ms=9_000,
            environment=BYTECODE,
        )

    @property
    def address(self) -> str:
        """Where they listen."""
        return self.cluster.bootstrap

    def launch(self) -> None:
        """Start ZooKeeper and the brokers."""
        self.cluster.start_all()

    def pids(self) -> list[int]:
        """Return the brokers and ZooKeeper."""
        running = [broker.pid for broker in self.cluster.running()]
        return [*running, self.cluster.zookeeper.pid] if self.cluster.zookeeper.is_running else running

    def is_ready(self) -> bool:
        """Return whether every broker sees all the others."""
        wait_until(self.cluster.is_in_sync, f"{self.name} to be in sync")
        return True

    def stop(self) -> None:
        """Stop all cleanly."""
        self.cluster.stop_all()

    def kill(self) -> None:
        """End all at once."""
        self.cluster.kill_all()


class ThreeOttlas(OttlaCluster):
    """Three brokers."""

    def __init__(self, folder: Path, settings: dict[str, str] | None = None) -> None:
        super().__init__(folder, settings, brokers=3)
