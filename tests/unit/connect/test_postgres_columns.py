"""Rows for PostgreSQL in columns: what is left to the general way."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest

from ottla.connect.connectors.postgresql.columns import Outcome, outcome_of
from ottla.connect.converters.plain import JsonConverter
from ottla.connect.data.json_codec import FastPathMiss

KEY = {"type": "struct", "optional": False, "fields": [{"field": "id", "type": "int32"}]}
VALUE = {"type": "struct", "optional": True, "fields": [{"field": "name", "type": "string"}]}


def outcome(*rows: tuple[Any, Any]) -> Outcome:
    columns = {
        name: pa.chunked_array([[_json(schema, row[at]) for row in rows]], pa.binary())
        for at, (name, schema) in enumerate({"key": KEY, "value": VALUE}.items())
    }
    key, value = JsonConverter({}, is_key=True), JsonConverter({}, is_key=False)
    return outcome_of("t", pa.table(columns), key, value, [])


def _json(schema: Any, payload: Any) -> bytes:
    return json.dumps({"schema": schema, "payload": payload}, separators=(",", ":")).encode()


def test_the_newest_row_of_a_key_is_written() -> None:
    found = outcome(({"id": 1}, {"name": "old"}), ({"id": 1}, {"name": "new"}))
    assert found.upserts.to_pylist() == [{"id": 1, "name": "new"}]


@pytest.mark.parametrize("others", [(), ({"name": "a"},)])
def test_a_value_whose_payload_is_null_is_left_to_the_general_way(others: tuple[Any, ...]) -> None:
    """It deletes a row. Arrow makes a row of nulls of it, or crashes if there is nothing else."""
    with pytest.raises(FastPathMiss):
        outcome(*(({"id": 1}, each) for each in (*others, None)))
