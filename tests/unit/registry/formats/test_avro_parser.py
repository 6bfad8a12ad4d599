"""Avro: the text that is stored, the normalised text, and what is refused, as Avro's Java library has it."""

from __future__ import annotations

import json

import pytest

from ottla.registry.formats import Entity, InvalidSchema, parse

RECORD = '{"type":"record","name":"R","fields":[%s]}'

# What Avro 1.12.1 prints for these texts.
CANONICAL = {
    '{"type":"string"}': '"string"',
    '{"type": "int", "type": "long"}': '"long"',
    '{"type":"int","doc":"dropped","logicalType":"nope"}': '{"type":"int","logicalType":"nope"}',
    RECORD % '{"name":"a","type":{"type":"R"}}': RECORD % '{"name":"a","type":"R"}',
    RECORD
    % '{"name":"a","type":"Later"},{"name":"b","type":{"type":"fixed","name":"Later","size":3}}': RECORD
    % '{"name":"a","type":{"type":"fixed","name":"Later","size":3}},{"name":"b","type":"Later"}',
    RECORD % '{"name":"a","type":"float","default":"1.5"},{"name":"e","type":"double","default":1e3}': RECORD
    % '{"name":"a","type":"float","default":1.5},{"name":"e","type":"double","default":1000.0}',
    '{"type":"record","name":"x.R","fields":[{"name":"a","type":{"type":"enum","name":"E","namespace":"",'
    '"symbols":["A"]}},{"name":"b","type":"E"}]}': '{"type":"record","name":"R","namespace":"x","fields":'
    '[{"name":"a","type":{"type":"enum","name":"E","namespace":"","symbols":["A"]}},{"name":"b","type":"E"}]}',
    '{"type":"record","name":"n.int","fields":[{"name":"a","type":["null","n.int"]}]}': '{"type":"record",'
    '"name":"int","namespace":"n","fields":[{"name":"a","type":["null","n.int"]}]}',
    '{"type":"record","name":"R","doc":"d","aliases":["S","n.T"],"fields":[{"name":"a","aliases":["b"],"order":'
    '"ignore","x-y":{"k":[1,2.50]},"type":{"type":"bytes","logicalType":"decimal","precision":4,"scale":2}}],'
    '"p":1}': '{"type":"record","name":"R","doc":"d","fields":[{"name":"a","type":{"type":"bytes",'
    '"logicalType":"decimal","precision":4,"scale":2},"order":"ignore","aliases":["b"],"x-y":{"k":[1,2.5]}}],"p":1,"aliases":'
    '["S","n.T"]}',
    '{"type":"enum","name":"E","symbols":["A"],"aliases":["F","F"],"x":null}': '{"type":"enum","name":"E",'
    '"symbols":["A"],"x":null,"aliases":["F"]}',
    RECORD % '{"name":"a","type":"int","doc":"é\\u0001\\u001f\\"/"}': RECORD
    % '{"name":"a","type":"int","doc":"é\\u0001\\u001F\\"/"}',
}

REFUSED = {
    "": "Cannot parse <null> schema",
    "12": "Schema not yet supported: 12",
    '{"a":': "it is not JSON",
    '"foo"': "Undefined schema: foo",
    '{"name":"x"}': 'No type: {"name":"x"}',
    '["int","int"]': "Duplicate in union:int",
    '["int",["null"]]': "Nested union",
    '{"type":"array"}': "Array has no items type",
    '{"type":"record","name":"R"}': "Record has no fields",
    '{"type":"record","name":"1R","fields":[]}': "Illegal initial character: 1R",
    '{"type":"record","name":"a-b.R","fields":[]}': 'part "a-b" is invalid: Illegal character in: a-b',
    '{"type":"record","name":"int","fields":[]}': "Schemas may not be named after primitives: int",
    RECORD % '{"type":"int"}': "No field name",
    RECORD % '{"name":"a"}': "No field type",
    RECORD % '{"name":"a","type":"int"},{"name":"a","type":"int"}': "Duplicate field a in record R",
    RECORD % '{"name":"a","type":"int","default":"x"}': 'Invalid default for field a: "x" not a "int"',
    RECORD % '{"name":"a","type":"int","order":"up"}': "unknown order",
    '{"type":"enum","name":"E","symbols":["A","A"]}': "Duplicate enum symbol: A",
    '{"type":"enum","name":"E","symbols":["A"],"default":"C"}': "is not in the enum symbol set: [A]",
    '{"type":"fixed","name":"F","size":"3"}': "Invalid or no size",
    '[{"type":"enum","name":"E","symbols":["A"]},{"type":"array","items":{"type":"enum","name":"E","symbols":'
    '["B"]}}]': "Can't redefine: E",
}


