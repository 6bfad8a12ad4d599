"""Avro data that would end the process which decodes it is refused."""

from __future__ import annotations

import io
import json
import random
import time
from typing import Any

import pytest
from fastavro import parse_schema, schemaless_writer

from ottla.registry.serdes.avro_bounds import MAX_EMPTY_ITEMS, MAX_LEVELS
from ottla.registry.serdes.codecs import CodecOptions, text_codec
from ottla.registry.serdes.errors import SerdeError
from ottla.registry.serdes.framing import Frame
from ottla.registry.serdes.registry_client import Schema

LIST = {"type": "record", "name": "L", "fields": [{"name": "next", "type": ["null", "L"]}]}
TREE = {
    "type": "record",
    "name": "T",
    "fields": [
        {"name": "n", "type": "int"},
        {"name": "name", "type": "string"},
        {"name": "kind", "type": {"type": "enum", "name": "K", "symbols": ["A", "B"]}},
        {"name": "raw", "type": {"type": "fixed", "name": "F", "size": 3}},
        {"name": "number", "type": ["null", "double", "boolean", "float"]},
        {"name": "children", "type": {"type": "array", "items": "T"}},
        {"name": "named", "type": {"type": "map", "values": "T"}},
        {"name": "nothing", "type": {"type": "array", "items": "null"}},
    ],
}


def decode(schema: Any, data: bytes) -> Any:
    return text_codec(Schema(json.dumps(schema), "AVRO"), {}, CodecOptions()).decode(Frame(0, data, None))


def number(value: int) -> bytes:
    value = (value << 1) ^ (value >> 63)
    found = bytearray()
    while value > 127:
        found.append(value & 127 | 128)
        value >>= 7
    return bytes([*found, value])


@pytest.mark.parametrize("levels", [MAX_LEVELS + 1, 100_000])
def test_data_that_is_nested_too_deeply_is_refused(levels: int) -> None:
    with pytest.raises(SerdeError, match="levels deep"):
        decode(LIST, b"\x02" * levels + b"\x00")


def test_a_list_of_some_hundred_records_is_decoded() -> None:
    found = decode(LIST, b"\x02" * 300 + b"\x00")
    for _ in range(300):
        found = found["next"]
    assert found == {"next": None}


def test_a_record_that_is_a_field_of_itself_has_no_data() -> None:
    schema = {"type": "record", "name": "R", "fields": [{"name": "r", "type": "R"}]}
    with pytest.raises(SerdeError, match="levels deep"):
        decode(schema, b"")


EMPTY = {"type": "record", "name": "E", "fields": [{"name": "n", "type": "null"}]}


@pytest.mark.parametrize("items", ["null", EMPTY, {"type": "fixed", "name": "F", "size": 0}])
def test_items_without_bytes_are_limited_in_all_blocks_together(items: Any) -> None:
    schema = {"type": "array", "items": items}
    for data in (
        number(10**9) + b"\x00",
        number(-(10**9)) + b"\x00\x00",
        (number(MAX_EMPTY_ITEMS) * 2) + b"\x00",
    ):
        with pytest.raises(SerdeError, match="without bytes"):
            decode(schema, data)
    assert len(decode(schema, number(1_000) + b"\x00")) == 1_000


def tree(chance: random.Random, depth: int) -> dict[str, Any]:
    several = chance.randrange(3) if depth else 0
    return {
        "n": chance.randrange(-(2**31), 2**31),
        "name": "é" * chance.randrange(100),
        "kind": chance.choice("AB"),
        "raw": chance.randbytes(3),
        "number": chance.choice([None, 1.5, True]),
        "children": [tree(chance, depth - 1) for _ in range(several)],
        "named": {str(each): tree(chance, depth - 1) for each in range(several)},
        "nothing": [None] * chance.randrange(5),
    }


def test_what_is_valid_is_decoded_as_before() -> None:
    chance = random.Random(7)
    schema = parse_schema(TREE)
    for _ in range(50):
        value = tree(chance, 4)
        stream = io.BytesIO()
        schemaless_writer(stream, schema, value)
        assert decode(TREE, stream.getvalue()) == value


def test_whatever_bytes_there_are_the_process_survives_in_bounded_time() -> None:
    chance = random.Random(8)
    started = time.thread_time()
    for _ in range(300):
        data = bytes(chance.choice(b"\x00\x02\x04\x01\x03\xff\x80") for _ in range(2_000))
        for schema in (TREE, LIST, {"type": "map", "values": {"type": "array", "items": LIST}}):
            try:
                decode(schema, data)
            except SerdeError:
                continue
    assert time.thread_time() - started < 60
