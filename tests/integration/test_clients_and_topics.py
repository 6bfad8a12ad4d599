"""The other half of the table of `test_clients.py`: topics and configs that change under running clients."""

from __future__ import annotations

import pytest
from tests.integration.clients import (
    Client,
    Consumer,
    Incoming,
    NewName,
    Outgoing,
    Producer,
    Refused,
    refused_with,
    values,
    wait_until,
)

from ottla.protocol import errors


def test_a_topic_grows_while_clients_use_it(
    client: Client, topic: str, producer: Producer, consumer: Consumer
) -> None:
    producer.send(topic, values("before", 2))
    assert len(consumer.read((topic, 0), 0, 2)) == 2

    client.grow_topic(topic, 4)
    wait_until(lambda: producer.partition_count(topic) == 4, "the running producer to see 4 partitions")
    assert producer.send(topic, [Outgoing(b"%d" % index, partition=index) for index in range(4)]) == [
        2,
        0,
        0,
        0,
    ]
    consumer.assign({(topic, 0): 2, (topic, 1): 0, (topic, 2): 0, (topic, 3): 0})
    assert sorted((one.partition, one.offset, one.value) for one in consumer.take(4)) == [
        (0, 2, b"0"),
        (1, 0, b"1"),
        (2, 0, b"2"),
        (3, 0, b"3"),
    ]
    with refused_with(errors.InvalidPartitions):
        client.request_partitions(topic, 3)


@pytest.mark.parametrize("idempotent", [False, True], ids=["plain", "idempotent"])
def test_a_topic_is_deleted_and_recreated_while_clients_use_it(
    idempotent: bool, client: Client, topic: str
) -> None:
    with client.producer(idempotent=idempotent) as producer, client.consumer(reset="earliest") as consumer:
        producer.send(topic, values("old", 20))
        assert len(consumer.read((topic, 0), 0, 20)) == 20
        recreate(client, topic)

        new = values("new", 5)
        assert producer.send(topic, new) == [0, 1, 2, 3, 4]

        # The consumer stands at an offset that is no more. It finds its way into the new topic by itself,
        # to the start or to the end: libraries differ. While it does, it may learn that the topic is gone.
        gone = {errors.UnknownTopicOrPartition.code.value, errors.UnknownTopicId.code.value}
        seen = []
        while not seen and len(new) < 100:
            new += values(f"new after {len(new)}", 1)
            assert producer.send(topic, new[-1:]) == [len(new) - 1]
            seen = poll_despite(gone, consumer)
        assert seen, "the consumer never got a record of the new topic"
        assert [one.value for one in seen] == [new[one.offset].value for one in seen]

        # Told where to start, it reads all of it.
        consumer.seek((topic, 0), 0)
        assert [one.value for one in consumer.take(len(new))] == [one.value for one in new]


def recreate(client: Client, topic: str) -> None:
    """Delete a topic and create it anew; a running client that asks for it meanwhile may create it first."""
    old_id = client.topic_id(topic)
    client.delete_topic(topic)
    wait_until(lambda: client.topic_id(topic) != old_id, "the old topic to be gone")
    try:
        client.request_topic(topic, 1, {})
    except Refused as error:
        if error.code != errors.TopicAlreadyExists.code.value:
            raise
    wait_until(lambda: client.topic_id(topic) not in (None, old_id), "the new topic to be there")
    wait_until(lambda: client.partition_count(topic) == 1, "the new topic to have a leader")


def poll_despite(tolerated: set[int], consumer: Consumer) -> list[Incoming]:
    try:
        return consumer.poll(100, 0.3)
    except Refused as error:
        if error.code not in tolerated:
            raise
        return []


def test_topics_that_cannot_be_are_refused(client: Client, topic: str, new_name: NewName) -> None:
    with refused_with(errors.TopicAlreadyExists):
        client.request_topic(topic, 1, {})
    with refused_with(errors.InvalidTopicException):
        client.request_topic("no spaces please", 1, {})
    with refused_with(errors.InvalidPartitions):
        client.request_topic(new_name(), 0, {})
    with refused_with(errors.InvalidConfig):
        client.request_topic(new_name(), 1, {"no.such.config": "1"})
    with refused_with(errors.UnknownTopicOrPartition):
        client.delete_topic(new_name())


# Configs


def test_topic_configs_are_read_and_altered_and_take_effect_at_once(
    client: Client, topic: str, producer: Producer
) -> None:
    defaults = client.configs("topic", topic)
    assert defaults["cleanup.policy"] == ("delete", "DEFAULT_CONFIG", False)
    assert defaults["retention.ms"] == ("604800000", "DEFAULT_CONFIG", False)
    assert defaults["segment.bytes"] == ("1073741824", "DEFAULT_CONFIG", False)
    assert defaults["max.message.bytes"] == ("1048588", "DEFAULT_CONFIG", False)
    assert defaults["compression.type"] == ("producer", "DEFAULT_CONFIG", False)

    client.alter_configs("topic", topic, {"max.message.bytes": "2000", "retention.ms": "86400000"})
    wait_until(lambda: client.configs("topic", topic)["max.message.bytes"].value == "2000", "the new value")
    altered = client.configs("topic", topic)
    assert altered["max.message.bytes"] == ("2000", "DYNAMIC_TOPIC_CONFIG", False)
    assert altered["retention.ms"] == ("86400000", "DYNAMIC_TOPIC_CONFIG", False)
    assert {key for key in defaults if altered[key] != defaults[key]} == {"max.message.bytes", "retention.ms"}
    with refused_with(errors.MessageTooLarge):
        producer.send(topic, [Outgoing(b"x" * 3_000)])

    client.alter_configs("topic", topic, {"max.message.bytes": None})
    wait_until(lambda: client.configs("topic", topic)["max.message.bytes"].value == "1048588", "the default")
    assert client.configs("topic", topic)["retention.ms"] == ("86400000", "DYNAMIC_TOPIC_CONFIG", False)
    assert producer.send(topic, [Outgoing(b"x" * 3_000)]) == [0]


def test_configs_that_make_no_sense_are_refused(client: Client, topic: str) -> None:
    for key, value in (("retention.mss", "1"), ("retention.ms", "soon"), ("cleanup.policy", "burn")):
        with refused_with(errors.InvalidConfig):
            client.alter_configs("topic", topic, {key: value})
    assert "DYNAMIC_TOPIC_CONFIG" not in {one.source for one in client.configs("topic", topic).values()}


def test_broker_configs_are_read_and_altered_and_are_the_defaults_of_topics(
    client: Client, topic: str
) -> None:
    broker = str(client.broker_id())
    static = client.configs("broker", broker)
    assert static["log.segment.bytes"].value == "1073741824"
    assert static["message.max.bytes"] == ("1048588", "DEFAULT_CONFIG", False)
    assert static["socket.request.max.bytes"].read_only

    def retention() -> tuple[str | None, str, bool]:
        return client.configs("topic", topic)["retention.ms"]

    try:
        client.alter_configs("broker", broker, {"log.retention.ms": "36000000"})
        wait_until(lambda: retention() == ("36000000", "DYNAMIC_BROKER_CONFIG", False), "the new default")
    finally:
        client.alter_configs("broker", broker, {"log.retention.ms": None})
    wait_until(lambda: retention() == ("604800000", "DEFAULT_CONFIG", False), "the old default")
