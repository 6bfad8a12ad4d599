"""Protobuf: the text that is stored, the normalised text, descriptors, imports, tags."""

from __future__ import annotations

import base64

import pytest
from google.protobuf import descriptor_pb2

from ottla.registry.formats import Entity, InvalidSchema, message_indexes, message_name, parse

TEXT = """
// A comment.
syntax = "proto3"; package x;
import "google/protobuf/timestamp.proto";
option java_package = 'a.b';
message M { int32 a=1; oneof o {string b=2;} map<string,M> m=4; enum E {A=0; B = 0x1;}
  reserved 10 to max, 7; reserved "z";
  E e = 5 [deprecated=true, json_name="j"]; google.protobuf.Timestamp t = 6;
  message N { optional bytes x = 1; } }
enum F { option allow_alias = true; Z = 0; Y = 0; }
service S { rpc Do (stream M) returns (M) { option deprecated = true; } }
"""
CANONICAL = """syntax = "proto3";
package x;

import "google/protobuf/timestamp.proto";

option java_package = "a.b";

message M {
  reserved 10 to max, 7;
  reserved "z";

  int32 a = 1;
  map<string, M> m = 4;
  E e = 5 [
    deprecated = true,
    json_name = "j"
  ];
  google.protobuf.Timestamp t = 6;

  oneof o {
    string b = 2;
  }

  message N {
    optional bytes x = 1;
  }
  enum E {
    A = 0;
    B = 1;
  }
}
enum F {
  option allow_alias = true;
  Z = 0;
  Y = 0;
}

service S {
  rpc Do (stream M) returns (M) {
    option deprecated = true;
  };
}
"""


def test_the_canonical_text_is_confluents() -> None:
    parsed = parse("PROTOBUF", TEXT)
    assert parsed.canonical == CANONICAL
    assert parse("PROTOBUF", CANONICAL).canonical == CANONICAL
    assert parsed.name == "x.M"


def test_the_normalised_text_sorts_and_resolves() -> None:
    normalized = parse("PROTOBUF", TEXT).normalized
    assert "map<string, .x.M> m = 4;" in normalized
    assert ".google.protobuf.Timestamp t = 6;" in normalized
    assert 'reserved 7;\n  reserved 10 to max;\n  reserved "z";' in normalized
    assert "rpc Do (stream .x.M) returns (.x.M)" in normalized
    assert normalized.index("Y = 0") < normalized.index("Z = 0")
    again = parse("PROTOBUF", normalized)
    assert again.normalized == normalized
    swapped = 'syntax="proto3"; message M { string b = 2; int32 a = 1; }'
    assert parse("PROTOBUF", swapped, normalize=True).canonical.index("a = 1") < 50


def test_a_descriptor_is_a_schema_too() -> None:
    parsed = parse("PROTOBUF", TEXT)
    serialized = parsed.formatted("serialized")
    descriptor = descriptor_pb2.FileDescriptorProto.FromString(base64.b64decode(serialized))
    assert descriptor.name == "default"
    assert [each.name for each in descriptor.message_type] == ["M"]
    assert descriptor.message_type[0].field[0].type_name == ""
    again = parse("PROTOBUF", serialized)
    assert again.normalized == parsed.normalized
    assert again.formatted("serialized") == serialized


def test_confluents_options_survive_the_way_through_a_descriptor() -> None:
    text = 'syntax="proto3"; import "confluent/meta.proto";'
    text += 'message M { string a = 1 [(confluent.field_meta) = {tags: ["PII"]}]; }'
    parsed = parse("PROTOBUF", text)
    again = parse("PROTOBUF", parsed.formatted("serialized"))
    assert again.tagged_entities() == {Entity("M.a", "sr_field"): ["PII"]}
    assert again.normalized == parsed.normalized


