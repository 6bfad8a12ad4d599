"""The seven levels: direction, transitivity, order of messages; and the identity of schemas."""

from __future__ import annotations

import hashlib
import json

import pytest

from ottla.registry.formats import LEVELS, Reference, check, parse, schema_guid, schema_md5


def avro(*names: str, default: str = "") -> str:
    fields = [{"name": n, "type": "int", **({"default": 0} if n in default else {})} for n in names]
    return json.dumps({"type": "record", "name": "R", "fields": fields})


OLD, NEW = parse("AVRO", avro("a")), parse("AVRO", avro("a", "b"))  # NEW needs b
EMPTY = parse("AVRO", avro())


@pytest.mark.parametrize(
    ("level", "fits"),
    [("NONE", True), ("BACKWARD", False), ("FORWARD", True), ("FULL", False), ("BACKWARD_TRANSITIVE", False)],
)
def test_the_direction_counts(level: str, fits: bool) -> None:
    assert (check(level, NEW, [OLD]) == []) is fits


def test_only_transitive_levels_look_further_back() -> None:
    history = [EMPTY, NEW]  # the oldest has no field
    assert check("BACKWARD", NEW, history) == []
    assert check("BACKWARD_TRANSITIVE", NEW, history)
    assert check("FORWARD_TRANSITIVE", EMPTY, [NEW, EMPTY])
    assert check("FULL_TRANSITIVE", OLD, [OLD, OLD]) == []


@pytest.mark.parametrize("level", LEVELS)
def test_without_history_everything_fits(level: str) -> None:
    assert check(level, NEW, []) == []


def test_messages_name_the_old_schema_and_its_version() -> None:
    found = check("BACKWARD_TRANSITIVE", NEW, [EMPTY, OLD], [1, 4])
    assert found[-2:] == ["{oldSchemaVersion: 4}", f"{{oldSchema: '{OLD.canonical}'}}"]


def test_full_reports_forward_first() -> None:
    new = parse("AVRO", avro("b"))
    found = check("FULL", new, [OLD])
    assert ["in the old schema has no default" in each for each in found[:2]] == [True, False]
    assert len(found) == 3


def test_a_long_old_schema_is_cut() -> None:
    old = parse("AVRO", avro(*(f"f{number}" for number in range(1000))))
    found = check("BACKWARD", parse("AVRO", avro("other")), [old])
    assert found[-1].startswith("{oldSchema: <truncated> '{")
    assert len(found[-1]) < 11_000


def test_other_types_and_levels() -> None:
    assert check("BACKWARD", NEW, [parse("JSON", "{}")]) == ["Incompatible because of different schema type"]
    with pytest.raises(ValueError, match="SIDEWAYS is not a compatibility level"):
        check("SIDEWAYS", NEW, [OLD])


def test_the_identity_is_an_md5_over_text_references_metadata_and_rules() -> None:
    text = '"int"'
    assert schema_md5(text) == hashlib.md5(text.encode()).digest()
    assert schema_guid(text).replace("-", "") == schema_md5(text).hex()
    reference = Reference("n", "s", 258)
    assert schema_md5(text, [reference]) == hashlib.md5(b'"int"ns\0\0\1\2').digest()
    metadata = {"tags": {"b": ["y", "x"], "a": []}, "properties": {"k": "v"}, "sensitive": ["k"]}
    assert schema_md5(text, [], metadata) == hashlib.md5(b'"int"\1abxykvk').digest()
    rules = {"domainRules": [{"name": "n", "kind": "CONDITION", "mode": "WRITE", "type": "CEL", "expr": "e"}]}
    assert schema_md5(text, [], None, rules) == hashlib.md5(b'"int"\1nCONDITIONWRITECELe').digest()
    assert schema_md5(text, [], {}) != schema_md5(text)
