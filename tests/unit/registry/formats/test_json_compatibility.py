"""JSON Schema: each rule by its type of difference, and verdicts against what jsonschema-rs accepts."""

from __future__ import annotations

import json
from random import Random
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.registry.formats import check, parse
from ottla.registry.formats.json_schema.compatibility import differences
from ottla.registry.formats.json_schema.differences import COMPATIBLE
from ottla.registry.formats.json_schema.schema import JsonSchema

MODERN = {"$schema": "https://json-schema.org/draft/2020-12/schema"}


def load(schema: Any) -> JsonSchema:
    return JsonSchema(json.dumps(schema), {}, validate=True)


def changes(old: Any, new: Any) -> list[str]:
    """Return the differences, the compatible ones with a +, the others with a -."""
    found = differences(load(old).node, load(new).node)
    return sorted(f"{'+' if each.type in COMPATIBLE else '-'}{each.type} {each.pointer}" for each in found)


def obj(properties: Any = None, **more: Any) -> dict[str, Any]:
    return {"type": "object", **({"properties": properties} if properties is not None else {}), **more}


STRING, INTEGER, NUMBER = {"type": "string"}, {"type": "integer"}, {"type": "number"}
RULES: list[tuple[Any, Any, list[str]]] = [
    (STRING, STRING, []),
    (STRING, {"type": "string", "title": "t", "default": "x"}, ["+DEFAULT_CHANGED #/", "+TITLE_CHANGED #/"]),
    (STRING, INTEGER, ["-TYPE_CHANGED #/"]),
    (INTEGER, NUMBER, ["+TYPE_EXTENDED #/"]),
    (NUMBER, INTEGER, ["-TYPE_NARROWED #/"]),
    (STRING, {}, []),
    ({}, STRING, ["-TYPE_CHANGED #/"]),
    (False, STRING, []),
    *(
        (
            {"type": kind, **({low: 2} if first else {})},
            {"type": kind, **({low: second} if second is not None else {})},
            [sign + word + " #/" + low],
        )
        for kind, low, name, up in [
            ("string", "minLength", "MIN_LENGTH", "-"),
            ("string", "maxLength", "MAX_LENGTH", "+"),
            ("number", "minimum", "MINIMUM", "-"),
            ("number", "maximum", "MAXIMUM", "+"),
            ("number", "exclusiveMinimum", "EXCLUSIVE_MINIMUM", "-"),
            ("number", "exclusiveMaximum", "EXCLUSIVE_MAXIMUM", "+"),
            ("array", "minItems", "MIN_ITEMS", "-"),
            ("array", "maxItems", "MAX_ITEMS", "+"),
            ("object", "minProperties", "MIN_PROPERTIES", "-"),
            ("object", "maxProperties", "MAX_PROPERTIES", "+"),
        ]
        for first, second, sign, word in [
            (False, 1, "-", name + "_ADDED"),
            (True, None, "+", name + "_REMOVED"),
            (True, 3, up, name + "_INCREASED"),
            (True, 1, "+" if up == "-" else "-", name + "_DECREASED"),
        ]
    ),
    ({**NUMBER, "multipleOf": 2}, {**NUMBER, "multipleOf": 4}, ["-MULTIPLE_OF_EXPANDED #/multipleOf"]),
    ({**NUMBER, "multipleOf": 0.6}, {**NUMBER, "multipleOf": 0.2}, ["+MULTIPLE_OF_REDUCED #/multipleOf"]),
    ({**NUMBER, "multipleOf": 2}, {**NUMBER, "multipleOf": 3}, ["-MULTIPLE_OF_CHANGED #/multipleOf"]),
    ({**NUMBER, "multipleOf": 0.5}, {**NUMBER, "multipleOf": 0.50}, []),
    ({**STRING, "pattern": "a"}, {**STRING, "pattern": "b"}, ["-PATTERN_CHANGED #/pattern"]),
    ({**STRING, "pattern": "a"}, STRING, ["+PATTERN_REMOVED #/pattern"]),
    ({"enum": [1, 2]}, {"enum": [2, 1, 3]}, ["+ENUM_ARRAY_EXTENDED #/enum"]),
    ({"enum": [1, 2]}, {"enum": [1]}, ["-ENUM_ARRAY_NARROWED #/enum"]),
    ({"enum": [1, 2]}, {"enum": [1, 3]}, ["-ENUM_ARRAY_CHANGED #/enum"]),
    ({"const": 1}, {"const": 2}, ["-ENUM_ARRAY_CHANGED #/const"]),
    (obj(), obj({"a": STRING}), ["-OPTIONAL_PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL #/properties/a"]),
    (obj(), obj({"a": {}}), ["+PROPERTY_WITH_EMPTY_SCHEMA_ADDED_TO_OPEN_CONTENT_MODEL #/properties/a"]),
    (obj({"a": STRING}), obj(), ["+PROPERTY_REMOVED_FROM_OPEN_CONTENT_MODEL #/properties/a"]),
    (
        obj({}, additionalProperties=False),
        obj({"a": STRING}, additionalProperties=False),
        ["+OPTIONAL_PROPERTY_ADDED_TO_UNOPEN_CONTENT_MODEL #/properties/a"],
    ),
    (
        obj({}, additionalProperties=False),
        obj({"a": STRING}, additionalProperties=False, required=["a"]),
        ["-REQUIRED_PROPERTY_ADDED_TO_UNOPEN_CONTENT_MODEL #/properties/a"],
    ),
    (
        obj({"a": STRING}, additionalProperties=False),
        obj({}, additionalProperties=False),
        ["-PROPERTY_REMOVED_FROM_CLOSED_CONTENT_MODEL #/properties/a"],
    ),
    (
        obj({"a": STRING}, additionalProperties=STRING),
        obj({}, additionalProperties=STRING),
        ["+PROPERTY_REMOVED_IS_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL #/properties/a"],
    ),
    (
        obj({}, patternProperties={"^x": STRING}, additionalProperties=False),
        obj({"xy": INTEGER}, patternProperties={"^x": STRING}, additionalProperties=False),
        [
            "+OPTIONAL_PROPERTY_ADDED_TO_UNOPEN_CONTENT_MODEL #/properties/xy",
            "-PROPERTY_ADDED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL #/properties/xy",
            "-TYPE_CHANGED #/properties/xy",
        ],
    ),
    (obj({"a": STRING}), obj({"a": STRING}, required=["a"]), ["-REQUIRED_ATTRIBUTE_ADDED #/required/a"]),
    (obj({"a": STRING}, required=["a"]), obj({"a": STRING}), ["+REQUIRED_ATTRIBUTE_REMOVED #/required/a"]),
    (obj(), obj(additionalProperties=False), ["-ADDITIONAL_PROPERTIES_REMOVED #/additionalProperties"]),
    (obj(additionalProperties=False), obj(), ["+ADDITIONAL_PROPERTIES_ADDED #/additionalProperties"]),
    (obj(), obj(additionalProperties=STRING), ["-ADDITIONAL_PROPERTIES_NARROWED #/additionalProperties"]),
    (obj(additionalProperties=STRING), obj(), ["+ADDITIONAL_PROPERTIES_EXTENDED #/additionalProperties"]),
    (obj(dependencies={"a": ["b"]}), obj(), ["+DEPENDENCY_ARRAY_REMOVED #/dependencies/a"]),
    (obj(), obj(dependencies={"a": ["b"]}), ["-DEPENDENCY_ARRAY_ADDED #/dependencies/a"]),
    (obj(), obj(dependencies={"a": STRING}), ["-DEPENDENCY_SCHEMA_ADDED #/dependencies/a"]),
    ({"type": "array", "items": STRING}, {"type": "array", "items": INTEGER}, ["-TYPE_CHANGED #/items"]),
    ({"type": "array"}, {"type": "array", "items": STRING}, ["-SCHEMA_ADDED #/items"]),
    ({"type": "array", "items": STRING}, {"type": "array"}, ["+SCHEMA_REMOVED #/items"]),
    ({"type": "array"}, {"type": "array", "uniqueItems": True}, ["-UNIQUE_ITEMS_ADDED #/uniqueItems"]),
    (
        {"type": "array", "items": [STRING]},
        {"type": "array", "items": [STRING, INTEGER]},
        ["-ITEM_ADDED_TO_OPEN_CONTENT_MODEL #/items/1"],
    ),
    (STRING, {"oneOf": [STRING, INTEGER]}, ["+SUM_TYPE_EXTENDED #/"]),
    ({"oneOf": [STRING, INTEGER]}, STRING, ["-TYPE_CHANGED #/"]),
    ({"allOf": [STRING, {"minLength": 1}]}, STRING, ["+PRODUCT_TYPE_NARROWED #/"]),
    ({"anyOf": [STRING, INTEGER]}, {"anyOf": [INTEGER]}, ["-SUM_TYPE_NARROWED #/"]),
    ({"anyOf": [STRING]}, {"allOf": [STRING]}, ["+COMBINED_TYPE_EXTENDED #/"]),
    ({"anyOf": [STRING, INTEGER]}, {"oneOf": [STRING, INTEGER]}, ["-COMBINED_TYPE_CHANGED #/"]),
    (
        {"anyOf": [STRING, INTEGER]},
        {"anyOf": [{"type": "null"}, {"type": "array"}]},
        ["-COMBINED_TYPE_SUBSCHEMAS_CHANGED #/"],
    ),
    ({"not": NUMBER}, {"not": INTEGER}, ["+NOT_TYPE_NARROWED #/not"]),
    ({"not": INTEGER}, {"not": NUMBER}, ["-NOT_TYPE_EXTENDED #/not"]),
    (
        {**MODERN, **obj(dependentRequired={"a": ["b", "c"]})},
        {**MODERN, **obj(dependentRequired={"a": ["b"]})},
        ["+DEPENDENCY_ARRAY_NARROWED #/dependencies/a"],
    ),
    (
        {**MODERN, "type": "array"},
        {**MODERN, "type": "array", "contains": STRING},
        ["-MIN_CONTAINS_ADDED #/minContains"],
    ),
    (
        {**MODERN, **obj()},
        {**MODERN, **obj(unevaluatedProperties=False)},
        ["-UNEVALUATED_PROPERTIES_REMOVED #/unevaluatedProperties"],
    ),
]


