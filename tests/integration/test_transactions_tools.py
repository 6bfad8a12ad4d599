"""What operators do to transactions: list them, look at them, abort them, find and end one that hangs.

The tool is `ottla txn`; a transaction hangs here because the broker is told not to verify partitions.
"""

from __future__ import annotations

import json
from contextlib import closing, redirect_stderr, redirect_stdout
from io import StringIO
from typing import Any, NamedTuple

import pytest
from kio.schema.errors import ErrorCode
from tests.integration.clients import HasAddress, wait_until
from tests.integration.confluent_client import ConfluentClient
from tests.integration.wire import Wire
from tests.integration.wire_transactions import CLASSIC, WireProducer, fetch_offsets

from ottla.cli.main import run
from ottla.common.ids import new_uuid
from ottla.protocol.api_keys import ApiKey

BROKER_SETTINGS = {
    "transaction.partition.verification.enable": "false",
    "transaction.two.phase.commit.enable": "true",
}
LATEST = -1
OK, UNSTABLE = ErrorCode.none, ErrorCode.unstable_offset_commit


class Outcome(NamedTuple):
    """What a command left behind."""

    code: int
    out: str
    err: str


class Tool:
    """Runs `ottla txn ...` against the broker, in this process."""

    def __init__(self, address: str) -> None:
        self._address = address

    def __call__(self, *args: str) -> Outcome:
        with redirect_stdout(StringIO()) as out, redirect_stderr(StringIO()) as err:
            code = run(["txn", *args, "-b", self._address])
        return Outcome(code, out.getvalue(), err.getvalue())

    def json(self, *args: str) -> Any:
        code, out, err = self(*args, "--format", "json")
        assert code == 0, err
        return json.loads(out)


@pytest.fixture
def tool(broker: HasAddress) -> Tool:
    return Tool(broker.address)


@pytest.fixture
def topic(broker: HasAddress) -> str:
    with closing(ConfluentClient(broker.address)) as client:
        return client.create_topic(f"tools.{new_uuid().hex[:8]}")


@pytest.fixture
def producer(broker: HasAddress) -> Any:
    with WireProducer(broker.address, f"tool-{new_uuid().hex[:8]}", CLASSIC) as opened:
        yield opened.start()


def last_stable_offset(broker: HasAddress, topic: str) -> int:
    with Wire(broker.address) as wire:
        asked = {"partition_index": 0, "current_leader_epoch": -1, "timestamp": LATEST}
        topics = [{"name": topic, "partitions": [asked]}]
        answer = wire.call(ApiKey.LIST_OFFSETS, 7, replica_id=-1, isolation_level=1, topics=topics)
    (partition,) = answer.topics[0].partitions
    assert partition.error_code == ErrorCode.none
    return int(partition.offset)


def test_an_open_transaction_is_listed_described_and_aborted(
    broker: HasAddress, tool: Tool, producer: WireProducer, topic: str
) -> None:
    name = producer.transactional_id
    producer.write((topic, 0), b"a", b"b")
    assert last_stable_offset(broker, topic) == 0
    (listed,) = tool.json("list", "--state", "Ongoing", "--prefix", name)
    assert listed == {
        "transactional_id": name,
        "state": "Ongoing",
        "prepared": False,
        "producer_id": producer.producer_id,
        "coordinator": 1,
    }
    assert tool.json("list", "--longer-than", "1h", "--prefix", name) == []
    assert [each["transactional_id"] for each in tool.json("list", "--match", f"x|{name}")] == [name]
    (described,) = tool.json("describe", name)
    assert described["partitions"] == [{"topic": topic, "partition": 0}]
    assert (described["producer_epoch"], described["timeout_ms"]) == (0, 60_000)
    text = tool("describe", name).out
    assert f"{name}: Ongoing" in text
    assert f"  {topic}-0" in text

    (planned,) = tool.json("abort", name, "--dry-run")
    assert not planned["aborted"]
    assert last_stable_offset(broker, topic) == 0
    (done,) = tool.json("abort", name, "-y")
    assert done["aborted"]
    assert last_stable_offset(broker, topic) == 3
    assert producer.end() == ErrorCode.producer_fenced


def test_a_hanging_transaction_is_found_and_ended(
    broker: HasAddress, tool: Tool, producer: WireProducer, topic: str
) -> None:
    assert producer.produce((topic, 0), b"never added").error_code == ErrorCode.none
    assert tool.json("hanging", "--topic", topic) == []  # too young
    (found,) = tool.json("hanging", "--topic", f"{topic}:0", "--older-than", "0s")
    assert (found["start_offset"], found["producer_id"]) == (0, producer.producer_id)
    assert topic in tool("hanging", "--older-than", "0s").out

    wrong = tool("abort", "--topic", f"{topic}:0", "--start-offset", "7", "-y")
    assert wrong.code == 1
    assert "open transactions start at 0" in wrong.err
    (done,) = tool.json("abort", "--topic", f"{topic}:0", "--start-offset", "0", "-y")
    assert done["aborted"]
    assert last_stable_offset(broker, topic) == 2
    assert tool.json("hanging", "--topic", topic, "--older-than", "0s") == []


