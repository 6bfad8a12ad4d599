"""kill -9 while topics are created, deleted and altered: what was acknowledged is so after the restart.

What was not acknowledged may have happened or not, but wholly.
"""

from __future__ import annotations

import random
import time
from concurrent.futures import Future, wait
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import AlterConfigOpType, ConfigEntry, ConfigResource
from confluent_kafka.cimpl import NewPartitions, NewTopic
from tests.cluster.load import DEADLINE_S, client_config
from tests.cluster.reading import Reader
from tests.cluster.seeds import seeded

from ottla.testing.broker_process import BrokerProcess

KILLS = 12
NAMES = [f"topic-{number}" for number in range(12)]
ALTERED = "retention.ms"


@dataclass(frozen=True)
class Topic:
    """What a client can know of a topic; no partitions: there is none."""

    partitions: int = 0
    retention_ms: str | None = None


ABSENT = Topic()


@dataclass
class Model:
    """What each topic may look like now: one thing for sure, or two if a change is in flight."""

    may_be: dict[str, set[Topic]] = field(default_factory=lambda: {name: {ABSENT} for name in NAMES})
    under_way: dict[str, tuple[Topic, Future[Any]]] = field(default_factory=dict)

    def settle(self) -> int:
        """Take note of the acknowledgements that have come; return how many that were."""
        acknowledged = 0
        for name, (after, future) in list(self.under_way.items()):
            if future.done():
                del self.under_way[name]
                if future.exception() is None:
                    self.may_be[name] = {after}
                    acknowledged += 1
                else:
                    self.may_be[name].add(after)
        return acknowledged

    def crash(self) -> None:
        """Changes still in flight may have happened or not."""
        for name, (after, _) in self.under_way.items():
            self.may_be[name].add(after)

    def calm_down(self) -> None:
        """Wait until no request is in flight: librdkafka retries requests to a dead broker."""
        _, late = wait([future for _, future in self.under_way.values()], DEADLINE_S)
        assert not late
        self.under_way.clear()


class Administrator:
    """Changes topics, many at once, each at most once at a time."""

    def __init__(self, address: str) -> None:
        self._admin = AdminClient(client_config(address))

    def change_something(self, model: Model, choose: random.Random) -> None:
        idle = [name for name in NAMES if name not in model.under_way and len(model.may_be[name]) == 1]
        if not idle:
            return
        name = choose.choice(idle)
        (now,) = model.may_be[name]
        after, future = self._change(name, now, choose)
        model.under_way[name] = (after, future)

    def _change(self, name: str, now: Topic, choose: random.Random) -> tuple[Topic, Future[Any]]:
        value = str(choose.randrange(10**9, 10**12))
        if now == ABSENT:
            after = Topic(choose.randint(1, 5), value)
            new = NewTopic(name, after.partitions, 1, config={ALTERED: value})
            return after, self._admin.create_topics([new], request_timeout=5)[name]
        match choose.choice(["delete", "alter", "grow"]):
            case "delete":
                return ABSENT, self._admin.delete_topics([name], request_timeout=5)[name]
            case "alter":
                entry = ConfigEntry(ALTERED, value, incremental_operation=AlterConfigOpType.SET)
                resource = ConfigResource("topic", name, incremental_configs=[entry])
                futures = self._admin.incremental_alter_configs([resource], request_timeout=5)
                return Topic(now.partitions, value), futures[resource]
            case _:
                wanted = Topic(now.partitions + 1, now.retention_ms)
                more = NewPartitions(name, wanted.partitions)
                return wanted, self._admin.create_partitions([more], request_timeout=5)[name]

    def observe(self) -> dict[str, Topic]:
        """Return what the broker says of every topic of ours."""
        listed = self._admin.list_topics(timeout=DEADLINE_S).topics
        there = [name for name in NAMES if name in listed]
        resources = [ConfigResource("topic", name) for name in there]
        configs = {
            resource.name: future.result(DEADLINE_S)[ALTERED].value
            for resource, future in (self._admin.describe_configs(resources) if resources else {}).items()
        }
        return {
            name: Topic(len(listed[name].partitions), configs[name]) if name in there else ABSENT
            for name in NAMES
        }