@pytest.mark.parametrize(("old", "new", "expected"), RULES)
def test_the_rules(old: Any, new: Any, expected: list[str]) -> None:
    assert changes(old, new) == expected


def test_the_message_is_confluents_with_its_quotes() -> None:
    old, new = load(obj()), load(obj({"a": STRING}))
    assert check("BACKWARD", new, [old])[0] == (
        '{errorType:"OPTIONAL_PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL", description:"The new schema '
        "has an open content "
        "model and has a property or item at path '#/properties/a' which is missing in the old schema'}"
    )


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("email", ["-PRODUCT_TYPE_EXTENDED #/"]),
        ("int64", ["-COMBINED_TYPE_SUBSCHEMAS_CHANGED #/"]),  # no known format: as good as no keyword
    ],
)
def test_keywords_that_permit_everything_are_one_member(word: str, expected: list[str]) -> None:
    old = {"type": "object", "additionalProperties": True, "format": word}
    new = {"type": "array", "additionalProperties": True, "format": word}
    assert changes(old, new) == expected


def recursive(kind: str) -> dict[str, Any]:
    node = obj({"value": {"type": kind}, "next": {"$ref": "#/definitions/node"}})
    return {"$ref": "#/definitions/node", "definitions": {"node": node}}


def test_recursive_schemas_are_compared() -> None:
    assert changes(recursive("integer"), recursive("number")) == ["+TYPE_EXTENDED #/properties/value"]
    assert check("BACKWARD", load(recursive("integer")), [load(recursive("number"))])