def test_an_open_transaction_that_has_a_coordinator_does_not_hang(
    tool: Tool, producer: WireProducer, topic: str
) -> None:
    producer.write((topic, 0), b"x")
    assert tool.json("hanging", "--topic", topic, "--older-than", "0s") == []
    producer.finish()


def test_a_transaction_that_has_a_coordinator_is_not_torn_apart_in_one_partition(
    broker: HasAddress, tool: Tool, producer: WireProducer, topic: str
) -> None:
    """Aborted in one partition by hand, it could still be committed in all others."""
    producer.write((topic, 0), b"x")
    refused = tool("abort", "--topic", f"{topic}:0", "--start-offset", "0", "-y")
    assert refused.code == 1
    assert f"ottla txn abort {producer.transactional_id}" in refused.err
    assert last_stable_offset(broker, topic) == 0
    producer.finish()


def test_offsets_that_hang_are_found_and_ended(
    broker: HasAddress, tool: Tool, producer: WireProducer, topic: str
) -> None:
    """Whoever asks for stable offsets of the group would wait forever."""
    group, offsets = f"g.{topic}", {(topic, 0): 7}
    with Wire(broker.address) as wire:
        asked = {"key_type": 0, "coordinator_keys": [group]}
        wait_until(
            lambda: wire.call(ApiKey.FIND_COORDINATOR, 4, **asked).coordinators[0].error_code == OK, "it"
        )
        wait_until(lambda: producer.commit_offsets(group, offsets) == [OK], "the offsets, never added")
        assert fetch_offsets(wire, group, require_stable=True) == {(topic, 0): UNSTABLE}
        found = tool.json("hanging", "--older-than", "0s")
        (hanging,) = (each for each in found if each["producer_id"] == producer.producer_id)
        at = f"{hanging['topic']}:{hanging['partition']}"
        assert tool("abort", "--topic", at, "--start-offset", str(hanging["start_offset"]), "-y").code == 0
        assert fetch_offsets(wire, group, require_stable=True) == {}


def test_a_producer_without_an_open_transaction_is_left_alone(
    tool: Tool, producer: WireProducer, topic: str
) -> None:
    producer.write((topic, 0), b"x")
    producer.finish()
    (told,) = tool.json("abort", producer.transactional_id, "-y")
    assert (told["state"], told["aborted"]) == ("CompleteCommit", False)
    assert "nothing to abort" in tool("abort", producer.transactional_id, "-y").err
    producer.write((topic, 0), b"y")
    producer.finish()


def test_prepared_transactions_are_listed_by_prefix_and_can_be_aborted(
    broker: HasAddress, tool: Tool, topic: str
) -> None:
    run = new_uuid().hex[:8]
    with WireProducer(broker.address, f"sink/{run}.1", CLASSIC) as sink:
        sink.start(version=6, enable2_pc=True)
        sink.write((topic, 0), b"x")
        prepare = {
            "transactional_id": sink.transactional_id,
            "producer_id": sink.producer_id,
            "producer_epoch": sink.epoch,
        }
        answer = sink.wire.call(ApiKey.PREPARE_TRANSACTION, 0, **prepare)
        assert answer.error_code == ErrorCode.none
    (listed,) = tool.json("list", "--state", "Prepared", "--prefix", f"sink/{run}")
    assert (listed["state"], listed["prepared"]) == ("Ongoing", True)
    assert "no timeout" in tool("describe", sink.transactional_id).out
    assert "Ongoing, prepared" in tool("list", "--prefix", f"sink/{run}").out
    assert tool("abort", sink.transactional_id, "-y").code == 0
    assert last_stable_offset(broker, topic) == 2


def test_mistakes_are_explained(tool: Tool, producer: WireProducer) -> None:
    missing = tool("describe", producer.transactional_id[:-1])
    assert missing.code == 1
    assert f"did you mean: {producer.transactional_id}" in missing.err
    for args in (("abort",), ("abort", "x", "--start-offset", "1"), ("list", "--longer-than", "soon")):
        assert tool(*args).code == 2
    producer_in_lower_case = tool.json("list", "--state", "empty", "--prefix", producer.transactional_id)
    assert [each["state"] for each in producer_in_lower_case] == ["Empty"]
    assert "is not one of" in tool("list", "--state", "Open").err
    assert "'[' is not a valid regular expression" in tool("list", "--match", "[").err
