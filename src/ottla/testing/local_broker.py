"""One broker inside the process of a test.

with OttlaBroker() as broker:
    client = AnyClient(bootstrap_servers=broker.bootstrap_servers)
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from ottla.common.ids import TopicPartition
from ottla.testing.local_cluster import LocalCluster

NODE_ID = 1


class OttlaBroker(LocalCluster):
    """A cluster of one broker: `kill`, `stop` and `start` need no node id."""

    def __init__(
        self,
        *,
        folder: Path | None = None,
        settings: Mapping[str, object] | None = None,
        security_protocol: str = "PLAINTEXT",
        **more: object,
    ) -> None:
        settings = {**(settings or {}), **more}
        super().__init__(1, folder=folder, settings=settings, security_protocol=security_protocol)

    def start(self, node_id: int = NODE_ID) -> None:
        """Start the broker again, with its data and its address."""
        super().start(node_id)

    def stop(self, node_id: int = NODE_ID) -> None:
        """Stop the broker cleanly."""
        super().stop(node_id)

    def kill(
        self,
        node_id: int | None = NODE_ID,
        *,
        leader_of: str | tuple[str, int] | TopicPartition | None = None,
    ) -> int:
        """Kill the broker: its connections break."""
        return super().kill(node_id, leader_of=leader_of)

    def restart(self) -> None:
        """Stop the broker cleanly, and start it again."""
        self.stop()
        self.start()
