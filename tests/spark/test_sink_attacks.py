"""The sink against late tasks, second drivers and brokers that restart; a real broker, no Spark."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from threading import Timer
from typing import Any

import pyarrow as pa
import pytest
from tests.integration.clients import wait_until
from tests.spark.topics import Topics, numbers

from ottla.client.errors import ClientError
from ottla.client.producer.partitioners import partition_of
from ottla.common.ids import new_uuid
from ottla.protocol.errors import KafkaError, PolicyViolation
from ottla.spark.errors import SparkError, Superseded, TransactionLost
from ottla.spark.sink import crash_points, row_encoder
from ottla.spark.sink.committing import abort_batch, commit_batch
from ottla.spark.sink.decision_log import PARTITIONS, TOPIC
from ottla.spark.sink.decisions import SinkKey
from ottla.spark.sink.rows import Layout
from ottla.spark.sink.writing import (
    SinkOptions,
    Target,
    TaskCommitMessage,
    read_sink_options,
    write_exactly_once,
)
from ottla.spark.worker import TaskInfo
from ottla.testing.local_broker import OttlaBroker

Hook = Callable[[], None]


class Driver:
    """One run of a query: what its tasks and its driver do, over connections of their own."""

    def __init__(self, address: str, topic: str, query_id: str, run_id: str, **options: str) -> None:
        self.key = SinkKey(query_id)
        self.run_id = run_id
        self.topic = topic
        given = {"kafka.bootstrap.servers": address, "topic": topic, "kafka.client.id": run_id, **options}
        self.options: SinkOptions = read_sink_options(given)

    def task(
        self, values: Sequence[str], *, batch: int = 0, partition: int = 0, attempt: int = 0, rows: Any = None
    ) -> TaskCommitMessage:
        place = TaskInfo(self.key.query_id, batch, self.run_id, partition, attempt, False)
        target = Target(self.key, batch, self.run_id, "stream")
        layout = Layout({"value": 0, "key": 0}, self.topic)
        return write_exactly_once(rows or iter([table(values)]), target, layout, self.options, place)

    def commit(self, *written: TaskCommitMessage) -> None:
        commit_batch(written, self.options)

    def abort(self, *written: TaskCommitMessage) -> None:
        abort_batch(written, self.options)


def forget(key: SinkKey, topics: Topics) -> None:
    """Delete what the decision log holds of a sink."""
    for entry in ("owner", "decision"):
        name, at = f"{key}/{entry}".encode(), partition_of(str(key).encode(), PARTITIONS)
        topics.producer.send(TOPIC, None, key=name, partition=at)
    topics.producer.flush()


def table(values: Sequence[str]) -> pa.RecordBatch:
    return pa.record_batch({"value": pa.array(values)})


@pytest.fixture
def topics(ottla_broker: OttlaBroker) -> Iterator[Topics]:
    with Topics(ottla_broker.bootstrap_servers) as opened:
        yield opened


@pytest.fixture
def drive(topics: Topics) -> Callable[..., Driver]:
    topic, query_id = topics.create("out"), new_uuid().hex
    return lambda run_id="run", **options: Driver(topics.address, topic, query_id, run_id, **options)


@pytest.fixture
def at(monkeypatch: pytest.MonkeyPatch) -> Callable[[str, Hook], None]:
    """Has something else happen when a task or driver first reaches a point."""

    def set_hook(point: str, hook: Hook) -> None:
        hooks = [hook]

        def reached(here: str, batch_id: int, query_id: str) -> None:
            if here == point and hooks:
                hooks.pop()()

        monkeypatch.setattr(crash_points, "reached", reached)

    return set_hook


def test_a_late_task_leaves_what_is_decided_and_not_yet_committed(
    drive: Callable[..., Driver], topics: Topics, at: Callable[[str, Hook], None]
) -> None:
    driver, zombie = drive(), drive(**{"kafka.client.id": "zombie"})
    written = driver.task(numbers(0, 5), attempt=1)
    late: list[TaskCommitMessage] = []
    at(crash_points.AFTER_DECISION, lambda: late.append(zombie.task(numbers(0, 5))))
    driver.commit(written)
    assert late[0].is_decided
    assert late[0].transaction is None
    assert topics.values(driver.topic) == numbers(0, 5)
    assert topics.open_transactions() == []


def test_a_task_that_was_asleep_while_its_batch_was_decided_writes_nothing(
    drive: Callable[..., Driver], topics: Topics, at: Callable[[str, Hook], None]
) -> None:
    driver, zombie = drive(), drive(**{"kafka.client.id": "zombie"})
    at(crash_points.BEFORE_INIT, lambda: driver.commit(driver.task(numbers(0, 5), attempt=1)))
    late = zombie.task(numbers(0, 5))
    assert late.is_decided
    assert late.transaction is None
    assert topics.values(driver.topic) == numbers(0, 5)
    assert topics.open_transactions() == []


def test_a_late_task_between_decision_and_end_commits_what_it_finds(
    drive: Callable[..., Driver], topics: Topics, at: Callable[[str, Hook], None]
) -> None:
    driver, zombie = drive(), drive(**{"kafka.client.id": "zombie"})
    late: list[TaskCommitMessage] = []

    def while_the_zombie_sleeps() -> None:
        written = driver.task(numbers(0, 5), attempt=1)
        with pytest.MonkeyPatch.context() as patch:  # the driver dies behind its decision
            patch.setattr("ottla.spark.sink.committing.end_transactions", _dies)
            with pytest.raises(DriverDied):
                driver.commit(written)

    at(crash_points.BEFORE_INIT, while_the_zombie_sleeps)
    late.append(zombie.task(numbers(0, 5)))
    assert late[0].is_decided
    assert topics.values(driver.topic) == numbers(0, 5)
    again = drive("run-2")
    again.commit(again.task(numbers(0, 5)))
    assert topics.values(driver.topic) == numbers(0, 5)
    assert topics.open_transactions() == []


class DriverDied(Exception):
    pass


async def _dies(*_: object, **__: object) -> None:
    raise DriverDied


def test_a_late_task_before_the_decision_makes_the_batch_fail_not_lose(
    drive: Callable[..., Driver], topics: Topics, at: Callable[[str, Hook], None]
) -> None:
    driver, zombie = drive(), drive(**{"kafka.client.id": "zombie"})
    driver.commit(driver.task(numbers(0, 5)))  # not the first batch of this driver
    written = driver.task(numbers(5, 10), batch=1, attempt=1)
    late: list[TaskCommitMessage] = []
    at(crash_points.BEFORE_DECISION, lambda: late.append(zombie.task(numbers(5, 10), batch=1)))
    with pytest.raises(TransactionLost):
        driver.commit(written)
    driver.abort(written)
    assert topics.values(driver.topic) == numbers(0, 5)
    again = drive("run-2")
    again.commit(again.task(numbers(5, 10), batch=1))
    assert topics.values(driver.topic) == numbers(0, 10)
    assert topics.open_transactions() == []


def test_of_two_drivers_on_a_checkpoint_one_continues_and_nothing_is_doubled(
    drive: Callable[..., Driver], topics: Topics
) -> None:
    old, new = drive("old"), drive("new")
    old.commit(old.task(numbers(0, 5)))
    of_old = old.task(numbers(5, 10), batch=1)
    of_new = new.task(numbers(5, 10), batch=1)
    with pytest.raises(Superseded):
        old.commit(of_old)
    old.abort(of_old)  # as Spark does: it must not touch what the other one has prepared
    new.commit(of_new)
    with pytest.raises(Superseded):
        old.task(numbers(10, 15), batch=2)
    new.commit(new.task(numbers(10, 15), batch=2))
    assert topics.values(new.topic) == numbers(0, 15)
    assert topics.open_transactions() == []


def test_an_abort_after_a_commit_that_took_effect_changes_nothing(
    drive: Callable[..., Driver], topics: Topics
) -> None:
    driver = drive()
    written = [driver.task(numbers(5 * each, 5 * each + 5), partition=each) for each in range(2)]
    driver.commit(*written)
    driver.abort(*written)
    driver.commit(*written)  # answered, and the answer lost
    assert topics.values(driver.topic) == numbers(0, 10)
    assert topics.open_transactions() == []


@pytest.mark.ottla(data="tmp_path")
def test_a_broker_that_restarts_between_prepare_and_decision_forgets_nothing(
    drive: Callable[..., Driver], topics: Topics, ottla_broker: OttlaBroker
) -> None:
    driver = drive()
    written = driver.task(numbers(0, 5))
    ottla_broker.kill()
    soon = Timer(1, ottla_broker.start)  # while the driver waits for it, over a connection of its own
    soon.start()
    try:
        drive("run", **{"kafka.client.id": "another"}).commit(written)
    finally:
        soon.join()
    assert topics.values(driver.topic) == numbers(0, 5)
    ottla_broker.kill()
    soon = Timer(1, ottla_broker.start)
    soon.start()
    try:
        late = drive("run", **{"kafka.client.id": "a new worker"}).task(numbers(5, 10), batch=1)
    finally:
        soon.join()
    driver.commit(late)
    assert topics.values(driver.topic) == numbers(0, 10)
    assert topics.open_transactions() == []


@pytest.mark.ottla(**{"transaction.abort.timed.out.transaction.cleanup.interval.ms": 50})
def test_a_task_that_takes_longer_than_its_transaction_may_fails(
    drive: Callable[..., Driver], topics: Topics, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(row_encoder, "BYTES_AT_ONCE", 1)  # rows are sent as they come
    slow = drive(**{"kafka.transaction.timeout.ms": "300", "kafka.batch.size": "1", "kafka.linger.ms": "0"})

    def states() -> list[str]:
        found = topics.admin.list_transactions()
        return [each.state for each in found if each.transactional_id.startswith("spark/")]

    def rows() -> Iterator[pa.RecordBatch]:
        yield table(numbers(0, 5))
        yield table(numbers(5, 10))
        wait_until(lambda: states() == ["CompleteAbort"], "the broker to give it up")
        yield table(numbers(10, 15))

    with pytest.raises((KafkaError, ClientError, SparkError)):
        slow.task([], rows=rows())
    driver = drive("run-2")
    driver.commit(driver.task(numbers(0, 15)))
    assert topics.values(driver.topic) == numbers(0, 15)
    assert topics.open_transactions() == []


def test_without_the_decisions_a_query_continues(drive: Callable[..., Driver], topics: Topics) -> None:
    driver = drive()
    driver.commit(driver.task(numbers(0, 5)))
    with pytest.raises(PolicyViolation, match="would be lost or written twice"):
        topics.admin.delete_topic(TOPIC)
    forget(driver.key, topics)
    again = drive("run-2")
    again.commit(again.task(numbers(5, 10), batch=1))
    again.commit(again.task(numbers(10, 15), batch=2))
    assert topics.values(driver.topic) == numbers(0, 15)
    assert topics.open_transactions() == []


def test_fewer_tasks_after_a_restart_leave_no_transaction_of_the_others_open(
    drive: Callable[..., Driver], topics: Topics
) -> None:
    first = drive()
    for each in range(3):
        first.task(numbers(5 * each, 5 * each + 5), partition=each)  # and then the driver dies
    again = drive("run-2")
    again.commit(again.task(numbers(0, 15)))
    assert topics.values(first.topic) == numbers(0, 15)
    assert topics.open_transactions() == []
