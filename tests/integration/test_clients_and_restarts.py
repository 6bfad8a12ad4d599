"""Clients that keep running while their broker stops, or is killed, and comes back on the same data."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.integration.clients import Client, NewName, values
from tests.integration.libraries import LIBRARIES

from ottla.testing.broker_process import BrokerProcess


@pytest.fixture(autouse=True)
def own_broker(broker: object) -> BrokerProcess:
    if not isinstance(broker, BrokerProcess):
        pytest.skip("OTTLA_TEST_BOOTSTRAP names the broker, so it is not ours to restart")
    return broker


@pytest.fixture(params=LIBRARIES)
def client(request: pytest.FixtureRequest, own_broker: BrokerProcess) -> Iterator[Client]:
    """Each library in turn, its admin client new: not all of them outlive a broker's absence."""
    opened = LIBRARIES[request.param](own_broker.address)
    yield opened
    opened.close()


def bounce(broker: BrokerProcess, how: str) -> None:
    """End the broker one way or the other, and start it again."""
    if how == "stop":
        broker.stop()
    else:
        broker.kill()
    broker.start()


@pytest.mark.parametrize("how", ["stop", "kill"])
def test_running_clients_carry_on_where_they_were(
    how: str, client: Client, topic: str, own_broker: BrokerProcess
) -> None:
    with client.producer(idempotent=True) as producer, client.consumer() as consumer:
        assert producer.send(topic, values("before", 20)) == list(range(20))
        assert len(consumer.read((topic, 0), 0, 10)) == 10
        bounce(own_broker, how)
        assert producer.send(topic, values("after", 20)) == list(range(20, 40))
        received = consumer.take(30)
    assert [one.offset for one in received] == list(range(10, 40))
    assert [one.value for one in received[10:]] == [one.value for one in values("after", 20)]


@pytest.mark.parametrize("how", ["stop", "kill"])
def test_topics_configs_ids_and_offsets_survive(
    how: str, client: Client, new_name: NewName, own_broker: BrokerProcess
) -> None:
    topic = client.create_topic(new_name(), partitions=3, configs={"retention.ms": "86400000"})
    client.alter_configs("topic", topic, {"segment.bytes": "2000000"})
    with client.producer() as producer:
        producer.send(topic, values("kept", 10))
    client.delete_records((topic, 0), 4)
    before = client.topic_id(topic), client.partition_count(topic), client.configs("topic", topic)

    bounce(own_broker, how)
    again = type(client)(own_broker.address)
    assert (again.topic_id(topic), again.partition_count(topic), again.configs("topic", topic)) == before
    with again.consumer() as consumer:
        assert consumer.end((topic, 0)) == 10
        assert consumer.beginning((topic, 0)) == 4
        assert len(consumer.read((topic, 0), 4, 6)) == 6
    again.close()
