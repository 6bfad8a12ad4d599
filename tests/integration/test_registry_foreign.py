"""A topic of schemas that another registry wrote: Karapace's way to write keys, values and schemas."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from tests.integration.registry_stage import RunningRegistry

from ottla.client import Admin, Producer
from ottla.testing.local_broker import OttlaBroker

# As `json.dumps(..., sort_keys=True)` writes them, not as Avro's libraries do.
ORDER = '{"fields":[{"name":"id","type":"long"}],"name":"Order","namespace":"shop","type":"record"}'
BASKET = (
    '{"fields":[{"name":"order","type":"shop.Order"}],"name":"Basket","namespace":"shop","type":"record"}'
)
ORDER_TYPE = {
    "type": "record",
    "name": "Order",
    "namespace": "shop",
    "fields": [{"name": "id", "type": "long"}],
}


def schema(subject: str, version: int, schema_id: int, text: str, **more: Any) -> tuple[Any, Any]:
    key = {"keytype": "SCHEMA", "subject": subject, "version": version, "magic": 1}
    value = {"subject": subject, "version": version, "id": schema_id, "deleted": False, "schema": text}
    return key, {**value, **more}


RECORDS = [
    ({"keytype": "NOOP", "magic": 0}, None),
    schema("orders-value", 1, 1, ORDER),
    schema(
        "baskets-value",
        1,
        2,
        BASKET,
        references=[{"name": "shop.Order", "subject": "orders-value", "version": 1}],
    ),
    schema("gone-value", 1, 3, '"string"'),
    (schema("gone-value", 1, 3, "")[0], None),
    schema("old-value", 1, 4, '"int"'),
    (
        {"keytype": "DELETE_SUBJECT", "subject": "old-value", "magic": 0},
        {"subject": "old-value", "version": 1},
    ),
    schema("json-value", 1, 7, '{"properties":{"a":{"type":"string"}},"type":"object"}', schemaType="JSON"),
    ({"keytype": "CONFIG", "subject": None, "magic": 0}, {"compatibilityLevel": "FULL"}),
    ({"keytype": "CONFIG", "subject": "orders-value", "magic": 0}, {"compatibilityLevel": "NONE"}),
]


@pytest.fixture(scope="module")
def registry() -> Iterator[RunningRegistry]:
    with OttlaBroker() as broker:
        with Admin(broker.bootstrap_servers) as admin:
            admin.create_topic("_schemas", partitions=1, configs={"cleanup.policy": "compact"})
        with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
            for key, value in RECORDS:
                written = None if value is None else json.dumps(value, separators=(",", ":")).encode()
                producer.send("_schemas", key=json.dumps(key, separators=(",", ":")).encode(), value=written)
        with RunningRegistry(broker.bootstrap_servers) as running:
            yield running


def test_schemas_configs_and_deletions_of_another_registry_are_read(registry: RunningRegistry) -> None:
    assert registry.ask("GET", "/subjects").body == ["baskets-value", "json-value", "orders-value"]
    assert registry.ask("GET", "/subjects?deletedOnly=true").body == ["old-value"]
    assert registry.ask("GET", "/schemas/ids/1").body["schema"] == ORDER
    assert registry.ask("GET", "/schemas/ids/7").body["schemaType"] == "JSON"
    assert registry.ask("GET", "/config").body == {"compatibilityLevel": "FULL"}
    assert registry.ask("GET", "/config/orders-value").body == {"compatibilityLevel": "NONE"}
    assert registry.ask("GET", "/subjects/orders-value/versions/1/referencedby").body == [2]


def test_a_schema_whose_keys_another_registry_has_sorted_is_found_not_registered_again(
    registry: RunningRegistry,
) -> None:
    asked = {"schema": json.dumps(ORDER_TYPE)}
    assert registry.ask("POST", "/subjects/orders-value", asked).body["version"] == 1
    assert registry.ask("POST", "/subjects/orders-value/versions", asked).body["id"] == 1
    other = {"schema": json.dumps({**ORDER_TYPE, "doc": "not the same"})}
    assert registry.ask("POST", "/subjects/orders-value", other).status == 404
    assert registry.ask("POST", "/subjects/orders-value/versions", other).body["id"] == 8, "ids go on"


def test_a_schema_with_its_references_written_out_is_the_one_with_references(
    registry: RunningRegistry,
) -> None:
    basket = {
        "type": "record",
        "name": "Basket",
        "namespace": "shop",
        "fields": [{"name": "order", "type": ORDER_TYPE}],
    }
    asked = {"schema": json.dumps(basket)}
    assert registry.ask("POST", "/subjects/baskets-value", asked).body["id"] == 2
    assert registry.ask("POST", "/subjects/baskets-value/versions", asked).body["id"] == 2
    basket["fields"] = [{"name": "order", "type": {**ORDER_TYPE, "name": "Other"}}]
    assert registry.ask("POST", "/subjects/baskets-value", {"schema": json.dumps(basket)}).status == 404
