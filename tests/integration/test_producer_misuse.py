"""Our producer in the hands of somebody who uses it wrongly: it says so, and loses nothing."""

from __future__ import annotations

import asyncio
import gc
import subprocess
import sys
import threading
from datetime import UTC, datetime

import numpy as np
import pytest

from ottla.client import Admin, AsyncProducer, Producer, ProducerInterceptor
from ottla.client.errors import TimedOut
from ottla.common.tasks import cancel_and_wait
from ottla.protocol.errors import InvalidTopicException, UnknownTopicOrPartition
from ottla.testing.local_broker import OttlaBroker

SOON_S = 30


@pytest.fixture(scope="module")
def broker():
    with OttlaBroker() as running:
        yield running


@pytest.fixture
def producer(broker):
    with Producer(broker.bootstrap_servers) as made:
        yield made


def test_deliveries_of_the_synchronous_producer_can_be_awaited_on_any_loop(broker):
    async def send(producer):
        delivery = producer.send("awaited", b"x")
        async with asyncio.timeout(SOON_S):
            return (await delivery).offset, (await producer.send("awaited", b"y")).offset

    with Producer(broker.bootstrap_servers, linger_ms=50) as producer:
        assert asyncio.run(send(producer)) == (0, 1)


@pytest.mark.parametrize("call", [lambda p: p.send("calls", b"y").result(), Producer.flush, Producer.close])
def test_a_callback_that_would_wait_for_itself_gets_an_error_and_harms_nothing(producer, call):
    told = []
    has_been_called = threading.Event()

    def on_delivery(metadata, error):
        try:
            call(producer)
        except RuntimeError as problem:
            told.append(str(problem))
        has_been_called.set()

    producer.send("calls", b"x", on_delivery=on_delivery)
    assert has_been_called.wait(SOON_S)
    assert told == ["a callback cannot wait for its own client: it would wait forever"]
    assert producer.send("calls", b"z").result(SOON_S).offset > 0


def test_a_callback_that_is_not_awaited_is_reported(producer, caplog):
    async def on_delivery(metadata, error): ...

    producer.send("calls", b"x", on_delivery=on_delivery)
    producer.flush(SOON_S)
    assert "on_delivery is called, not awaited" in caplog.text


@pytest.mark.parametrize(
    ("given", "error", "words"),
    [
        ({"timestamp_ms": 1.5}, TypeError, "whole number of milliseconds since 1970, not 1.5"),
        ({"timestamp_ms": datetime(2026, 1, 1, tzinfo=UTC)}, TypeError, "whole number of milliseconds"),
        (
            {"headers": [("name", "text")]},
            TypeError,
            "value of a header is bytes or None, not str: encode it",
        ),
        ({"topic": None}, TypeError, "the name of a topic is text, not NoneType"),
        ({"topic": b"refused"}, TypeError, "the name of a topic is text, not bytes"),
        ({"topic": "a b"}, InvalidTopicException, "'a b' cannot be a topic: 1 to 249 of the characters"),
        ({"partition": "0"}, TypeError, "a partition is a whole number, not '0'"),
        ({"partition": 7}, UnknownTopicOrPartition, "refused has no partition 7: it has 1, numbered from 0"),
    ],
)
def test_what_cannot_be_sent_is_refused_at_once_and_the_producer_continues(producer, given, error, words):
    with pytest.raises(error, match=words):
        producer.send(**{"topic": "refused", "value": b"x", **given})
    assert producer.send("refused", b"good").result(SOON_S).topic == "refused"


def test_numbers_of_numpy_are_numbers(broker, producer):
    assert (
        producer.send("numbers", b"x", partition=np.int64(0), timestamp_ms=np.int64(5)).result().timestamp
        == 5
    )
    with Producer(broker.bootstrap_servers, partitioner=lambda key, every, led: np.int32(0)) as other:
        assert other.send("numbers", b"y").result(SOON_S).partition == 0


def test_an_interceptor_that_returns_no_record_loses_none(broker, caplog):
    class Forgetful(ProducerInterceptor):
        def on_send(self, record): ...

    with Producer(broker.bootstrap_servers, interceptors=[Forgetful()]) as producer:
        assert producer.send("forgotten", b"x").result(SOON_S).offset == 0
    assert "on_send must return a ProducerRecord, not None" in caplog.text


def test_a_topic_that_has_grown_takes_records_for_its_new_partitions(broker, producer):
    broker.create_topic("growing", partitions=1)
    producer.send("growing", b"x", partition=0).result(SOON_S)
    with Admin(broker.bootstrap_servers) as admin:
        admin.create_partitions("growing", 3)
    assert producer.send("growing", b"y", partition=2).result(SOON_S).partition == 2


def test_tls_for_a_plaintext_listener_is_explained(broker):
    with (
        Producer(broker.bootstrap_servers, security_protocol="SSL", max_block_ms=200) as producer,
        pytest.raises(TimedOut, match="is it a PLAINTEXT listener"),
    ):
        producer.send("orders", b"x")


@pytest.mark.parametrize("turns", range(0, 24, 2))
async def test_a_producer_whose_closing_is_cancelled_leaves_no_connection(broker, turns):
    producer = AsyncProducer(broker.bootstrap_servers)
    await producer.start()
    await producer.send_and_wait("cancelled", b"x")
    connections = list(producer._core.cluster.connections._open.values())
    closing = asyncio.create_task(producer.close())
    for _ in range(turns):
        await asyncio.sleep(0)
    await cancel_and_wait(closing)
    await producer.close()
    assert connections
    assert not any(each.is_open for each in connections)


@pytest.mark.filterwarnings("error::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_producer_that_was_dropped_delivers_even_where_warnings_are_errors(broker):
    Producer(broker.bootstrap_servers, linger_ms=60_000).send("dropped", b"x")
    gc.collect()
    assert "ottla producer" not in [thread.name for thread in threading.enumerate()]
    broker.topic("dropped").assert_received(b"x")


ENDS = """
import os, sys
from ottla.client import Consumer, Producer, RebalanceListener

forgotten = Producer(sys.argv[1], compression_type="gzip", linger_ms=100)
consumer = Consumer(sys.argv[1], group_id="ended")
consumer.subscribe("listened", listener=RebalanceListener())
while not consumer.assignment():
    consumer.poll(100)
if os.fork() == 0:
    for call in (lambda: forgotten.send("ended", b"child"), consumer.topics):
        try:
            call()
        except RuntimeError as error:
            print(error)
    forgotten.close()
    sys.exit()
os.wait()
for _ in range(20_000):
    forgotten.send("ended", b"x" * 100)
"""


def test_a_program_that_ends_delivers_what_is_compressed_and_a_forked_one_is_reported(broker):
    broker.create_topic("listened")
    ended = subprocess.run(
        [sys.executable, "-c", ENDS, broker.bootstrap_servers], capture_output=True, text=True, timeout=60
    )
    words = "this client was made before a fork; make a new one in each process"
    assert (ended.stdout.splitlines(), ended.stderr, ended.returncode) == ([words] * 2, "", 0)
    with Producer(broker.bootstrap_servers) as producer:
        assert producer.send("ended", b"last").result(SOON_S).offset == 20_000
