"""Names of records in the texts of schemas."""

from __future__ import annotations

import pytest

from ottla.api.schema_validation.record_names import Messages, record_names

PROTO = """
syntax = "proto3"; // message Not { }
package shop.v1;
option java_package = "message { no }";
/* message Neither {} */
enum Colour { RED = 0; }
message Order {
  oneof what { string message = 1; }
  map<string, int32> counts = 2 [deprecated = true];
  enum Kind { A = 0; }
  message Line { message Deep {} }
  message Address {}
}
service Orders { rpc Get(Order) returns (Order) { option (a) = { b: 1 }; } }
message Invoice { option (x).message = { message: "y" }; }
"""


@pytest.mark.parametrize(
    ("schema_type", "text", "name"),
    [
        ("AVRO", '{"type":"record","name":"User","namespace":"shop","fields":[]}', "shop.User"),
        ("AVRO", '{"type":"record","name":"shop.v2.User","namespace":"x","fields":[]}', "shop.v2.User"),
        ("AVRO", '"string"', None),
        ("JSON", '{"title":"Person","type":"object"}', "Person"),
        ("JSON", "true", None),
        ("JSON", "[" * 100_000, None),
    ],
)
def test_names_at_the_top(schema_type: str, text: str, name: str | None) -> None:
    assert record_names(schema_type, text) == name


@pytest.mark.parametrize(
    ("indexes", "name"),
    [
        ([0], "shop.v1.Order"),
        ([0, 0], "shop.v1.Order.Line"),
        ([0, 0, 0], "shop.v1.Order.Line.Deep"),
        ([0, 1], "shop.v1.Order.Address"),
        ([1], "shop.v1.Invoice"),
        ([2], None),
        ([0, 2], None),
        ([-1], None),
    ],
)
def test_messages_are_counted_as_in_the_text(indexes: list[int], name: str | None) -> None:
    messages = record_names("PROTOBUF", PROTO)
    assert isinstance(messages, Messages)
    assert messages.at(indexes) == name
