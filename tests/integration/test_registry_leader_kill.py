"""Three brokers, two registry processes that write, and the leader of `_schemas` killed twice."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest
from tests.integration.registry_stage import RunningRegistry

from ottla.testing.local_cluster import LocalCluster

WRITES = 40
DEADLINE_S = 120


class Writer(threading.Thread):
    """Registers schemas at one registry, one after the other, again and again until each is acknowledged."""

    def __init__(self, registry: RunningRegistry, name: str) -> None:
        super().__init__(name=name)
        self.registry = registry
        self.acked: dict[str, tuple[int, str]] = {}
        """Id and text by subject."""
        self.failures = 0

    def run(self) -> None:
        give_up = time.monotonic() + DEADLINE_S
        for number in range(WRITES):
            subject = f"{self.name}-{number}"
            text = f'{{"type":"fixed","name":"F{self.name}{number}","size":{number + 1}}}'
            while time.monotonic() < give_up:
                answer = self._register(subject, text)
                if answer is not None and answer.status == 200:
                    self.acked[subject] = (answer.body["id"], text)
                    break
                self.failures += 1
                time.sleep(0.05)

    def _register(self, subject: str, text: str) -> Any:
        try:
            return self.registry.ask("POST", f"/subjects/{subject}/versions", {"schema": text})
        except OSError:
            return None


@pytest.mark.slow
def test_ids_stay_dense_and_nothing_acknowledged_is_lost_when_leaders_die() -> None:
    with LocalCluster(3, settings={"min.insync.replicas": 2}) as cluster:
        options = {"store_timeout_s": 30.0}
        with (
            RunningRegistry(cluster.bootstrap_servers, **options) as first,
            RunningRegistry(cluster.bootstrap_servers, **options) as second,
        ):
            writers = [Writer(first, "one"), Writer(second, "two")]
            for writer in writers:
                writer.start()
            for at in (8, 24):
                while any(len(each.acked) < at and each.is_alive() for each in writers):
                    time.sleep(0.02)
                killed = cluster.kill(leader_of="_schemas")
                while any(len(each.acked) < at + 8 and each.is_alive() for each in writers):
                    time.sleep(0.02)
                cluster.start(killed)
            for writer in writers:
                writer.join(DEADLINE_S)
            acked = {**writers[0].acked, **writers[1].acked}
            assert len(acked) == 2 * WRITES
            assert sorted(number for number, _ in acked.values()) == list(range(1, 2 * WRITES + 1))
            for registry in (first, second):
                for subject, (number, text) in acked.items():
                    found = registry.ask("GET", f"/subjects/{subject}/versions")
                    assert found.body == [1], f"{subject} was registered more than once"
                    assert registry.ask("GET", f"/schemas/ids/{number}").body["schema"] == text
