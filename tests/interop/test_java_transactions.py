"""Transactions of Kafka's own client, which speaks transaction.version=2, and Kafka's own tools for them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from kio.schema.errors import ErrorCode
from tests.integration.clients import HasAddress, Refused, wait_until
from tests.integration.holding_proxy import HoldingProxy
from tests.integration.transaction_stage import BROKER_SETTINGS, Stage, out
from tests.integration.wire import Wire
from tests.integration.wire_partition import batches, end_offset
from tests.interop.conftest import Tool
from tests.interop.java_transactions import JAVA

from ottla.coordinator.partitions import partition_for
from ottla.coordinator.transaction.transaction import State
from ottla.protocol.api_keys import ApiKey

__all__ = ["BROKER_SETTINGS"]

TRANSACTIONS = "org.apache.kafka.tools.TransactionsCommand"
DUMP = "org.apache.kafka.tools.DumpLogSegments"


@pytest.fixture
def stage(java: Tool, broker: HasAddress) -> Iterator[Stage]:
    with ExitStack() as stack:
        yield Stage(broker, JAVA, stack)


def test_a_java_producer_commits_and_aborts_with_an_epoch_for_every_transaction(stage: Stage) -> None:
    topic, group = stage.topic(2), stage.name()
    producer = stage.producer()
    for number in range(4):
        producer.begin()
        for partition in range(2):
            producer.send(topic, out(b"%d-a" % number, b"%d-b" % number, partition=partition))
        producer.send_offsets(group, {(topic, 0): number})
        if number == 2:
            producer.abort()
        else:
            producer.commit()
    kept = [b"%d-%c" % (number, letter) for number in (0, 1, 3) for letter in b"ab"]
    assert stage.committed(group, (topic, 0)) == [3]
    with Wire(stage.address) as wire:
        wait_until(lambda: end_offset(wire, (topic, 0), 1) == 12, "the last marker")
        epochs = [each.producer_epoch for each in batches(wire, (topic, 0))]
    first = epochs[0]
    assert sorted(set(epochs)) == [first, first + 1, first + 2, first + 3, first + 4]
    assert stage.read(topic, 2) == [kept, kept]


def test_a_java_producer_is_fenced_by_the_next_one(stage: Stage) -> None:
    topic, transactional_id = stage.topic(), stage.name()
    zombie = stage.producer(transactional_id)
    zombie.begin()
    zombie.send(topic, out(b"of-the-dead"))
    heir = stage.producer(transactional_id)
    with pytest.raises(Refused, match=r"Fenced|InvalidProducerEpoch"):
        zombie.commit()
    heir.begin()
    heir.send(topic, out(b"of-the-living"))
    heir.commit()
    assert stage.read(topic) == [[b"of-the-living"]]


@pytest.mark.parametrize("late", ["commit", "abort"])
def test_a_late_end_cannot_touch_the_next_transaction_of_a_java_producer(stage: Stage, late: str) -> None:
    topic = stage.topic()
    with HoldingProxy(stage.address) as proxy:
        producer = stage.producer(through=proxy.address)
        producer.begin()
        producer.send(topic, out(b"first"))
        proxy.hold_next(ApiKey.END_TXN)
        if late == "commit":
            producer.commit()
        else:
            producer.abort()
        producer.begin()
        producer.send(topic, out(b"half"))
        answer = proxy.deliver()
        assert ErrorCode(int.from_bytes(answer[5:7], "big")) == ErrorCode.producer_fenced
        producer.send(topic, out(b"whole"))
        producer.commit()
        producer.close()
    assert stage.read(topic) == [[b"first"] * (late == "commit") + [b"half", b"whole"]]


# The tools


def test_the_tool_lists_describes_and_aborts_transactions(stage: Stage, java: Tool) -> None:
    topic, transactional_id = stage.topic(), stage.name()
    producer = stage.producer(transactional_id)
    producer.begin()
    producer.send(topic, out(b"open"))

    def tool(*arguments: str) -> str:
        return java(TRANSACTIONS, "--bootstrap-server", stage.address, *arguments).stdout

    assert re.search(rf"{re.escape(transactional_id)}\s+\d+\s+\d+\s+Ongoing", tool("list"))
    described = tool("describe", "--transactional-id", transactional_id)
    assert re.search(rf"Ongoing\s+60000\s.*{re.escape(topic)}-0", described), described
    producers = tool("describe-producers", "--topic", topic, "--partition", "0")
    assert re.search(r"^\d+\s+\d+\s+-?\d+\s+0\s+\d+\s+0\s*$", producers, re.M), producers
    tool("abort", "--topic", topic, "--partition", "0", "--start-offset", "0")
    reader = stage.reader()
    wait_until(lambda: reader.end((topic, 0)) == 2, "the abort marker")
    assert stage.read(topic) == [[]]


def test_the_dump_tool_reads_the_state_of_transactions(stage: Stage, java: Tool, broker: HasAddress) -> None:
    topic, transactional_id = stage.topic(), stage.name()
    producer = stage.producer(transactional_id)
    for ends in (producer.commit, producer.abort):
        producer.begin()
        producer.send(topic, out(b"x"))
        ends()
    with Wire(stage.address) as wire:
        wait_until(lambda: end_offset(wire, (topic, 0), 1) == 4, "the last marker")
    count = len(list(broker.data.glob("__transaction_state-*")))
    folder = broker.data / f"__transaction_state-{partition_for(transactional_id, count)}"
    states: list[int] = []

    def is_complete() -> bool:
        text = java(DUMP, "--transaction-log-decoder", "--files", str(folder / f"{0:020}.log")).stdout
        named = rf'"transactionalId":"{re.escape(transactional_id)}".*"transactionStatus":(\d)'
        states[:] = [int(each) for each in re.findall(named, text)]
        return states[-1] == State.COMPLETE_ABORT

    wait_until(is_complete, "the second transaction to be complete", within_s=60)
    once = [State(each).title for each, before in zip(states, [-1, *states], strict=False) if each != before]
    commit, abort = ["PrepareCommit", "CompleteCommit"], ["PrepareAbort", "CompleteAbort"]
    assert once == ["Empty", "Ongoing", *commit, "Ongoing", *abort]
