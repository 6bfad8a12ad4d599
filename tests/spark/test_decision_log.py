"""Who may decide, against a real broker, and what an operator does when a driver stays away; no Spark."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator

import pytest
from click.testing import CliRunner
from tests.spark.topics import Topics

from ottla.cli.main import ottla
from ottla.client import Producer
from ottla.client.cluster import Cluster
from ottla.client.producer.options import ProducerOptions
from ottla.common.clock import SystemClock
from ottla.spark.errors import Superseded
from ottla.spark.sink.decision_log import DecisionLog
from ottla.spark.sink.decisions import Decision, Prepared, SinkKey
from ottla.testing.local_broker import OttlaBroker

KEY = SinkKey("query")


def decision(batch_id: int, run_id: str, *transactions: Prepared) -> Decision:
    return Decision(batch_id, run_id, "writer", transactions)


@pytest.fixture
async def cluster(ottla_broker: OttlaBroker) -> AsyncIterator[Cluster]:
    options = ProducerOptions(ottla_broker.bootstrap_servers)
    async with Cluster(options=options) as opened:
        yield opened


def new_log(cluster: Cluster) -> DecisionLog:
    """What another process has: the same broker, nothing remembered."""
    options = ProducerOptions([str(each) for each in cluster.bootstrap])
    return DecisionLog(cluster, options, SystemClock())


async def test_what_is_decided_is_known_to_every_process(cluster: Cluster) -> None:
    driver, task = new_log(cluster), new_log(cluster)
    assert (await task.owned(KEY, "run")).decision is None
    for batch_id in range(3):
        await driver.decide(KEY, decision(batch_id, "run"))
        assert (await task.current(KEY)).decision == decision(batch_id, "run")
    assert (await new_log(cluster).current(KEY)).decision == decision(2, "run")
    assert (await task.current(SinkKey("query", "other"))).decision is None


async def test_a_run_that_was_taken_over_decides_nothing(cluster: Cluster) -> None:
    old, new = new_log(cluster), new_log(cluster)
    await old.owned(KEY, "old")
    await old.decide(KEY, decision(0, "old"))
    assert (await new.owned(KEY, "new")).decision == decision(0, "old")
    with pytest.raises(Superseded):
        await old.decide(KEY, decision(1, "old"))
    with pytest.raises(Superseded):
        await old.owned(KEY, "old")
    assert (await new.current(KEY)).decision == decision(0, "old")
    await new.decide(KEY, decision(1, "new"))


async def test_workers_of_one_run_may_take_the_sink_from_its_driver(cluster: Cluster) -> None:
    driver = new_log(cluster)
    await driver.owned(KEY, "run")
    await driver.decide(KEY, decision(0, "run"))
    await new_log(cluster).take(KEY, "run")
    await driver.decide(KEY, decision(1, "run"))
    assert (await new_log(cluster).current(KEY)).decision == decision(1, "run")


async def test_a_decision_survives_the_broker(cluster: Cluster, ottla_broker: OttlaBroker) -> None:
    log = new_log(cluster)
    await log.owned(KEY, "run")
    await log.decide(KEY, decision(0, "run"))
    ottla_broker.restart()
    await log.decide(KEY, decision(1, "run"))
    assert (await new_log(cluster).current(KEY)).decision == decision(1, "run")


async def test_an_operator_ends_what_a_lost_driver_has_left(
    cluster: Cluster, ottla_broker: OttlaBroker
) -> None:
    address = ottla_broker.bootstrap_servers
    with Topics(address) as topics:
        topic = topics.create(partitions=1)
        prepared = [_prepare(address, topic, index) for index in range(2)]
        log = new_log(cluster)
        await log.owned(KEY, "run")
        await log.decide(KEY, decision(0, "run", prepared[0]))

        def command(*more: str) -> list[dict[str, object]]:
            result = CliRunner().invoke(ottla, ["txn", "spark", "-b", address, "--format", "json", *more])
            assert result.exit_code == 0, result.output
            found: list[dict[str, object]] = json.loads(result.output)
            return found

        listed = await asyncio.to_thread(command)
        assert [(each["transactional_id"], each["end"]) for each in listed] == [
            ("spark/query/0", "commit"),
            ("spark/query/1", "abort"),
        ]
        assert len(topics.open_transactions()) == 2
        await asyncio.to_thread(command, "--query", "query", "--end")
        assert topics.open_transactions() == []
        assert topics.values(topic) == ["0"]


def _prepare(address: str, topic: str, index: int) -> Prepared:
    options = {"transactional_id": KEY.transactional_id(index), "transaction_two_phase_commit_enable": True}
    with Producer(address, **options) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send(topic, str(index).encode())
        return Prepared(KEY.transactional_id(index), *producer.prepare_transaction())
