"""Fields of records, as rules about fields see them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ottla.registry.serdes.rules.field_walks import AvroWalk, JsonWalk
from ottla.registry.serdes.rules.fields import Field, tags_of

AVRO = {
    "type": "record",
    "name": "Order",
    "namespace": "shop",
    "fields": [
        {"name": "id", "type": "long"},
        {
            "name": "buyer",
            "type": {
                "type": "record",
                "name": "Buyer",
                "fields": [{"name": "mail", "type": ["null", "string"], "confluent:tags": ["PII"]}],
            },
        },
        {"name": "others", "type": {"type": "array", "items": "Buyer"}},
        {"name": "notes", "type": {"type": "map", "values": "string"}},
        {"name": "either", "type": ["null", "Buyer", "int"]},
    ],
}


def seen(walk: Any, data: Any, by_path: Any = None) -> list[tuple[str, str, list[str], Any]]:
    found = []

    def visit(field: Field, value: Any) -> Any:
        found.append((field.full_name, field.type_name, sorted(field.tags), value))
        return value

    assert walk(data, visit, by_path or {}) == data
    return found


def test_avro_fields_are_found_in_records_arrays_maps_and_unions() -> None:
    data = {
        "id": 1,
        "buyer": {"mail": "a"},
        "others": [{"mail": None}, {"mail": "b"}],
        "notes": {"x": "y"},
        "either": {"mail": "c"},
    }
    assert seen(AvroWalk(AVRO), data, {"shop.Order.*": ["ALL"]}) == [
        ("shop.Order.id", "LONG", ["ALL"], 1),
        ("shop.Buyer.mail", "STRING", ["PII"], "a"),
        ("shop.Buyer.mail", "NULL", ["PII"], None),
        ("shop.Buyer.mail", "STRING", ["PII"], "b"),
        ("shop.Order.notes", "STRING", ["ALL"], "y"),
        ("shop.Buyer.mail", "STRING", ["PII"], "c"),
    ]


def test_json_fields_are_found_through_references_and_alternatives() -> None:
    schema = {
        "type": "object",
        "properties": {
            "id": {"type": "integer", "confluent:tags": ["ID"]},
            "buyer": {"$ref": "#/definitions/buyer"},
            "item": {"$ref": "item.json"},
            "list": {"type": "array", "items": {"type": "number"}},
        },
        "definitions": {
            "buyer": {
                "oneOf": [
                    {"type": "object", "required": ["firm"], "properties": {"firm": {"type": "string"}}},
                    {"type": "object", "properties": {"mail": {"type": ["string", "null"]}}},
                ]
            }
        },
    }
    item = {"type": "object", "properties": {"name": {"type": "string"}}}
    walk = JsonWalk(json.dumps(schema), {"item.json": json.dumps(item)})
    data = {"id": 1, "buyer": {"mail": "a"}, "item": {"name": "tea"}, "list": [1, 2.5], "more": True}
    assert seen(walk, data) == [
        ("$.id", "INT", ["ID"], 1),
        ("$.buyer.mail", "STRING", [], "a"),
        ("$.item.name", "STRING", [], "tea"),
        ("$.list", "DOUBLE", [], 1),
        ("$.list", "DOUBLE", [], 2.5),
    ]


def test_data_is_copied_not_changed() -> None:
    data = {"id": 1, "buyer": {"mail": "a"}, "others": [], "notes": {}, "either": None}
    changed = AvroWalk(AVRO)(data, lambda field, value: "x" if field.name == "mail" else value, {})
    assert changed["buyer"] == {"mail": "x"}
    assert data["buyer"] == {"mail": "a"}


@pytest.mark.parametrize(
    ("path", "name", "matches"),
    [
        ("a*.bob.eve", "alice.bob.eve", True),
        ("a*", "alice.bob", False),
        ("a**", "alice.bob", True),
        ("**.ssn", "shop.User.ssn", True),
        ("shop.?.x", "shop.U.x", True),
        ("shop.[a-z].x", "shop.u.x", False),
    ],
)
def test_paths_have_wildcards(path: str, name: str, matches: bool) -> None:
    assert bool(tags_of(name, (), {path: ["T"]})) is matches