@pytest.mark.slow
def test_what_was_acknowledged_of_topics_and_configs_survives_kills(tmp_path: Path) -> None:
    choose = seeded()
    model = Model()
    acknowledged = 0
    with BrokerProcess(tmp_path / "data") as broker:
        administrator = Administrator(broker.address)
        for kill in range(1, KILLS + 1):
            end = time.monotonic() + choose.uniform(0.05, 0.5)
            while time.monotonic() < end:
                administrator.change_something(model, choose)
                acknowledged += model.settle()
            broker.kill()
            model.settle()
            model.crash()
            broker.start()
            model.calm_down()
            for name, seen in administrator.observe().items():
                assert seen in model.may_be[name], f"{name} after kill {kill}"
                model.may_be[name] = {seen}
            assert_directories_match(broker.data, model)
            assert_every_partition_takes_records(broker.address, model)
    print(f"{acknowledged} changes acknowledged")
    assert acknowledged > KILLS // 2  # fewer on a machine with little time
    assert "Traceback" not in broker.stderr_path.read_text()


def assert_directories_match(data: Path, model: Model) -> None:
    """Each partition has its directory, and deleted topics have none that would be opened again."""
    expected = {f"{name}-{index}" for name in NAMES for index in range(*partition_range(model, name))}
    directories = {path.name for path in data.iterdir() if path.is_dir()}
    assert expected <= directories
    assert {name for name in directories - expected if not name.endswith(("-delete", "-stray"))} == set()


def partition_range(model: Model, name: str) -> tuple[int]:
    (topic,) = model.may_be[name]
    return (topic.partitions,)


def assert_every_partition_takes_records(address: str, model: Model) -> None:
    failures: list[object] = []
    producer = Producer(client_config(address, {"linger.ms": 0}))
    for name in NAMES:
        for index in range(*partition_range(model, name)):
            producer.produce(
                name,
                b"still alive",
                partition=index,
                on_delivery=lambda error, _: failures.append(error) if error else None,
            )
    assert producer.flush(DEADLINE_S) == 0
    assert failures == []


def test_records_that_were_deleted_on_request_stay_deleted_after_a_kill(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path / "data") as broker:
        admin = AdminClient(client_config(broker.address))
        admin.create_topics([NewTopic("t", 1, 1)])["t"].result(DEADLINE_S)
        producer = Producer(client_config(broker.address))
        for number in range(100):
            producer.produce("t", b"%d" % number, partition=0)
        assert producer.flush(DEADLINE_S) == 0
        deleted = admin.delete_records([TopicPartition("t", 0, 42)])
        assert [future.result(DEADLINE_S).low_watermark for future in deleted.values()] == [42]
        broker.kill()
        broker.start()
        with Reader(broker.address) as reader:
            assert reader.ends(("t", 0)) == (42, 100)
            records = reader.read({("t", 0): 42})[("t", 0)]
        assert records == [(number, b"%d" % number) for number in range(42, 100)]


def test_a_topic_that_is_deleted_and_made_again_has_none_of_the_old_records_after_a_kill(
    tmp_path: Path,
) -> None:
    choose = seeded()
    # A producer of librdkafka that looks for its topics would make the deleted one again.
    with BrokerProcess(tmp_path / "data", settings={"auto.create.topics.enable": "false"}) as broker:
        admin = AdminClient(client_config(broker.address))
        producer = Producer(client_config(broker.address))
        for life in range(6):
            admin.create_topics([NewTopic("t", 3, 1)])["t"].result(DEADLINE_S)
            for index in range(3):
                for _ in range(life + 1):
                    producer.produce("t", b"life %d" % life, partition=index)
            assert producer.flush(DEADLINE_S) == 0
            if choose.random() < 0.5:
                broker.kill()
                broker.start()
            with Reader(broker.address) as reader:
                found = reader.read({("t", index): 0 for index in range(3)})
            assert [[value for _, value in each] for each in found.values()] == [
                [b"life %d" % life] * (life + 1)
            ] * 3
            admin.delete_topics(["t"])["t"].result(DEADLINE_S)
            if choose.random() < 0.5:
                broker.kill()
                broker.start()
            assert "t" not in admin.list_topics(timeout=DEADLINE_S).topics