@pytest.mark.parametrize("text", CANONICAL)
def test_the_canonical_text_is_that_of_avros_java_library(text: str) -> None:
    parsed = parse("AVRO", text)
    assert parsed.canonical == CANONICAL[text]
    assert parse("AVRO", parsed.canonical).canonical == parsed.canonical


@pytest.mark.parametrize("text", REFUSED)
def test_what_avro_refuses_is_refused_in_its_words(text: str) -> None:
    with pytest.raises(InvalidSchema) as caught:
        parse("AVRO", text)
    assert str(caught.value).startswith("Invalid schema of type AVRO, details: ")
    assert REFUSED[text] in str(caught.value)


def test_normalising_sorts_properties_and_drops_empty_docs() -> None:
    text = RECORD % (
        '{"name":"a","type":{"type":"bytes","logicalType":"decimal","precision":4,"scale":2,"b":1,"a":{"z":1,"b":2}}'
        ',"default":"ÿ","doc":""},{"name":"f","type":"double","default":1}'
    )
    text = text[:-1] + ',"doc":""}'
    expected = RECORD % (
        '{"name":"a","type":{"type":"bytes","logicalType":"decimal","precision":4,"scale":2,"a":{"b":2,"z":1},"b":1}'
        ',"doc":"","default":"ÿ"},{"name":"f","type":"double","default":1.0}'
    )
    assert parse("AVRO", text).normalized == expected
    assert parse("AVRO", text, normalize=True).canonical == expected


def test_normalising_writes_a_default_as_the_branch_of_the_union_has_it() -> None:
    text = RECORD % '{"name":"a","type":["boolean","float"],"default":1}'
    assert '"default":1.0' in parse("AVRO", text).normalized


def test_references_are_named_and_not_repeated() -> None:
    address = '{"type":"record","name":"a.Address","fields":[{"name":"street","type":"string"}]}'
    person = '{"type":"record","name":"a.Person","fields":[{"name":"home","type":"Address"}]}'
    parsed = parse("AVRO", person, {"a.Address": address})
    assert '{"name":"home","type":"Address"}' in parsed.canonical
    assert '"street"' in parsed.formatted("resolved")
    with pytest.raises(InvalidSchema, match=r"Undefined schema: a\.Address"):
        parse("AVRO", person)


def test_stored_schemas_are_parsed_by_laxer_rules() -> None:
    text = '{"type":"record","name":"a-b.Straße","fields":[{"name":"a","type":"int","default":"x"}]}'
    with pytest.raises(InvalidSchema):
        parse("AVRO", text)
    assert parse("AVRO", text, validate=False).name == "a-b.Straße"


def test_tags_are_found_and_changed() -> None:
    text = RECORD % '{"name":"a","type":"int","confluent:tags":["PII","X"]}'
    parsed = parse("AVRO", text[:-1] + ',"confluent:tags":["T"]}')
    record, field = Entity("R", "sr_record"), Entity("R.a", "sr_field")
    assert parsed.tagged_entities() == {record: ["T"], field: ["PII", "X"]}
    changed = parse("AVRO", parsed.with_tags({field: ["Y"]}, {field: ["X"], record: ["T"]}))
    assert changed.tagged_entities() == {field: ["PII", "Y"]}
    with pytest.raises(InvalidSchema, match="No matching path"):
        parsed.with_tags({Entity("R.b", "sr_field"): ["Y"]}, {})


def test_the_same_definition_twice_is_one() -> None:
    enum = {"type": "enum", "name": "E", "symbols": ["A"]}
    text = json.dumps({"type": "record", "name": "R", "fields": [{"name": n, "type": enum} for n in "ab"]})
    assert parse("AVRO", text).canonical.count("symbols") == 1
