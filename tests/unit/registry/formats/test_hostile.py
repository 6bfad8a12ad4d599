"""Schemas that want to cost much are refused, or compared within a budget."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any

import pytest

from ottla.registry.formats import MAX_SCHEMA_BYTES, SCHEMA_TYPES, InvalidSchema, check, parse
from ottla.registry.formats.patterns import check_pattern, matches

CPU_SECONDS = 20
"""No case takes 3 s on a calm machine; this catches the exponential ones, which never end."""


@pytest.fixture(autouse=True)
def _bounded() -> Iterator[None]:
    start = time.thread_time()
    yield
    assert time.thread_time() - start < CPU_SECONDS


def refused(schema_type: str, text: str, references: dict[str, str] | None = None) -> str:
    with pytest.raises(InvalidSchema) as caught:
        parse(schema_type, text, references)
    assert len(str(caught.value)) < 3_000
    return str(caught.value)


@pytest.mark.parametrize("schema_type", SCHEMA_TYPES)
def test_ten_megabytes_are_refused_unread(schema_type: str) -> None:
    assert f"more than {MAX_SCHEMA_BYTES}" in refused(schema_type, '"' + "x" * (10 << 20) + '"')


@pytest.mark.parametrize(
    ("schema_type", "text"),
    [
        ("AVRO", '{"type":"array","items":' * 101 + '"int"' + "}" * 101),
        ("AVRO", "[" * 500_000),
        ("JSON", '{"not":' * 101 + "{}" + "}" * 101),
        ("JSON", '{"default":' + "[" * 300_000),
        ("PROTOBUF", 'syntax="proto3";' + "message A{" * 10_000 + "}" * 10_000),
        ("PROTOBUF", 'syntax="proto3"; option (a) = ' + "{a:" * 10_000 + "1" + "}" * 10_000 + ";"),
    ],
)
def test_deep_nesting_is_refused(schema_type: str, text: str) -> None:
    assert "deep" in refused(schema_type, text)


def test_a_long_chain_of_types_is_refused_or_reported() -> None:
    records: list[Any] = [
        {"type": "record", "name": f"R{n}", "fields": [{"name": "a", "type": f"R{n + 1}"}]}
        for n in range(3_000)
    ]
    assert "deep" in refused(
        "AVRO", json.dumps([*records, {"type": "record", "name": "R3000", "fields": []}])
    )
    chain: dict[str, Any] = {
        f"d{n}": {"properties": {"a": {"$ref": f"#/definitions/d{n + 1}"}}} for n in range(3_000)
    }
    old, new = (
        parse("JSON", json.dumps({"$ref": "#/definitions/d0", "definitions": {**chain, "d3000": last}}))
        for last in ({}, {"type": "string"})
    )
    assert "levels deep" in check("FULL", new, [old])[0]


def test_schemas_that_refer_to_one_another_many_times_are_compared_once() -> None:
    def doubling(kind: str) -> str:
        definitions: dict[str, Any] = {"d60": {"type": kind}}
        for n in range(60):
            target = {"$ref": f"#/definitions/d{n + 1}"}
            definitions[f"d{n}"] = {"type": "object", "properties": {"a": target, "b": target}}
        return json.dumps({"$ref": "#/definitions/d0", "definitions": definitions})

    assert (
        0
        < len(check("FULL", parse("JSON", doubling("string")), [parse("JSON", doubling("integer"))]))
        < 1_000
    )

    def avro(kind: str) -> str:
        records: list[Any] = [{"type": "record", "name": "R40", "fields": [{"name": "x", "type": kind}]}]
        for n in range(40):
            fields = [{"name": name, "type": f"R{n + 1}"} for name in "ab"]
            records.append({"type": "record", "name": f"R{n}", "fields": fields})
        return json.dumps(records)

    assert 0 < len(check("FULL", parse("AVRO", avro("int")), [parse("AVRO", avro("string"))])) < 1_000


def test_types_that_all_refer_to_all_are_compatible_with_themselves() -> None:
    everything = ["null", *(f"R{n}" for n in range(60))]
    records = [
        {"type": "record", "name": f"R{n}", "fields": [{"name": "n", "type": everything}]} for n in range(60)
    ]
    parsed = parse("AVRO", json.dumps(records))
    assert check("FULL", parsed, [parse("AVRO", json.dumps(records))]) == []


def test_huge_enums_are_compared() -> None:
    symbols = [f"S{n}" for n in range(50_000)]
    avro = parse("AVRO", json.dumps({"type": "enum", "name": "E", "symbols": symbols}))
    assert check("FULL", avro, [avro]) == []
    values = parse("JSON", json.dumps({"enum": symbols}))
    assert check("FULL", values, [parse("JSON", values.canonical)]) == []
    text = 'syntax="proto3"; enum E {' + "".join(f"S{n}={n};" for n in range(30_000)) + "}"
    proto = parse("PROTOBUF", text)
    assert check("FULL", proto, [proto]) == []


def test_many_alternatives_end_with_the_budget() -> None:
    def one_of(offset: int) -> str:
        return json.dumps({"oneOf": [{"type": "string", "minLength": n + offset} for n in range(1_000)]})

    found = check("BACKWARD", parse("JSON", one_of(1_000)), [parse("JSON", one_of(0))])
    assert "more than 100000 comparisons" in found[0]


def test_defaults_of_recursive_unions_take_no_exponential_time() -> None:
    branches = ["null", "A", "B"]
    records = [{"type": "record", "name": name, "fields": [{"name": "n", "type": branches}]} for name in "AB"]
    default = json.loads('{"n":' * 80 + "1" + "}" * 80)
    field = {"name": "f", "type": records, "default": default}
    assert "Invalid default" in refused(
        "AVRO", json.dumps({"type": "record", "name": "X", "fields": [field]})
    )


def test_types_that_are_defined_again_and_again_are_refused() -> None:
    big = {"type": "record", "name": "B", "fields": [{"name": f"f{n}", "type": "int"} for n in range(8_000)]}
    user = {"type": "record", "name": "R", "fields": [{"name": "b", "type": "B"}]}
    fields = [{"name": f"r{n}", "type": user} for n in range(5_000)]
    record = {"type": "record", "name": "X", "fields": [{"name": "b", "type": big}, *fields]}
    assert "again and again" in refused("AVRO", json.dumps(record))


def test_unions_with_thousands_of_names_are_compared() -> None:
    union = parse("AVRO", json.dumps([{"type": "fixed", "name": f"F{n}", "size": 1} for n in range(20_000)]))
    assert check("BACKWARD", union, [parse("AVRO", union.canonical)]) == []


def test_long_names_and_values_are_not_repeated_without_end() -> None:
    def named(kind: str) -> str:
        properties = {f"a{n}": {"type": kind} for n in range(300)}
        return json.dumps({"properties": {"n" * 100_000: {"type": "object", "properties": properties}}})

    found = check("FULL", parse("JSON", named("string")), [parse("JSON", named("integer"))])
    assert 0 < sum(map(len, found)) < 2_000_000
    refused("AVRO", json.dumps({"typ": "x" * 100_000}))
    symbols = [f"S{n}" for n in range(20_000)]
    refused("AVRO", json.dumps({"type": "enum", "name": "E", "symbols": symbols, "default": "T"}))


@pytest.mark.parametrize("names", [["a", "a/b.proto"], ["中" * 200 + ".proto"]])
def test_imports_that_cannot_be_files_are_refused(names: list[str]) -> None:
    text = 'syntax="proto3";' + "".join(f'import "{name}";' for name in names)
    assert "is no name that an import can have" in refused(
        "PROTOBUF", text, dict.fromkeys(names, 'syntax="proto3";')
    )


def test_a_default_beyond_all_doubles_is_normalised() -> None:
    field = {"name": "d", "type": "double", "default": 10**400}
    parsed = parse("AVRO", json.dumps({"type": "record", "name": "X", "fields": [field]}))
    assert '"default":"Infinity"' in parsed.normalized


def test_reference_bombs_are_refused() -> None:
    assert "references" in refused("AVRO", '"int"', {f"r{n}": '"int"' for n in range(1_001)})
    assert "references" in refused("JSON", "{}", {f"r{n}": '"' + "x" * 1_000_000 + '"' for n in range(9)})
    cycle = {"a.proto": 'syntax="proto3"; import "b.proto";', "b.proto": 'syntax="proto3"; import "a.proto";'}
    assert "recursively imports itself" in refused("PROTOBUF", 'syntax="proto3"; import "a.proto";', cycle)
    definitions = {"a": {"$ref": "#/definitions/b"}, "b": {"$ref": "#/definitions/a"}}
    loop = json.dumps({"$ref": "#/definitions/a", "definitions": definitions})
    assert check("FULL", parse("JSON", loop), [parse("JSON", loop)]) == []


CATASTROPHIC = [
    "(a+)+$",
    "(a*)*b",
    "(a|a)*b",
    "(a|b|ab)*c",
    "^(([a-z])+.)+[A-Z]([a-z])+$",
    "(.*)*x",
    r"^(\w+\s?)*$",
    "(x+x+)+y",
]
HARMLESS = [
    r"^([a-z]+\.)*[a-z]+$",
    r"^(?!foo).*bar$",
    r"^\d{4}-\d{2}-\d{2}$",
    r"^[^@]+@[^@]+\.[a-z]+$",
    "(a|b)*",
    r"^(?<y>[0-9]{4})$",
    r"^\p{L}+$",
    r"^((25[0-5]|2[0-4]\d|[01]?\d\d?)\.){3}(25[0-5]|2[0-4]\d|[01]?\d\d?)$",
    "^[a-z0-9]+(-[a-z0-9]+)*$",
    "^(.*)$",
]


@pytest.mark.parametrize("pattern", CATASTROPHIC)
def test_catastrophic_patterns_are_refused(pattern: str) -> None:
    assert "exponential" in refused("JSON", json.dumps({"type": "string", "pattern": pattern}))
    assert "exponential" in refused("JSON", json.dumps({"patternProperties": {pattern: {}}}))


@pytest.mark.parametrize("pattern", HARMLESS)
def test_patterns_that_people_use_are_taken(pattern: str) -> None:
    check_pattern(pattern)


def test_patterns_are_checked_and_matched_in_bounded_time() -> None:
    check_pattern("(" + "a?b?" * 100 + "c)*")
    check_pattern("[a-z]{1,10}" * 800)
    with pytest.raises(InvalidSchema, match="more than 10000 characters"):
        check_pattern("a" * 10_001)
    assert "patterns" in refused("JSON", json.dumps({"allOf": [{"pattern": f"^a{n}"} for n in range(1_001)]}))
    assert not matches("^(?=(a+)+$)b", "a" * 60 + "b")
    assert matches("^a", "abc")
    assert not matches("(", "(")
