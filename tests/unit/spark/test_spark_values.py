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

from ottla.spark.errors import WrongOption
from ottla.spark.options import SOURCE, Given
from ottla.spark.source.deserializing import BadValue, Deserializer, columns_of_avro, read_deserializer
from ottla.spark.source.schema_registry import RegistryUnreachable, latest_schema

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
RECORD = {"id": 7, "note": None, "at": 1_000, "tags": ["a"]}


def deserializer(columns: list[str], schema: pa.Schema, **options: str) -> Deserializer:
    given = Given({"kafka.bootstrap.servers": "x:1", "subscribe": "orders", **options}, SOURCE)
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
    with pytest.raises(BadValue, match="value of orders-0 at offset 1 is not json"):
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
    """An HTTP server with one schema, as Confluent's registry answers."""

    class Answers(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            known = self.path in ("/schemas/ids/5", "/subjects/orders-value/versions/latest")
            body = json.dumps({"schema": json.dumps(AVRO)} if known else {"error_code": 40401}).encode()
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
    with pytest.raises(BadValue, match="does not begin with byte 0"):
        made.apply(rows(b"no such thing"))
    with pytest.raises(RegistryUnreachable, match="schemas/ids/6"):
        made.apply(rows(struct.pack(">bI", 0, 6) + b"x"))


def test_a_registry_that_is_not_there_is_named() -> None:
    with pytest.raises(RegistryUnreachable, match=r"http://127\.0\.0\.1:1/subjects/orders-value"):
        latest_schema("http://127.0.0.1:1", "orders")
