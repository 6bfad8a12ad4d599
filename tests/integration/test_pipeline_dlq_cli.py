"""`ottla pipeline dlq`: the dead letters of a pipeline, from a real broker."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer

from ottla.client.admin import Admin
from ottla.spark.pipelines.run.state import new_state
from ottla.spark.pipelines.run.storage import open_storage
from ottla.testing.local_broker import OttlaBroker

OTTLA = [sys.executable, "-m", "ottla.cli.main", "pipeline", "dlq"]


@pytest.fixture(scope="module")
def broker() -> Iterator[str]:
    with OttlaBroker() as running:
        with Admin(running.bootstrap_servers) as admin:
            admin.create_topic("dead-orders", partitions=2)
        producer = Producer({"bootstrap.servers": running.bootstrap_servers, "transactional.id": "sink"})
        producer.init_transactions(30)
        for number in range(5):  # a batch each, as a query writes them
            producer.begin_transaction()
            headers = [("ottla.error", f"reason {number}"), ("ottla.source.topic", "orders")]
            headers += [("ottla.source.partition", "1"), ("ottla.source.offset", str(number))]
            at = 1_700_000_000_000 + number
            producer.produce("dead-orders", f"bad {number}", b"k", number % 2, timestamp=at, headers=headers)
            producer.commit_transaction(30)
        producer.begin_transaction()
        producer.produce("dead-orders", "not committed", partition=0)
        producer.flush(30)
        yield running.bootstrap_servers


def dlq(broker: str, root: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [*OTTLA, *arguments, "-b", broker, "--root", str(root)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


def test_the_newest_dead_letters_have_reason_origin_and_value(broker: str, tmp_path: Path) -> None:
    state = new_state("shop", "/p/shop", "", 0)
    state.dead_letters = ["dead-orders"]
    state.write(open_storage(tmp_path, "shop", tmp_path))

    shown = dlq(broker, tmp_path, "shop", "--limit", "2")

    assert shown.returncode == 0, shown.stderr
    assert [line.split("  ")[1:] for line in shown.stdout.splitlines()[1:]] == [
        ["orders-1@3", "reason 3", "k", "", "bad 3"],
        ["orders-1@4", "reason 4", "k", "", "bad 4"],
    ]
    assert "2 dead letters of dead-orders" in shown.stderr
    found = json.loads(dlq(broker, tmp_path, "shop", "--format", "json").stdout)
    assert [each["value"] for each in found] == [f"bad {number}" for number in range(5)]
    assert (found[0]["topic"], found[0]["origin"], found[0]["reason"]) == (
        "dead-orders",
        "orders-1@0",
        "reason 0",
    )


def test_without_dead_letters_it_says_so_and_a_topic_can_be_named(broker: str, tmp_path: Path) -> None:
    new_state("calm", "/p/calm", "", 0).write(open_storage(tmp_path, "calm", tmp_path))
    silent = dlq(broker, tmp_path, "calm")
    assert silent.returncode == 1
    assert "calm writes no dead letters" in silent.stderr
    named = dlq(broker, tmp_path, "calm", "--topic", "dead-orders", "--limit", "1", "--format", "json")
    assert [each["value"] for each in json.loads(named.stdout)] == ["bad 4"]
