"""The converters that keep schemas in a registry, on our registry."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
from tests.integration.registry_stage import RunningRegistry

from ottla.connect.converters.registry import AvroConverter, JsonSchemaConverter, ProtobufConverter
from ottla.connect.data import schema as s
from ottla.connect.data.schema import Schema
from ottla.connect.errors import DataError
from ottla.testing.local_broker import OttlaBroker

ROW = s.struct(
    {
        "id": Schema(s.INT64),
        "name": Schema(s.STRING, optional=True),
        "price": s.decimal(2, optional=True),
        "at": s.timestamp_schema(optional=True),
        "tags": Schema(s.ARRAY, optional=True, items=Schema(s.STRING)),
        "in": s.struct({"x": Schema(s.INT32)}, "shop.Inner", optional=True),
    },
    "shop.Row",
)
VALUE = {
    "id": 5,
    "name": None,
    "price": Decimal("1.25"),
    "at": datetime(2020, 1, 2, tzinfo=UTC),
    "tags": ["a"],
    "in": {"x": 1},
}


def test_schemas_are_registered_and_read_back() -> None:
    with OttlaBroker() as broker, RunningRegistry(broker.bootstrap_servers) as registry:
        config = {"schema.registry.url": registry.server.url}
        avro = AvroConverter(config, is_key=False)
        data = avro.to_bytes("orders", ROW, VALUE)
        assert data is not None
        assert data[0] == 0
        schema, value = avro.to_value("orders", data)
        assert value == VALUE
        assert schema is not None
        assert schema.field_map()["price"] == s.decimal(2, optional=True)
        assert schema.name == "shop.Row"

        simple = s.struct({"id": Schema(s.INT64), "name": Schema(s.STRING, optional=True)}, "shop.Simple")
        for kind in (JsonSchemaConverter, ProtobufConverter):
            converter: Any = kind(config, is_key=False)
            data = converter.to_bytes(kind.__name__, simple, {"id": 7, "name": "x"})
            _, value = converter.to_value(kind.__name__, data)
            assert (int(value["id"]), value["name"]) == (7, "x"), kind
        with pytest.raises(DataError):
            avro.to_value("orders", b"plain")
        with pytest.raises(DataError):
            avro.to_bytes("orders", ROW, {"id": "no number"})
