"""Our clients against Apache Kafka itself: the tests that they pass against us, in one Kafka, file by file.

Every test of these files that talks to the module's broker talks to Kafka here (see tests/conftest.py). Left
out is what other libraries do, what starts brokers of its own, and what Kafka 4.1 has no request for.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.integration import group_table, transaction_stage
from tests.interop.apache_kafka import ROOT, ApacheKafka
from tests.interop.fetch_jars import KAFKA_JARS

WITHIN_S = 280

SETTINGS = {
    **group_table.BROKER_SETTINGS,
    **transaction_stage.BROKER_SETTINGS,
    "group.consumer.max.session.timeout.ms": "60000",
}
"""What the modules ask of their brokers, all together."""

FILES = {
    "test_clients.py": "ottla",
    "test_clients_and_topics.py": "ottla",
    "test_groups.py": "ottla and not restart and not kill",
    "test_transactions.py": "ottla",
    "test_transactions_fencing.py": "ottla",
    "test_ottla_producer.py": "not wrong_address and not not_there_is_named",
    "test_ottla_consumer.py": "",
    "test_ottla_read_committed.py": "",
    "test_ottla_transactions.py": "",
    "test_admin.py": "not cluster",
}
"""The files of tests/integration, and which of their tests."""


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApacheKafka]:
    if shutil.which("java") is None or not KAFKA_JARS.is_dir():
        pytest.skip("java or Kafka's jars are missing; fetch them with: make interop")
    with ApacheKafka(tmp_path_factory.mktemp("kafka"), properties=SETTINGS) as running:
        yield running


@pytest.mark.parametrize("name", FILES)
def test_what_holds_against_us_holds_against_kafka(kafka: ApacheKafka, name: str) -> None:
    given = {"OTTLA_TEST_BOOTSTRAP": kafka.address, "OTTLA_TEST_DATA": str(kafka.data)}
    path = Path("tests/integration") / name
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(path), "-k", FILES[name]]
    done = subprocess.run(
        command,
        cwd=ROOT,
        env={**os.environ, **given},
        capture_output=True,
        text=True,
        timeout=WITHIN_S,
        check=False,
    )
    assert done.returncode == 0, f"{done.stdout[-12_000:]}\n{done.stderr[-2_000:]}"
