"""Schemas with parts replaced by other JSON, or cut up, are refused as invalid, or parsed."""

from __future__ import annotations

import copy
import json
import random
from typing import Any

import pytest
from benchmarks.registry.compatibility import pair_of
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.registry.formats import InvalidSchema, check, parse

VALUES = [
    None,
    True,
    0,
    -1,
    1.5,
    "",
    "x",
    "int",
    "#",
    [],
    {},
    [[]],
    [None],
    {"type": "int"},
    {"$ref": "#"},
    "(",
]
KEYWORDS = (
    *(
        "type",
        "name",
        "namespace",
        "fields",
        "symbols",
        "items",
        "values",
        "size",
        "default",
        "aliases",
        "order",
    ),
    *("logicalType", "properties", "required", "additionalProperties", "patternProperties", "allOf", "not"),
    *(
        "$ref",
        "$id",
        "$anchor",
        "$defs",
        "dependencies",
        "dependentRequired",
        "contains",
        "prefixItems",
        "if",
    ),
    *("title", "pattern", "minLength", "multipleOf", "confluent:tags", "uniqueItems", "$schema", "if"),
)


def containers(value: Any) -> list[Any]:
    """Return every object and array of a JSON value."""
    if not isinstance(value, dict | list):
        return []
    inner = value.values() if isinstance(value, dict) else value
    return [value, *(each for item in inner for each in containers(item))]


def with_garbage(text: str, rng: random.Random) -> str:
    root = json.loads(text)
    for _ in range(rng.randint(1, 3)):
        places = containers(root)
        if places:
            place, value = rng.choice(places), copy.deepcopy(rng.choice(VALUES))
            if isinstance(place, dict):
                place[rng.choice([*place, *KEYWORDS])] = value
            elif place:
                place[rng.randrange(len(place))] = value
    return json.dumps(root)


def cut_up(text: str, rng: random.Random) -> str:
    for _ in range(rng.randint(1, 3)):
        start = rng.randrange(len(text) + 1)
        text = (
            text[:start]
            + rng.choice(("", "{", "}", "=", ";", '"', "map<", "-1", "]"))
            + text[start + rng.randint(0, 5) :]
        )
    return text


@pytest.mark.parametrize("schema_type", ["AVRO", "JSON", "PROTOBUF"])
@given(number=st.integers(0, 1 << 32))
@settings(max_examples=120, deadline=None)
def test_garbage_is_refused_or_parsed(schema_type: str, number: int) -> None:
    rng = random.Random(number)
    old_text, text = pair_of(schema_type, 3, number)
    text = cut_up(text, rng) if schema_type == "PROTOBUF" else with_garbage(text, rng)
    try:
        old, new = parse(schema_type, old_text), parse(schema_type, text, validate=rng.random() < 0.5)
        assert isinstance(new.normalized, str)
        new.tagged_entities()
    except InvalidSchema:
        return
    check("FULL", new, [old])
    check("FULL", old, [new])
    assert parse(schema_type, new.canonical, validate=False).canonical == new.canonical
