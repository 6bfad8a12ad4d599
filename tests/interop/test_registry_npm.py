"""The npm clients `@kafkajs/confluent-schema-registry` and `@confluentinc/schemaregistry`, unmodified."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest
from tests.integration.registry_stage import RunningRegistry
from tests.interop.fetch_npm import DONE, NPM_ROOT

from ottla.testing.local_broker import OttlaBroker

SCRIPT = Path(__file__).with_name("registry_clients.cjs")
DEADLINE_S = 120


def test_npm_clients_register_look_up_and_evolve() -> None:
    node = shutil.which("node")
    if node is None or not DONE.exists():
        pytest.skip("needs node and the packages that `make interop` fetches")
    with OttlaBroker() as broker, RunningRegistry(broker.bootstrap_servers) as registry:
        done = subprocess.run(
            [node, str(SCRIPT), registry.url],
            capture_output=True,
            text=True,
            timeout=DEADLINE_S,
            env={**os.environ, "NODE_PATH": str(NPM_ROOT / "node_modules")},
            check=False,
        )
        assert done.returncode == 0, done.stderr
        found = json.loads(done.stdout)
    kafkajs, confluent = found["kafkajs"], found["confluent"]
    first, second = kafkajs["ids"]
    assert second == first + 1
    assert (kafkajs["latest"], kafkajs["found"]) == (second, first)
    assert kafkajs["travelled"] == [{"name": "Ada"}, {"name": "Ada"}, {"value": 7}]
    assert confluent["ids"] == kafkajs["ids"], "the same schema has the same id"
    assert confluent["latest"] == second
    assert confluent["fits"] is False
    assert confluent["level"] == "FULL"
    assert confluent["read"] == {"name": "Ada", "age": 36}
    assert confluent["readText"] == {"name": "Ada"}
    assert confluent["magic"] == 0
    assert set(confluent["subjects"]) == {"cnf-avro", "cnf-value", "cnj-value"}
    assert confluent["deleted"] == [1, 2]
