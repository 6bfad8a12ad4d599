"""`ottla produce --format csv|avro`: rows become records."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator

import fastavro
import pytest

from ottla.cli.support.table_input import RowError, avro_rows, csv_rows, field_kinds, in_portions

KINDS = {
    "id": frozenset({"long"}),
    "zip": frozenset({"string"}),
    "price": frozenset({"null", "double"}),
    "paid": frozenset({"boolean"}),
}


def rows_of(text: str, **settings) -> list[dict]:
    return [json.loads(row) for row in csv_rows(io.BytesIO(text.encode()), KINDS, **settings)]


def test_cells_become_the_types_of_their_fields():
    assert rows_of("id,zip,price,paid,more\n7,01234,4.5,TRUE,8\n8,1,,no,\n") == [
        {"id": 7, "zip": "01234", "price": 4.5, "paid": True, "more": "8"},
        {"id": 8, "zip": "1", "price": None, "paid": "no", "more": ""},
    ]


def test_quotes_line_ends_and_a_byte_order_mark_are_understood():
    assert rows_of('\ufeffzip,more\r\n"a,b","two\r\nlines"\r\n\r\n') == [
        {"zip": "a,b", "more": "two\r\nlines"}
    ]
    assert rows_of("id;zip\n7;x\n", delimiter=";") == [{"id": 7, "zip": "x"}]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("id,zip\n1\n", "line 2 of the CSV: 1 cells, and the first line names 2"),
        ("id\n7\nseven\n", "line 3 of the CSV: id: 'seven' is not a number"),
        ('zip\n"open\n', "of the CSV: unexpected end of data"),
        ("zip\n\udcff\n", "of the CSV: 'utf-8' codec can't decode"),
    ],
)
def test_a_bad_row_is_named(text, why):
    with pytest.raises(RowError, match=why.replace("(", r"\(")):
        list(csv_rows(io.BytesIO(text.encode(errors="surrogateescape")), KINDS))


async def test_rows_before_a_bad_one_come_first():
    def rows() -> Iterator[bytes]:
        yield b"1"
        yield b"2"
        raise RowError("line 4: bad")

    found: list[bytes] = []
    with pytest.raises(RowError, match="line 4"):
        async for some in in_portions(rows()):
            found += some
    assert found == [b"1", b"2"]


def test_records_of_an_avro_file_are_json():
    schema = {"type": "record", "name": "r", "fields": [{"name": "id", "type": "long"}]}
    file = io.BytesIO()
    fastavro.writer(file, schema, [{"id": 1}, {"id": 2}])
    file.seek(0)
    assert [json.loads(row) for row in avro_rows(file)] == [{"id": 1}, {"id": 2}]
    with pytest.raises(RowError, match="not an Avro object container file"):
        list(avro_rows(io.BytesIO(b"id\n1\n")))


def test_types_come_from_avro_and_json_schemas():
    avro = {
        "type": "record",
        "name": "r",
        "fields": [
            {"name": "a", "type": ["null", {"type": "int"}]},
            {"name": "b", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        ],
    }
    assert field_kinds("AVRO", json.dumps(avro)) == {"a": {"null", "int"}, "b": {"string"}}
    schema = {"properties": {"a": {"type": ["integer", "null"]}, "b": {}}}
    assert field_kinds("JSON", json.dumps(schema)) == {"a": {"integer", "null"}, "b": set()}
    assert field_kinds("PROTOBUF", "message") == {}


def test_rows_are_records_with_keys(ottla, peer, monkeypatch):
    topic = peer.add_topic("orders")
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"id,name\n7,tea\n8,milk\n")))
    done = ottla("produce", "orders", "--format", "csv", "--key-field", "id")
    assert (done.code, done.err) == (0, "Wrote 2 records to orders\n")
    assert [(each.key, json.loads(each.value)) for each in topic.partitions[0].records()] == [
        (b"7", {"id": "7", "name": "tea"}),
        (b"8", {"id": "8", "name": "milk"}),
    ]


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("x", "--format", "csv"), "--format csv reads standard input"),
        (("--key-field", "id"), "--key-field needs --format csv or avro"),
        (("--format", "avro", "--key-separator", ":"), "needs lines rather than avro"),
    ],
)
def test_options_that_make_no_sense_are_wrong_usage(ottla, peer, words, why):
    peer.add_topic("orders")
    failed = ottla("produce", "orders", *words)
    assert failed.code == 2
    assert why in failed.err
