"""Protobuf: each rule with its type of difference, and verdicts against messages that are really decoded."""

from __future__ import annotations

import base64
import random
from typing import Any

import pytest
from benchmarks.registry.protobuf_pairs import protobuf_pair
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.message import DecodeError, EncodeError
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.registry.formats import InvalidSchema, check, parse
from ottla.registry.formats.protobuf.compatibility import COMPATIBLE, Compared, differences
from ottla.registry.formats.protobuf.schema import ProtobufSchema


def load(text: str, references: dict[str, str] | None = None) -> ProtobufSchema:
    return ProtobufSchema(
        'syntax="proto3";' + text if "syntax" not in text else text, references or {}, validate=True
    )


def changes(old: ProtobufSchema, new: ProtobufSchema) -> list[str]:
    found = differences(Compared(old.file, old.types), Compared(new.file, new.types))
    return sorted(f"{'+' if each.type in COMPATIBLE else '-'}{each.type} {each.pointer}" for each in found)


def m(body: str) -> str:
    return f"message M {{ {body} }}"


P2 = 'syntax="proto2";'
RULES = [
    (m("int32 a = 1;"), m("int32 a = 1;"), []),
    (m(""), m("int32 a = 1;"), ["+FIELD_ADDED #/M/1"]),
    (m("int32 a = 1;"), m(""), ["+FIELD_REMOVED #/M/1"]),
    (m("int32 a = 1;"), m("int32 b = 1;"), ["+FIELD_NAME_CHANGED #/M/1"]),
    *((m(f"{old} a = 1;"), m(f"{new} a = 1;"), []) for old, new in [("int32", "int64"), ("uint32", "bool")]),
    *(
        (m(f"{old} a = 1;"), m(f"{new} a = 1;"), [])
        for old, new in [("sint32", "sint64"), ("string", "bytes")]
    ),
    *(
        (m(f"{old} a = 1;"), m(f"{new} a = 1;"), [])
        for old, new in [("fixed32", "sfixed32"), ("fixed64", "sfixed64")]
    ),
    *(
        (m(f"{old} a = 1;"), m(f"{new} a = 1;"), ["-FIELD_SCALAR_KIND_CHANGED #/M/1"])
        for old, new in [
            ("int32", "sint32"),
            ("float", "double"),
            ("string", "int32"),
            ("fixed32", "fixed64"),
        ]
    ),
    (m("int32 a = 1;"), m("E a = 1; enum E { Z = 0; }"), ["+ENUM_ADDED #/M/E"]),
    (m("M a = 1;"), m("int32 a = 1;"), ["-FIELD_KIND_CHANGED #/M/1"]),
    (m("optional int32 a = 1;"), m("repeated int32 a = 1;"), ["-FIELD_NUMERIC_LABEL_CHANGED #/M/1"]),
    (
        m("optional string a = 1;"),
        m("repeated string a = 1;"),
        ["+FIELD_STRING_OR_BYTES_LABEL_CHANGED #/M/1"],
    ),
    (P2 + m(""), P2 + m("required int32 a = 1;"), ["-REQUIRED_FIELD_ADDED #/M/1"]),
    (P2 + m("required int32 a = 1;"), P2 + m(""), ["-REQUIRED_FIELD_REMOVED #/M/1"]),
    (m("map<string, int32> a = 1;"), m("map<string, string> a = 1;"), ["-FIELD_SCALAR_KIND_CHANGED #/M/1"]),
    (m("map<string, int32> a = 1;"), m("string a = 1;"), ["-FIELD_KIND_CHANGED #/M/1"]),
    (
        m("N a = 1; message N {}"),
        m("O a = 1; message N {} message O {}"),
        ["+MESSAGE_ADDED #/M/O", "-FIELD_NAMED_TYPE_CHANGED #/M/1"],
    ),
    (m("") + "message N {}", m(""), ["-MESSAGE_REMOVED #/N"]),
    (m("") + "message N {}", "message N {}" + m(""), ["+MESSAGE_MOVED #/M", "+MESSAGE_MOVED #/N"]),
    ("package a;" + m(""), "package b;" + m(""), ["-PACKAGE_CHANGED #/"]),
    (
        "enum E { A = 0; B = 1; }",
        "enum E { A = 0; C = 1; D = 2; }",
        ["+ENUM_CONST_ADDED #/E/2", "+ENUM_CONST_CHANGED #/E/1"],
    ),
    ("enum E { A = 0; B = 1; }", "enum E { A = 0; }", ["+ENUM_CONST_REMOVED #/E/1"]),
    ("enum E { A = 0; }" + m(""), m(""), ["+ENUM_REMOVED #/E"]),
    (m("int32 a = 1;"), m("oneof o { int32 a = 1; }"), ["+ONEOF_ADDED #/M/o"]),
    (
        m("int32 a = 1; int32 b = 2;"),
        m("oneof o { int32 a = 1; int32 b = 2; }"),
        ["+ONEOF_ADDED #/M/o", "-MULTIPLE_FIELDS_MOVED_TO_ONEOF #/M/o"],
    ),
    (
        m("oneof o { int32 a = 1; } int32 b = 2;"),
        m("oneof o { int32 a = 1; int32 b = 2; }"),
        ["-FIELD_MOVED_TO_EXISTING_ONEOF #/M/o"],
    ),
    (
        m("oneof o { int32 a = 1; int32 b = 2; }"),
        m("oneof o { int32 a = 1; }"),
        ["-ONEOF_FIELD_REMOVED #/M/o/2"],
    ),
    (
        m("oneof o { int32 a = 1; }"),
        m("oneof o { int32 a = 1; int32 b = 2; }"),
        ["+ONEOF_FIELD_ADDED #/M/o/2"],
    ),
    (
        m("oneof o { int32 a = 1; }"),
        m("int32 a = 1;"),
        ["+ONEOF_FIELD_MOVED_TO_TOP_LEVEL #/M/1", "+ONEOF_REMOVED #/M/o"],
    ),
    (m("oneof o { int32 a = 1; }"), m(""), ["+ONEOF_REMOVED #/M/o"]),
]