def test_a_difference_behind_a_cycle_is_found_in_every_branch() -> None:
    def schema(kind: str) -> dict[str, Any]:
        b = obj({"a": {"$ref": "#/definitions/a"}, "leaf": {"type": kind}}, additionalProperties=False)
        a = obj({"b": {"$ref": "#/definitions/b"}}, additionalProperties=False)
        one = {"oneOf": [{"$ref": "#/definitions/a"}, {"$ref": "#/definitions/b"}]}
        return {**one, "definitions": {"a": a, "b": b}}

    assert check("BACKWARD", load(schema("string")), [load(schema("integer"))])


def test_references_to_references_are_followed() -> None:
    def schema(kind: str) -> dict[str, Any]:
        return {
            "$ref": "#/definitions/a",
            "definitions": {"a": {"$ref": "#/definitions/b"}, "b": {"type": kind}},
        }

    assert changes(schema("string"), schema("integer")) == ["-TYPE_CHANGED #/"]


leaves = st.one_of(
    st.fixed_dictionaries(
        {"type": st.just("string")}, optional={"minLength": st.integers(0, 2), "maxLength": st.integers(2, 4)}
    ),
    st.fixed_dictionaries(
        {"type": st.sampled_from(["integer", "number"])},
        optional={
            "minimum": st.integers(0, 2),
            "maximum": st.integers(2, 4),
            "exclusiveMaximum": st.integers(3, 5),
            "multipleOf": st.sampled_from([1, 2, 4]),
        },
    ),
    st.sampled_from(
        [{"type": "boolean"}, {"type": "null"}, {"enum": [1, "a"]}, {"enum": [1, "a", None]}, {"const": 1}]
    ),
)


