"""kcat (an older librdkafka, through its simple consumer) against the broker."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable

import pytest
from tests.integration.clients import Client, HasAddress, NewName, Outgoing
from tests.interop.conftest import Tool

Kcat = Callable[..., subprocess.CompletedProcess[str]]
START_MS = 1_700_000_000_000


@pytest.fixture
def run(kcat: Tool, broker: HasAddress) -> Kcat:
    """Run kcat against the broker."""
    return lambda *arguments, **more: kcat("-b", broker.address, *arguments, **more)


def consume(run: Kcat, topic: str, *arguments: str) -> list[str]:
    return run("-C", "-q", "-e", "-t", topic, "-p", "0", *arguments).stdout.splitlines()


def test_metadata_names_the_broker_and_every_partition(
    run: Kcat, client: Client, new_name: NewName, broker: HasAddress
) -> None:
    topic = client.create_topic(new_name(), partitions=3)
    metadata = json.loads(run("-L", "-J", "-t", topic).stdout)
    broker_id = client.broker_id()
    assert metadata["brokers"] == [{"id": broker_id, "name": broker.address}]
    assert metadata["controllerid"] == broker_id
    (described,) = metadata["topics"]
    assert described["topic"] == topic
    assert [one["partition"] for one in described["partitions"]] == [0, 1, 2]
    for partition in described["partitions"]:
        assert partition["leader"] == broker_id
        assert partition["replicas"] == partition["isrs"] == [{"id": broker_id}]


def test_metadata_of_all_topics_lists_this_one(run: Kcat, topic: str) -> None:
    assert topic in {one["topic"] for one in json.loads(run("-L", "-J").stdout)["topics"]}


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_keys_values_and_headers_go_in_and_come_out(codec: str, run: Kcat, topic: str) -> None:
    lines = "".join(f"key {index}:value {index} {'again ' * 50}\n" for index in range(20))
    run("-P", "-t", topic, "-p", "0", "-K", ":", "-z", codec, "-H", "trace=7", text=lines)
    out = consume(run, topic, "-o", "beginning", "-f", "%p %o %k:%s|%h\n")
    assert out == [f"0 {offset} {line}|trace=7" for offset, line in enumerate(lines.splitlines())]


@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_every_kind_of_acks(acks: str, run: Kcat, topic: str) -> None:
    run("-P", "-t", topic, "-p", "0", "-X", f"acks={acks}", text="one\ntwo\n")
    assert run("-C", "-q", "-t", topic, "-p", "0", "-o", "0", "-c", "2").stdout == "one\ntwo\n"


def test_an_idempotent_producer(run: Kcat, topic: str) -> None:
    run("-P", "-t", topic, "-p", "0", "-X", "enable.idempotence=true", text="once\nonly\n")
    assert consume(run, topic, "-o", "beginning") == ["once", "only"]


def test_a_null_value_is_not_an_empty_one(run: Kcat, topic: str) -> None:
    run("-P", "-t", topic, "-p", "0", "-K", ":", "-Z", text="gone:\n")
    run("-P", "-t", topic, "-p", "0", "-K", ":", text="empty:\n")
    assert consume(run, topic, "-o", "beginning", "-f", "%k %S\n") == ["gone -1", "empty 0"]


def test_offsets_are_found_by_name_by_time_and_counted_from_the_end(
    run: Kcat, client: Client, new_name: NewName
) -> None:
    topic = client.create_topic(new_name(), configs={"retention.ms": "-1"})
    with client.producer() as producer:
        producer.send(topic, [Outgoing(b"%d" % at, timestamp_ms=START_MS + at * 1000) for at in range(10)])

    def query(timestamp: int) -> str:
        return run("-Q", "-t", f"{topic}:0:{timestamp}").stdout.strip()

    assert query(-2) == f"{topic} [0] offset 0"
    assert query(-1) == f"{topic} [0] offset 10"
    assert query(START_MS + 2_500) == f"{topic} [0] offset 3"
    assert consume(run, topic, "-o", "-2") == ["8", "9"]
    assert consume(run, topic, "-o", "7") == ["7", "8", "9"]
    between = ("-o", f"s@{START_MS + 4_000}", "-o", f"e@{START_MS + 6_000}")
    assert consume(run, topic, *between) == ["4", "5"]


def test_producing_to_a_topic_that_is_not_there_creates_it(run: Kcat, new_name: NewName) -> None:
    topic = new_name()
    run("-P", "-t", topic, "-p", "0", text="first\n")
    assert consume(run, topic, "-o", "beginning") == ["first"]


def test_a_record_above_the_limit_is_refused(run: Kcat, topic: str) -> None:
    arguments = ("-P", "-t", topic, "-p", "0", "-X", "message.max.bytes=4000000")
    refused = run(*arguments, text="x" * 1_100_000, must_succeed=False)
    assert refused.returncode != 0
    assert "Message size too large" in refused.stderr
