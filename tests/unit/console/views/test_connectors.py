"""Settings of connectors: secrets that Kafka Connect does not hide, and what a class does not declare."""

from __future__ import annotations

import json
from typing import Any, cast

import pytest

from ottla.connect.config.keys import HIDDEN
from ottla.console.context import Context
from ottla.console.services.connect_client import ConnectClient
from ottla.console.services.http_json import ServiceRefused
from ottla.console.table import Form, UserError
from ottla.console.views import connectors

STORED = {
    "connector.class": "org.example.Sink",
    "connection.url": "jdbc:db://me:hunter1@db/orders",
    "connection.password": "hunter2",
    "pin": "hunter3",
    "producer.override.linger.ms": "50",
    "consumer.override.sasl.jaas.config": "hunter4",
}
DECLARED = {"connection.url": "STRING", "connection.password": "PASSWORD", "pin": "PASSWORD"}


class KafkaConnect(ConnectClient):
    """Answers as Apache Kafka's: with passwords."""

    def __init__(self) -> None:
        super().__init__("http://127.0.0.1:8083")
        self.sent: list[Any] = []

    async def get(self, *segments: object, **query: object) -> Any:
        if segments[1] != "sink":
            raise ServiceRefused(404, 404, "not found")
        return STORED if segments[-1] == "config" else {"name": "sink", "config": STORED}

    async def status(self, name: str) -> dict[str, Any]:
        return {"connector": {"state": "RUNNING"}, "tasks": []}

    async def maybe(self, *segments: object) -> None:
        return None

    async def plugins(self) -> list[dict[str, Any]]:
        return []

    async def validate(self, plugin: str, config: dict[str, str]) -> dict[str, Any]:
        configs = [
            {"definition": {"name": each, "type": kind}, "value": {}} for each, kind in DECLARED.items()
        ]
        return {"error_count": 0, "configs": configs}

    async def send(self, method: str, body: Any, *segments: object, **query: object) -> dict[str, Any]:
        self.sent.append(body)
        return {}


@pytest.fixture
def kafka_connect(monkeypatch: pytest.MonkeyPatch) -> KafkaConnect:
    found = KafkaConnect()
    monkeypatch.setattr(connectors, "_connect", lambda ctx: found)
    return found


class OfSink:
    """A context of requests about the connector `sink`."""

    def __init__(self) -> None:
        self.params = {"connector": "sink"}

    def query(self, name: str) -> str:
        return "sink" if name == "name" else ""

    def url(self, *segments: object) -> str:
        return "/"


CTX = cast("Context", OfSink())


async def test_secrets_of_a_connector_are_shown_nowhere(kafka_connect: KafkaConnect) -> None:
    for read in (connectors.connector, connectors.configuration):
        shown = json.dumps(await read(CTX))
        assert "hunter" not in shown
        assert "@db/orders" in shown


async def test_a_form_that_is_saved_as_it_is_shown_changes_nothing(kafka_connect: KafkaConnect) -> None:
    page = await connectors.configuration(CTX)
    fields = {f"config.{each['name']}": each["value"] for group in page["groups"].values() for each in group}
    assert fields["config.pin"] == HIDDEN
    form = {"name": "sink", "class": STORED["connector.class"], **fields}
    await connectors.save(CTX, Form(form))
    more = "producer.override.batch.size = 1\n\ntransforms=a=b"
    await connectors.save(CTX, Form({**form, "more": more}))
    assert kafka_connect.sent == [
        STORED,
        {**STORED, "producer.override.batch.size": "1", "transforms": "a=b"},
    ]


async def test_hidden_secrets_are_not_sent_to_another_server(kafka_connect: KafkaConnect) -> None:
    form = {"name": "sink", "class": STORED["connector.class"], "config.pin": HIDDEN}
    for change in ({"config.connection.url": "jdbc:db://evil"}, {"class": "org.example.Other"}):
        with pytest.raises(UserError, match="has changed"):
            await connectors.save(CTX, Form({**form, **change}))
    with pytest.raises(UserError, match="is not a setting"):
        await connectors.save(CTX, Form({**form, "more": "no equals sign"}))
    assert kafka_connect.sent == []