def objects(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.fixed_dictionaries(
        {"type": st.just("object")},
        optional={
            "properties": st.dictionaries(st.sampled_from("abc"), inner, max_size=2),
            "additionalProperties": st.one_of(st.booleans(), leaves),
            "minProperties": st.integers(0, 1),
            "maxProperties": st.integers(1, 3),
        },
    )


def arrays(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    optional = {"items": inner, "minItems": st.integers(0, 1), "maxItems": st.integers(1, 2)}
    return st.fixed_dictionaries({"type": st.just("array")}, optional=optional)


schemas = st.recursive(
    leaves,
    lambda inner: st.one_of(
        objects(inner),
        arrays(inner),
        st.fixed_dictionaries({"anyOf": st.lists(inner, min_size=1, max_size=3)}),
    ),
    max_leaves=6,
)
instances = st.recursive(
    st.sampled_from([None, True, 0, 1, 2, 3, 4, 1.5, "", "a", "ab", "abcd"]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("abcd"), inner, max_size=2),
    max_leaves=4,
)


def altered(schema: Any, rng: Random) -> Any:
    """Return the schema with a few keywords changed, dropped or wrapped."""
    if isinstance(schema, list):
        return [altered(each, rng) for each in schema]
    if not isinstance(schema, dict):
        return schema
    out = {key: altered(value, rng) if key != "enum" else value for key, value in schema.items()}
    roll = rng.random()
    dropped = [key for key in out if key not in ("type", "anyOf", "enum", "const", "a", "b", "c")]
    if roll < 0.2 and dropped:
        del out[rng.choice(dropped)]
    elif roll < 0.3 and ("type" in out or "enum" in out):
        return {"anyOf": [out, {"type": "null"}]}
    elif roll < 0.5:
        limits = [key for key in out if key.startswith(("min", "max"))]
        for key in limits:
            out[key] = max(0, out[key] + rng.choice((-1, 0, 1)))
    elif roll < 0.6 and out.get("type") == "integer":
        out["type"] = "number"
    return out


@given(schemas, st.randoms(use_true_random=False), st.lists(instances, min_size=5, max_size=20))
@settings(max_examples=250, deadline=None)
def test_what_was_valid_stays_valid_if_the_update_is_compatible(
    old: Any, rng: Random, values: list[Any]
) -> None:
    """Sound for these keywords; the rules do not look at patternProperties, contains, if and a few others."""
    new = altered(old, rng)
    if check("BACKWARD", load(new), [load(old)]):
        return
    before, after = jsonschema_rs.validator_for(old), jsonschema_rs.validator_for(new)
    for value in values:
        assert not before.is_valid(value) or after.is_valid(value), (old, new, value)


@given(schemas)
@settings(max_examples=100, deadline=None)
def test_every_schema_is_compatible_with_itself_and_with_anything(schema: Any) -> None:
    parsed = parse("JSON", json.dumps(schema))
    assert check("FULL", parsed, [parse("JSON", parsed.normalized)]) == []
    assert check("BACKWARD", parse("JSON", "{}"), [parsed]) == []


@pytest.mark.parametrize(
    ("old", "new", "strict", "lenient"),
    [
        (obj(), obj({"a": STRING}), False, True),
        (obj({"a": STRING}, additionalProperties=False), obj(additionalProperties=False), False, True),
        (obj(), obj({"a": {**STRING, "default": ""}}, required=["a"]), False, True),
        (obj(), obj({"a": STRING}, required=["a"]), False, False),
        (obj(), obj(additionalProperties=False), False, True),
        (obj(additionalProperties=False), obj({"a": STRING}, additionalProperties=False), True, True),
        (obj({"a": STRING}), obj({"a": {"type": "integer"}}), False, False),
    ],
)
def test_the_lenient_policy_lets_properties_come_and_go(
    old: Any, new: Any, strict: bool, lenient: bool
) -> None:
    before, after = load(old), load(new)
    for level in ("BACKWARD", "BACKWARD_TRANSITIVE"):
        assert (not check(level, after, [before])) is strict
        assert (not check(level, after, [before], lenient=True)) is lenient
