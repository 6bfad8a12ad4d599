"""The pytest plugin, as users of other clients write their tests with it."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest
from tests.integration.plugin_runs import run_pytest

FORGETS_SOCKETS = ("-W", "ignore::pytest.PytestUnraisableExceptionWarning")
"""kafka-python does not close its sockets to brokers that are gone."""

THREADS_ARE_GONE = """
    import threading
    import pytest

    @pytest.fixture(autouse=True)
    def nothing_is_left():
        before = set(threading.enumerate())
        yield
        left = [each for each in set(threading.enumerate()) - before if each.name.startswith("ottla")]
        assert left == []
"""

CONFLUENT = """
    from confluent_kafka import Consumer, Producer

    def test_produce(ottla_broker):
        producer = Producer({"bootstrap.servers": ottla_broker.bootstrap_servers})
        producer.produce("orders", b"tea", key=b"k")
        ottla_broker.topic("orders").assert_received((b"k", b"tea"))
        producer.flush(10)

    def test_consume(ottla_broker):
        ottla_broker.topic("orders").send("tea")
        consumer = Consumer({"bootstrap.servers": ottla_broker.bootstrap_servers, "group.id": "g",
                             "auto.offset.reset": "earliest"})
        consumer.subscribe(["orders"])
        message = consumer.poll(20)
        assert message.value() == b"tea"
        consumer.close()

    def test_a_leader_dies(ottla_cluster):
        cluster = ottla_cluster(3)
        cluster.create_topic("orders")
        producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "retry.backoff.ms": 20})
        producer.produce("orders", b"1")
        assert producer.flush(10) == 0
        cluster.kill(leader_of="orders")
        producer.produce("orders", b"2")
        assert producer.flush(20) == 0
        cluster.topic("orders").assert_received(b"1", b"2")
"""

KAFKA_PYTHON = """
    from kafka import KafkaConsumer, KafkaProducer

    def test_produce_and_consume(ottla_broker):
        producer = KafkaProducer(bootstrap_servers=ottla_broker.bootstrap_servers)
        producer.send("orders", b"tea").get(20)
        producer.close()
        ottla_broker.topic("orders").assert_received("tea")
        consumer = KafkaConsumer("orders", bootstrap_servers=ottla_broker.bootstrap_servers, group_id="g",
                                 auto_offset_reset="earliest")
        assert next(consumer).value == b"tea"
        consumer.close()

    def test_a_leader_dies(ottla_cluster):
        cluster = ottla_cluster(3)
        cluster.create_topic("orders")
        producer = KafkaProducer(bootstrap_servers=cluster.bootstrap_servers, acks="all", retries=50)
        producer.send("orders", b"1").get(20)
        cluster.kill(leader_of=("orders", 0))
        producer.send("orders", b"2").get(20)
        producer.close()
        cluster.topic("orders").assert_received(b"1", b"2")
"""

AIOKAFKA = """
    from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

    async def test_produce_and_consume(ottla_broker):
        async with AIOKafkaProducer(bootstrap_servers=ottla_broker.bootstrap_servers) as producer:
            sent = await producer.send("orders", b"tea")
            await ottla_broker.topic("orders").assert_received_async(b"tea")
            await sent
        async with AIOKafkaConsumer("orders", bootstrap_servers=ottla_broker.bootstrap_servers, group_id="g",
                                    auto_offset_reset="earliest") as consumer:
            assert (await consumer.getone()).value == b"tea"

    async def test_a_leader_dies(ottla_cluster):
        cluster = ottla_cluster(3)
        cluster.create_topic("orders")
        async with AIOKafkaProducer(bootstrap_servers=cluster.bootstrap_servers, acks="all",
                                    enable_idempotence=True) as producer:
            await producer.send_and_wait("orders", b"1")
            cluster.kill(leader_of="orders")
            await producer.send_and_wait("orders", b"2")
        cluster.topic("orders").assert_received(b"1", b"2")
"""

OTTLA = """
    import pytest
    from ottla.client import Consumer, Producer

    def test_produce_and_consume(ottla_broker):
        with Producer(ottla_broker.bootstrap_servers) as producer:
            producer.send("orders", b"tea")
        ottla_broker.topic("orders").assert_received(b"tea")
        with Consumer(ottla_broker.bootstrap_servers, group_id="g", topics="orders",
                      auto_offset_reset="earliest") as consumer:
            assert next(iter(consumer)).value == b"tea"

    @pytest.mark.ottla(num_partitions=3, data="tmp_path")
    def test_the_marker_sets_the_broker_up(ottla_broker, tmp_path):
        ottla_broker.topic("orders").send("1", partition=2)
        assert (tmp_path / "broker-1" / "orders-2").is_dir()

    @pytest.mark.parametrize("number", range(20))
    def test_brokers_side_by_side(ottla_broker, number):
        ottla_broker.topic("numbers").send(str(number))
        ottla_broker.topic("numbers").assert_received(str(number))
"""


def write_tests(folder: Path, source: str) -> None:
    (folder / "conftest.py").write_text(dedent(THREADS_ARE_GONE))
    (folder / "test_orders.py").write_text(dedent(source))


@pytest.mark.parametrize(
    ("source", "passed", "flags"),
    [(CONFLUENT, 3, ()), (KAFKA_PYTHON, 2, FORGETS_SOCKETS), (AIOKAFKA, 2, ())],
    ids=["confluent", "kafka", "aiokafka"],
)
def test_the_plugin_works_with(source: str, passed: int, flags: tuple[str, ...], tmp_path: Path) -> None:
    write_tests(tmp_path, source)
    run = run_pytest(tmp_path, *flags)
    assert f"{passed} passed" in run.stdout, run.stdout + run.stderr
    assert run.returncode == 0


def test_the_plugin_works_with_our_own_clients_and_with_xdist(tmp_path: Path) -> None:
    write_tests(tmp_path, OTTLA)
    run = run_pytest(tmp_path, "-n", "2")
    assert "22 passed" in run.stdout, run.stdout + run.stderr
    assert run.returncode == 0


def test_a_failure_shows_what_the_topic_holds(tmp_path: Path) -> None:
    write_tests(
        tmp_path,
        """
        def test_wrong(ottla_broker):
            ottla_broker.topic("orders").send("tea", "milk")
            ottla_broker.topic("orders").assert_received("tea", "sugar")
        """,
    )
    run = run_pytest(tmp_path)
    assert run.returncode == 1
    assert "- b'sugar'" in run.stdout
    assert "+ [0:1] b'milk'" in run.stdout
    assert "topic_probe.py" not in run.stdout.split("short test summary")[0].split("def test_wrong")[1]


def test_the_plugin_itself_imports_nothing_of_the_broker(tmp_path: Path) -> None:
    write_tests(
        tmp_path,
        """
        import sys

        def test_light():
            heavy = ("ottla.broker", "ottla.client", "kio")
            assert not [each for each in sys.modules if each.startswith(heavy)]
        """,
    )
    run = run_pytest(tmp_path)
    assert run.returncode == 0, run.stdout
