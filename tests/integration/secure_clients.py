"""What every client library does on a secured listener: create a topic, a transaction, read in a group."""

from __future__ import annotations

import asyncio
import time
from typing import Any, Protocol

from tests.integration.secure_stage import Login

DEADLINE_S = 30.0
RECORDS = [b"%d" % number + b"x" * 5_000 for number in range(20)]


class Journey(Protocol):
    """Does it all as one user; returns the records that were read."""

    def __call__(self, login: Login, topic: str) -> list[bytes]: ...


def confluent_options(login: Login) -> dict[str, Any]:
    """Return the options of librdkafka."""
    options: dict[str, Any] = {"bootstrap.servers": login.bootstrap, "security.protocol": login.protocol}
    if login.uses_tls:
        options["ssl.ca.location"] = str(login.certificates.ca)
    if login.certificate is not None:
        options["ssl.certificate.location"] = options["ssl.key.location"] = str(login.certificate)
    if login.mechanism is not None:
        options["sasl.mechanism"] = login.mechanism
        if login.mechanism == "OAUTHBEARER":
            options["oauth_cb"] = lambda _: (login.provider.token(login.user), time.time() + 300)
        else:
            options |= {"sasl.username": login.user, "sasl.password": login.password}
    return options


def confluent(login: Login, topic: str) -> list[bytes]:
    """confluent-kafka."""
    from confluent_kafka import Consumer, Producer
    from confluent_kafka.admin import AdminClient, NewTopic

    options = confluent_options(login)
    admin = AdminClient(options)
    admin.poll(0)
    for future in admin.create_topics([NewTopic(topic, 1)], request_timeout=DEADLINE_S).values():
        future.result(DEADLINE_S)
    producer = Producer({**options, "transactional.id": topic})
    producer.poll(0)
    producer.init_transactions(DEADLINE_S)
    producer.begin_transaction()
    for value in RECORDS:
        producer.produce(topic, value)
    producer.commit_transaction(DEADLINE_S)
    consumer = Consumer({**options, "group.id": topic, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    read: list[bytes] = []
    deadline = time.monotonic() + DEADLINE_S
    while len(read) < len(RECORDS) and time.monotonic() < deadline:
        message = consumer.poll(1.0)
        if message is not None and message.error() is None:
            read.append(message.value())
    consumer.commit(asynchronous=False)
    consumer.close()
    return read


def kafka_python_options(login: Login) -> dict[str, Any]:
    """Return the options of kafka-python."""
    from kafka.net.sasl.oauth import AbstractTokenProvider

    class Provider(AbstractTokenProvider):  # type: ignore[misc]
        def token(self) -> str:
            return login.provider.token(login.user)

    options: dict[str, Any] = {
        "bootstrap_servers": login.bootstrap.split(","),
        "security_protocol": login.protocol,
        "ssl_context": login.context,
    }
    if login.mechanism is not None:
        options["sasl_mechanism"] = login.mechanism
        if login.mechanism == "OAUTHBEARER":
            options["sasl_oauth_token_provider"] = Provider()
        else:
            options |= {"sasl_plain_username": login.user, "sasl_plain_password": login.password}
    return options


def kafka_python(login: Login, topic: str) -> list[bytes]:
    """kafka-python."""
    from kafka import KafkaConsumer, KafkaProducer
    from kafka.admin import KafkaAdminClient, NewTopic

    options = kafka_python_options(login)
    admin = KafkaAdminClient(**options)
    admin.create_topics([NewTopic(topic, 1, 1)])
    admin.close()
    producer = KafkaProducer(**options, transactional_id=topic)
    producer.init_transactions()
    producer.begin_transaction()
    for value in RECORDS:
        producer.send(topic, value)
    producer.commit_transaction()
    producer.close()
    consumer = KafkaConsumer(topic, **options, group_id=topic, auto_offset_reset="earliest")
    read: list[bytes] = []
    deadline = time.monotonic() + DEADLINE_S
    while len(read) < len(RECORDS) and time.monotonic() < deadline:
        for records in consumer.poll(timeout_ms=1000).values():
            read += [record.value for record in records]
    consumer.commit()
    consumer.close()
    return read


def aiokafka(login: Login, topic: str) -> list[bytes]:
    """aiokafka."""
    return asyncio.run(asyncio.wait_for(_aiokafka(login, topic), DEADLINE_S))


async def _aiokafka(login: Login, topic: str) -> list[bytes]:
    from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
    from aiokafka.abc import AbstractTokenProvider
    from aiokafka.admin import AIOKafkaAdminClient, NewTopic

    class Provider(AbstractTokenProvider):  # type: ignore[misc]
        async def token(self) -> str:
            return login.provider.token(login.user)

    options: dict[str, Any] = {
        "bootstrap_servers": login.bootstrap,
        "security_protocol": login.protocol,
        "ssl_context": login.context,
    }
    if login.mechanism is not None:
        options["sasl_mechanism"] = login.mechanism
        if login.mechanism == "OAUTHBEARER":
            options["sasl_oauth_token_provider"] = Provider()
        else:
            options |= {"sasl_plain_username": login.user, "sasl_plain_password": login.password}
    admin = AIOKafkaAdminClient(**options)
    await admin.start()
    await admin.create_topics([NewTopic(topic, 1, 1)])
    await admin.close()
    async with AIOKafkaProducer(**options, transactional_id=topic) as producer, producer.transaction():
        for value in RECORDS:
            await producer.send(topic, value)
    read: list[bytes] = []
    async with AIOKafkaConsumer(
        topic, **options, group_id=topic, auto_offset_reset="earliest", enable_auto_commit=False
    ) as consumer:
        while len(read) < len(RECORDS):
            for records in (await consumer.getmany(timeout_ms=1000)).values():
                read += [record.value for record in records]
        await consumer.commit()
    return read


def ottla_options(login: Login) -> dict[str, Any]:
    """Return the options of our clients."""
    options: dict[str, Any] = {"bootstrap_servers": login.bootstrap, "security_protocol": login.protocol}
    if login.uses_tls:
        options["ssl_cafile"] = str(login.certificates.ca)
    if login.certificate is not None:
        options["ssl_certfile"] = str(login.certificate)
    if login.mechanism is not None:
        options["sasl_mechanism"] = login.mechanism
        if login.mechanism == "OAUTHBEARER":
            options["sasl_oauth_token_provider"] = lambda: login.provider.token(login.user)
        else:
            options |= {"sasl_plain_username": login.user, "sasl_plain_password": login.password}
    return options


def ottla(login: Login, topic: str) -> list[bytes]:
    """Our own clients."""
    from ottla.client import Admin, Consumer, Producer

    options = ottla_options(login)
    with Admin(**options) as admin:
        admin.create_topic(topic, partitions=1)
    with Producer(**options, transactional_id=topic) as producer, producer.transaction():
        for value in RECORDS:
            producer.send(topic, value)
    read: list[bytes] = []
    with Consumer(**options, group_id=topic, auto_offset_reset="earliest") as consumer:
        consumer.subscribe([topic])
        deadline = time.monotonic() + DEADLINE_S
        while len(read) < len(RECORDS) and time.monotonic() < deadline:
            for records in consumer.poll(timeout_ms=1000).values():
                read += [record.value for record in records if record.value is not None]
        consumer.commit()
    return read


JOURNEYS: dict[str, Journey] = {
    "confluent-kafka": confluent,
    "kafka-python": kafka_python,
    "aiokafka": aiokafka,
    "ottla": ottla,
}