def test_messages_have_indexes() -> None:
    parsed = parse(
        "PROTOBUF", 'syntax="proto3"; package p; message A {} message B { message C {} message D {} }'
    )
    assert message_indexes(parsed, "p.B.D") == [1, 1]
    assert message_indexes(parsed, "A") == [0]
    assert message_name(parsed, [1, 0]) == "p.B.C"
    assert message_name(parsed, []) == "p.A"
    with pytest.raises(InvalidSchema, match="no message X"):
        message_indexes(parsed, "X")
    with pytest.raises(InvalidSchema, match="Invalid message indexes"):
        message_name(parsed, [7])
    with pytest.raises(InvalidSchema, match="has no messages"):
        message_name(parse("AVRO", '"int"'), [0])


REFUSED = {
    "nonsense": "Could not parse Protobuf",
    'syntax = "proto9";': "unknown syntax: proto9",
    'syntax="proto3"; message M { Foo a = 1; }': '"Foo" is not defined',
    'syntax="proto3"; message M { int32 a = 1; int32 b = 1; }': "has already been used",
    'syntax="proto3"; message M { int32 a = 1 }': "expected ';'",
    'syntax="proto3"; message M { int32 a = one; }': "expected an integer",
    'syntax="proto3"; import "nowhere.proto"; message M {}': "neither a reference nor a well-known file",
    'syntax="proto3"; import "/etc/passwd"; message M {}': "neither a reference nor a well-known file",
    'syntax="proto3"; message M { string a = 1; } /* open': "found '/'",
    'syntax="proto3"; enum E { A = 1; }': "first enum value must be zero",
}


@pytest.mark.parametrize("text", REFUSED)
def test_what_protoc_refuses_is_refused(text: str) -> None:
    with pytest.raises(InvalidSchema) as caught:
        parse("PROTOBUF", text)
    assert REFUSED[text] in str(caught.value)


@pytest.mark.parametrize(
    "name", ["../up.proto", "/abs.proto", "a/../b.proto", "a\\b.proto", "a//b.proto", "a\0b"]
)
def test_references_with_names_that_leave_the_folder_are_refused(name: str) -> None:
    text = f'syntax="proto3"; import "{name}"; message M {{ }}'
    with pytest.raises(InvalidSchema):
        parse("PROTOBUF", text, {name: 'syntax="proto3";'})


def test_imports_are_references_or_well_known() -> None:
    other = 'syntax="proto3"; package o; message Other { string a = 1; }'
    names = ("a/other.proto", "google/type/date.proto", "confluent/type/decimal.proto")
    text = 'syntax="proto3";' + "".join(f'import "{name}";' for name in names)
    text += "message M { o.Other a = 1; google.type.Date b = 2; confluent.type.Decimal c = 3; }"
    parsed = parse("PROTOBUF", text, {"a/other.proto": other})
    assert ".o.Other a = 1;" in parsed.normalized


def test_an_empty_file_stands_for_what_it_imports_publicly() -> None:
    wrapper = 'syntax="proto3"; import public "o.proto";'
    parsed = parse("PROTOBUF", wrapper, {"o.proto": 'syntax="proto3"; package o; message Other {}'})
    assert parsed.name == "o.Other"
    assert message_indexes(parsed, "o.Other") == [0]


def test_extensions_can_be_left_out() -> None:
    text = 'syntax="proto2"; message M { extensions 100 to 199; } extend M { optional int32 x = 100; }'
    parsed = parse("PROTOBUF", text)
    assert "extend" not in parsed.formatted("ignore_extensions")
    assert parsed.formatted("whatever") == parsed.canonical


def test_tags_are_found_and_changed() -> None:
    text = 'syntax="proto3"; message M { string a = 1; oneof o { string b = 2; } }'
    parsed = parse("PROTOBUF", text)
    field, message = Entity("M.b", "sr_field"), Entity("M", "sr_record")
    tagged = parse("PROTOBUF", parsed.with_tags({field: ["X", "Y"], message: ["T"]}, {}))
    assert tagged.tagged_entities() == {message: ["T"], field: ["X", "Y"]}
    plain = parse("PROTOBUF", tagged.with_tags({}, {field: ["X", "Y"], message: ["T"]}))
    assert plain.tagged_entities() == {}
