"""JSON Schema: texts, drafts, references, tags, and what is refused."""

from __future__ import annotations

import json

import pytest

from ottla.registry.formats import Entity, InvalidSchema, check, parse


def test_the_canonical_text_keeps_order_and_digits() -> None:
    text = '{ "type": "number",\n "minimum": 1.10, "maximum": 1e3, "title": "é\\u0001\\u001f" }'
    parsed = parse("JSON", text)
    assert parsed.canonical == '{"type":"number","minimum":1.10,"maximum":1E+3,"title":"é\\u0001\\u001F"}'
    assert parsed.normalized == '{"maximum":1E+3,"minimum":1.10,"title":"é\\u0001\\u001F","type":"number"}'
    assert parsed.name == "é\x01\x1f"
    assert parse("JSON", "true").canonical == "true"


REFUSED = {
    "[]": "expected an object or boolean",
    '{"type":': "it is not JSON",
    '{"type":"strin"}': "unknown type",
    '{"minLength":"1"}': "minLength",
    '{"minLength":-1}': "minLength",
    '{"required":true}': "required",
    '{"$ref":"#/definitions/x"}': "Unresolved $ref '#/definitions/x'",
    '{"$ref":"http://127.0.0.1:1/schema"}': "Unresolved $ref",
    '{"$ref":"file:///etc/passwd"}': "Unresolved $ref",
    '{"$ref":"other.json"}': "Unresolved $ref",
    '{"type":"number","maximum":NaN}': "NaN is not a number",
    '{"title":"\\ud800"}': "surrogate",
}


@pytest.mark.parametrize("text", REFUSED)
def test_what_is_no_schema_is_refused(text: str) -> None:
    with pytest.raises(InvalidSchema) as caught:
        parse("JSON", text)
    assert REFUSED[text] in str(caught.value)


@pytest.mark.parametrize(
    "reference",
    ["other.json", "./other.json", "other.json#/definitions/x", "other.json#/$defs/x", "other.json#there"],
)
@pytest.mark.parametrize(
    "draft", ["http://json-schema.org/draft-07/schema#", "https://json-schema.org/draft/2020-12/schema"]
)
def test_references_are_resolved_in_the_closure(reference: str, draft: str) -> None:
    def schema(kind: str) -> str:
        anchor = {"$id": "#there"} if "07" in draft else {"$anchor": "there"}
        return json.dumps({"type": kind, "definitions": {"x": {"type": kind, **anchor}}})

    text = json.dumps({"$schema": draft, "properties": {"a": {"$ref": reference}}})
    old = parse("JSON", text, {"other.json": schema("integer")})
    assert check("BACKWARD", parse("JSON", text, {"other.json": schema("number")}), [old]) == []
    assert check("BACKWARD", parse("JSON", text, {"other.json": schema("string")}), [old])


def test_references_are_relative_to_the_id() -> None:
    text = '{"$id":"http://x.example/a/main.json","properties":{"p":{"$ref":"part.json"}}}'
    assert parse("JSON", text, {"part.json": '{"type":"string"}'})
    assert parse("JSON", text, {"http://x.example/a/part.json": '{"type":"string"}'})


def test_a_reference_to_a_meta_schema_needs_no_network() -> None:
    text = '{"properties":{"schema":{"$ref":"http://json-schema.org/draft-07/schema#"}}}'
    assert check("FULL", parse("JSON", text), [parse("JSON", text)]) == []


def test_tags_are_found_and_changed() -> None:
    street = {"type": "string", "confluent:tags": ["PII"]}
    address = {"type": "object", "properties": {"street": street}}
    text = json.dumps({"type": "object", "confluent:tags": ["T"], "properties": {"address": address}})
    parsed = parse("JSON", text)
    entity = Entity("object.address.object.street", "sr_field")
    assert parsed.tagged_entities() == {Entity("object", "sr_record"): ["T"], entity: ["PII"]}
    changed = parse(
        "JSON", parsed.with_tags({entity: ["X"]}, {entity: ["PII"], Entity("object", "sr_record"): ["T"]})
    )
    assert changed.tagged_entities() == {entity: ["X"]}
    with pytest.raises(InvalidSchema, match="No matching path"):
        parsed.with_tags({Entity("object.nowhere", "sr_field"): ["X"]}, {})


def test_tags_in_combinations_and_definitions_have_paths_of_their_own() -> None:
    def tagged(name: str, tag: str) -> dict[str, object]:
        return {"type": "object", "properties": {name: {"type": "string", "confluent:tags": [tag]}}}

    schema = {
        "type": "object",
        "properties": {
            "d": {"oneOf": [tagged("e", "Q"), {"type": "null"}]},
            "l": {"type": "array", "items": tagged("c", "X")},
        },
        "definitions": {"k": tagged("m", "D")},
    }
    parsed = parse("JSON", json.dumps(schema))
    paths = {
        "object.d.oneof.1.object.e": ["Q"],  # null sorts before object
        "object.l.array.object.c": ["X"],
        "object.definitions.k.object.m": ["D"],
    }
    assert {entity.path: tags for entity, tags in parsed.tagged_entities().items()} == paths
    entity = Entity("object.definitions.k.object.m", "sr_field")
    changed = parse("JSON", parsed.with_tags({entity: ["N"]}, {}))
    assert changed.tagged_entities()[entity] == ["D", "N"]
