"""Values into columns: JSON at once or one by one, Avro, Avro with a registry."""

from __future__ import annotations

import io
import json
import struct
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread

import pyarrow as pa
import pytest
from fastavro import schemaless_writer

from ottla.spark.errors import SparkError, WrongOption
from ottla.spark.options import SINK, SOURCE, GivenOptions
from ottla.spark.sink.serializing import read_serialize_options, serialized
from ottla.spark.source.deserializing import BadValue, Deserializer, columns_of_avro, read_deserializer
from ottla.spark.source.schema_registry import RegistryUnreachable, columns_of_json_schema, latest_avro

AVRO = {
    "type": "record",
    "name": "order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "note", "type": ["null", "string"], "default": None},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "tags", "type": {"type": "array", "items": "string"}},
    ],
}
PERSON = {
    "type": "object",
    "properties": {
        "name": {"type": ["string", "null"]},
        "tags": {"type": "array", "items": {"type": "string"}},
    },
}
PART = """syntax = "proto3"; import "google/protobuf/timestamp.proto";
message Part { int64 size = 1; google.protobuf.Timestamp at = 2; Inner inner = 3; map<string, bool> names = 4;
message Inner { repeated int32 n = 1; } }"""
RECORD = {"id": 7, "note": None, "at": 1_000, "tags": ["a"]}


def deserializer(columns: list[str], schema: pa.Schema, **options: str) -> Deserializer:
    given = GivenOptions({"kafka.bootstrap.servers": "x:1", "subscribe": "orders", **options}, SOURCE)
    return read_deserializer(given).choosing(columns).typed(schema)


def rows(*values: bytes | None) -> pa.RecordBatch:
    count = len(values)
    return pa.record_batch(
        {
            "value": pa.array(values, pa.binary()),
            "topic": ["orders"] * count,
            "partition": pa.array([0] * count, pa.int32()),
            "offset": pa.array(range(count), pa.int64()),
        }
    )


def written(record: dict[str, object]) -> bytes:
    out = io.BytesIO()
    schemaless_writer(out, AVRO, record)
    return out.getvalue()


def test_json_is_the_same_at_once_and_one_by_one() -> None:
    schema = pa.schema([("id", pa.int32()), ("name", pa.string())])
    made = deserializer(["id", "name"], schema, deserialize="json", valueSchema="id INT, name STRING")
    expected = [{"id": 1, "name": "a"}, {"id": 2, "name": None}]
    together = rows(b'{"id": 1, "name": "a"}', b'{"id": 2, "other": [1]}')
    one_by_one = rows(b'{"id": 1,\n "name": "a"}', b'{"id": 2, "other": [1]}')
    assert made.apply(together).to_pylist() == expected
    assert made.apply(one_by_one).to_pylist() == expected
    assert made.apply(rows(None)).to_pylist() == [{"id": None, "name": None}]


@pytest.mark.parametrize("bad", [b"{", b"[1]", b'{"id": "seven"}', b"\xff"])
def test_a_value_that_does_not_fit_fails_with_its_place_or_is_kept(bad: bytes) -> None:
    schema = pa.schema([("id", pa.int32())])
    made = deserializer(["id"], schema, deserialize="json", valueSchema="id INT")
    with pytest.raises(BadValue, match="value of orders-0 at offset 1 is not valid json"):
        made.apply(rows(b'{"id": 1}', bad))
    wide = pa.schema([("id", pa.int32()), ("value", pa.binary()), ("error", pa.string())])
    keeping = {"deserialize": "json", "valueSchema": "id INT", "badRecords": "keep"}
    kept = deserializer(["id", "value", "error"], wide, **keeping).apply(rows(b'{"id": 1}', bad)).to_pylist()
    assert [row["id"] for row in kept] == [1, None]
    assert kept[0]["error"] is None
    assert kept[1]["value"] == bad
    assert kept[1]["error"]


def test_avro_types_become_sql_types() -> None:
    assert columns_of_avro(AVRO) == {
        "id": "bigint",
        "note": "string",
        "at": "timestamp",
        "tags": "array<string>",
    }
    with pytest.raises(WrongOption, match="must be an Avro record"):
        columns_of_avro("string")