@pytest.mark.parametrize(("old", "new", "expected"), RULES)
def test_the_rules(old: str, new: str, expected: list[str]) -> None:
    assert changes(load(old), load(new)) == expected


def test_types_of_references_are_compared_with_what_they_hold() -> None:
    text = 'syntax="proto3"; import "o.proto"; message M { Other a = 1; }'
    old = load(text, {"o.proto": 'syntax="proto3"; message Other { int32 x = 1; }'})
    new = load(text, {"o.proto": 'syntax="proto3"; message Other { string x = 1; }'})
    assert changes(old, new) == ["-FIELD_NAMED_TYPE_CHANGED #/M/1", "-FIELD_SCALAR_KIND_CHANGED #/Other/1"]


def test_the_message_is_confluents() -> None:
    found = check("BACKWARD", load(m("string a = 1;")), [load(m("int32 a = 1;"))])
    assert found[0] == (
        '{errorType:"FIELD_SCALAR_KIND_CHANGED", description:"The kind of a SCALAR field at path '
        "'#/M/1' in the new "
        'schema does not match its kind in the old schema"}'
    )


def classes(schema: Any) -> dict[str, Any]:
    """Return the classes of the messages of a schema, by name."""
    pool = descriptor_pool.DescriptorPool()
    serialized = base64.b64decode(schema.formatted("serialized"))
    file = pool.AddSerializedFile(serialized) or pool.FindFileByName("default")
    assert descriptor_pb2.FileDescriptorProto.FromString(serialized).name == "default"
    return {name: message_factory.GetMessageClass(each) for name, each in file.message_types_by_name.items()}


def filled(message: Any, rng: random.Random, depth: int = 0) -> None:
    """Set fields at random; strings and bytes are ASCII, since they may change into one another."""
    for field in message.DESCRIPTOR.fields:
        if depth < 6 and (field.is_required or (rng.random() < 0.7 and depth < 4)):
            value = {1: 7, 2: 8, 3: 3, 4: 4, 5: 1.5, 6: 2.5, 7: True, 8: 0, 9: "s"}.get(field.cpp_type)
            value = b"s" if field.type == field.TYPE_BYTES else value
            if field.message_type is not None:
                if field.message_type.GetOptions().map_entry:
                    continue
                target = getattr(message, field.name)
                filled(target.add() if field.is_repeated else target, rng, depth + 1)
                if not field.is_repeated:
                    target.SetInParent()
            elif field.is_repeated:
                getattr(message, field.name).append(value)
            else:
                setattr(message, field.name, value)


@given(st.integers(0, 1 << 32))
@settings(max_examples=150, deadline=None)
def test_what_is_compatible_is_really_decoded(seed: int) -> None:
    rng = random.Random(seed)
    try:
        old, new = (parse("PROTOBUF", text) for text in protobuf_pair(rng))
    except InvalidSchema:
        return  # a message was removed that another one uses
    if check("BACKWARD", new, [old]):
        return
    before, after = classes(old), classes(new)
    for name in before.keys() & after.keys():
        message = before[name]()
        filled(message, rng)
        try:
            serialized = message.SerializeToString()
        except EncodeError:
            continue  # a required message within itself has no value
        try:
            after[name].FromString(serialized)
        except DecodeError as error:
            raise AssertionError((old.canonical, new.canonical, message)) from error
