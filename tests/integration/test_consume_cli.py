"""`ottla consume` with a group, several topics and regular expressions, against a real broker."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from ottla.client.admin import Admin
from ottla.testing.local_broker import OttlaBroker

OTTLA = [sys.executable, "-m", "ottla.cli.main"]


@pytest.fixture(scope="module")
def broker() -> Iterator[str]:
    with OttlaBroker() as running:
        with Admin(running.bootstrap_servers) as admin:
            for name in ("orders-eu", "orders-us", "users"):
                admin.create_topic(name, partitions=2)
        producer = Producer({"bootstrap.servers": running.bootstrap_servers})
        for number in range(6):
            producer.produce("orders-eu", f"eu{number}", partition=number % 2)
            producer.produce("orders-us", f"us{number}", partition=number % 2)
            producer.produce("users", f"user{number}", partition=number % 2)
        producer.flush()
        yield running.bootstrap_servers


def consume(broker: str, *arguments: str) -> list[str]:
    done = subprocess.run(
        [*OTTLA, "consume", *arguments, "-b", broker, "--format", "%v\\n"],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return sorted(done.stdout.splitlines())


def test_several_topics_and_patterns(broker: str) -> None:
    assert len(consume(broker, "orders-eu", "users", "--from-beginning", "--exit")) == 12
    both = consume(broker, "orders-.*", "--regex", "--from-beginning", "--exit")
    assert both == sorted([f"eu{n}" for n in range(6)] + [f"us{n}" for n in range(6)])


def test_a_group_continues_where_it_was_and_other_clients_see_its_offsets(broker: str) -> None:
    first = consume(broker, "users", "--group", "cli", "--from-beginning", "-n", "4")
    rest = consume(broker, "users", "--group", "cli", "--from-beginning", "--exit")
    assert sorted(first + rest) == [f"user{n}" for n in range(6)]
    reader = Consumer({"bootstrap.servers": broker, "group.id": "cli"})
    committed = reader.committed([TopicPartition("users", each) for each in (0, 1)])
    reader.close()
    assert [each.offset for each in committed] == [3, 3]


def test_aborted_records_are_left_out_on_request(broker: str) -> None:
    producer = Producer({"bootstrap.servers": broker, "transactional.id": "t"})
    producer.init_transactions()
    for value, commits in (("kept", True), ("dropped", False)):
        producer.begin_transaction()
        producer.produce("ledger", value)
        producer.flush()
        if commits:
            producer.commit_transaction()
        else:
            producer.abort_transaction()
    assert consume(broker, "ledger", "--from-beginning", "--exit") == ["dropped", "kept"]
    assert consume(broker, "ledger", "--from-beginning", "--exit", "--isolation", "committed") == ["kept"]