@pytest.fixture
def registry() -> Iterator[str]:
    """An HTTP server with a schema of each type, as Confluent's registry answers."""
    old = {**AVRO, "fields": [AVRO["fields"][0], *AVRO["fields"][2:]]}
    part = {"schema": PART, "schemaType": "PROTOBUF", "id": 8}
    person = {"schema": json.dumps(PERSON), "schemaType": "JSON", "id": 7}
    found = {
        "/schemas/ids/5": {"schema": json.dumps(AVRO)},
        "/schemas/ids/6": {"schema": json.dumps(old)},
        "/schemas/ids/7": person,
        "/schemas/ids/8": part,
        "/schemas/guids/00000000-0000-0000-0000-000000000005": {"schema": json.dumps(AVRO)},
        "/subjects/orders-value/versions/latest": {"schema": json.dumps(AVRO), "id": 5},
        "/subjects/people-value/versions/latest": person,
        "/subjects/parts-value/versions/latest": part,
    }

    class Answers(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            path = self.path.partition("?")[0]
            known = path in found
            body = json.dumps(found[path] if known else {"error_code": 40403}).encode()
            self.send_response(200 if known else 404)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Answers)
    thread = Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_registry_knows_what_values_were_written_with(registry: str) -> None:
    schema = pa.schema([("id", pa.int64()), ("tags", pa.list_(pa.string()))])
    made = deserializer(["id", "tags"], schema, deserialize="registry", schemaRegistryUrl=registry)
    value = struct.pack(">bI", 0, 5) + written(RECORD)
    assert made.apply(rows(value)).to_pylist() == [{"id": 7, "tags": ["a"]}]
    with pytest.raises(BadValue, match="does not start with byte 0"):
        made.apply(rows(b"no such thing"))
    with pytest.raises(BadValue, match="no schema with the id 9"):
        made.apply(rows(struct.pack(">bI", 0, 9) + b"x"))


def test_every_value_is_read_by_its_own_schema_into_the_latest(registry: str) -> None:
    schema = pa.schema([("id", pa.int64()), ("note", pa.string())])
    made = deserializer(["id", "note"], schema, deserialize="registry", schemaRegistryUrl=registry)
    old = {**AVRO, "fields": [AVRO["fields"][0], *AVRO["fields"][2:]]}
    stream = io.BytesIO()
    schemaless_writer(stream, old, {"id": 6, "at": 1_000, "tags": []})
    values = (struct.pack(">bI", 0, 6) + stream.getvalue(), struct.pack(">bI", 0, 5) + written(RECORD))
    assert made.apply(rows(*values)).to_pylist() == [{"id": 6, "note": None}, {"id": 7, "note": None}]


def test_a_header_may_name_the_schema(registry: str) -> None:
    schema = pa.schema([("id", pa.int64())])
    made = deserializer(["id"], schema, deserialize="registry", schemaRegistryUrl=registry)
    assert "headers" in made.needed
    batch = rows(written(RECORD))
    headers = pa.array([[{"key": "__value_schema_id", "value": b"\1" + bytes(15) + b"\5"}]])
    assert made.apply(batch.append_column("headers", headers)).to_pylist() == [{"id": 7}]


def test_an_unknown_id_is_kept_with_the_reason(registry: str) -> None:
    schema = pa.schema([("id", pa.int64()), ("value", pa.binary()), ("error", pa.string())])
    made = deserializer(
        ["id", "value", "error"],
        schema,
        deserialize="registry",
        schemaRegistryUrl=registry,
        badRecords="keep",
    )
    bad = struct.pack(">bI", 0, 9) + b"x"
    good, kept = made.apply(rows(struct.pack(">bI", 0, 5) + written(RECORD), bad)).to_pylist()
    assert (good["id"], good["error"]) == (7, None)
    assert (kept["id"], kept["value"]) == (None, bad)
    assert "no schema with the id 9" in kept["error"]


def test_json_schema_and_protobuf_become_columns(registry: str) -> None:
    schema = pa.schema([("name", pa.string()), ("tags", pa.list_(pa.string()))])
    options = {"deserialize": "registry", "schemaRegistryUrl": registry}
    made = deserializer(["name", "tags"], schema, **{**options, "subscribe": "people"})
    assert dict(made.types) == {"name": "string", "tags": "array<string>"}
    value = struct.pack(">bI", 0, 7) + b'{"name": "Ada", "tags": ["x"]}'
    assert made.apply(rows(value)).to_pylist() == [{"name": "Ada", "tags": ["x"]}]
    schema = pa.schema([("size", pa.int64())])
    made = deserializer(["size"], schema, **{**options, "subscribe": "parts"})
    assert dict(made.types) == {
        "size": "bigint",
        "at": "timestamp",
        "inner": "struct<`n`:array<int>>",
        "names": "map<string,boolean>",
    }
    assert made.apply(rows(struct.pack(">bI", 0, 8) + b"\0\x08\x05")).to_pylist() == [{"size": 5}]
    with pytest.raises(WrongOption, match="which type name has"):
        columns_of_json_schema({"properties": {"name": {}}})


def test_structs_are_written_with_the_latest_schema(registry: str) -> None:
    given = GivenOptions(
        {"kafka.bootstrap.servers": "x:1", "serialize": "registry", "schemaRegistryUrl": registry}, SINK
    )
    options = read_serialize_options(given)
    assert options is not None
    column = pa.array([RECORD, None], pa.struct([(name, pa.array([RECORD[name]]).type) for name in RECORD]))
    assert serialized(options, column, ["orders"] * 2) == [struct.pack(">bI", 0, 5) + written(RECORD), None]
    with pytest.raises(SparkError, match="the value for orders cannot be serialized"):
        serialized(options, pa.array([{"id": "x"}]), ["orders"])


def test_a_registry_that_is_not_there_is_named() -> None:
    with pytest.raises(RegistryUnreachable, match=r"no registry at http://127\.0\.0\.1:1"):
        latest_avro("http://127.0.0.1:1", "orders")
