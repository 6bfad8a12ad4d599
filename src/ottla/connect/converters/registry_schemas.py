"""Connect's schemas in the languages of a schema registry: Avro both ways, JSON Schema and Protobuf to it."""

from __future__ import annotations

import json
import re
from typing import Any

from ottla.connect.data import schema as s
from ottla.connect.data.schema import Schema
from ottla.connect.errors import DataError

_AVRO = {
    s.BOOLEAN: "boolean", s.INT8: "int", s.INT16: "int", s.INT32: "int", s.INT64: "long", s.FLOAT32: "float",
    s.FLOAT64: "double", s.STRING: "string", s.BYTES: "bytes",
}  # fmt: skip
_AVRO_LOGICAL = {
    s.DATE_NAME: {"type": "int", "logicalType": "date"},
    s.TIME_NAME: {"type": "int", "logicalType": "time-millis"},
    s.TIMESTAMP_NAME: {"type": "long", "logicalType": "timestamp-millis"},
}
DECIMAL_PRECISION = 64


def to_avro(schema: Schema) -> str:
    """Return the Avro schema of a schema."""
    return json.dumps(_avro(schema, set(), "ConnectDefault"))


def _avro(schema: Schema, named: set[str], default_name: str) -> Any:
    found = _avro_type(schema, named, default_name)
    return ["null", found] if schema.optional else found


def _avro_type(schema: Schema, named: set[str], default_name: str) -> Any:
    if schema.name == s.DECIMAL_NAME:
        scale = int(schema.parameters.get("scale", "0"))
        return {"type": "bytes", "logicalType": "decimal", "precision": DECIMAL_PRECISION, "scale": scale}
    if schema.name in _AVRO_LOGICAL:
        return _AVRO_LOGICAL[schema.name]
    if schema.type == s.ARRAY and schema.items is not None:
        return {"type": "array", "items": _avro(schema.items, named, default_name + "Item")}
    if schema.type == s.MAP and schema.items is not None:
        return {"type": "map", "values": _avro(schema.items, named, default_name + "Value")}
    if schema.type != s.STRUCT:
        return _AVRO[schema.type]
    name = re.sub(r"[^A-Za-z0-9_.]", "_", schema.name or default_name)
    if name in named:
        return name
    named.add(name)
    fields = []
    for each in schema.fields:
        kind = _avro(each.schema, named, f"{name.rpartition('.')[2]}_{each.name}")
        field: dict[str, Any] = {"name": each.name, "type": kind}
        if each.schema.optional:
            field["default"] = None
        fields.append(field)
    return {"type": "record", "name": name, "fields": fields}


_FROM_AVRO = {
    "boolean": s.BOOLEAN, "int": s.INT32, "long": s.INT64, "float": s.FLOAT32, "double": s.FLOAT64,
    "string": s.STRING, "bytes": s.BYTES, "enum": s.STRING, "fixed": s.BYTES,
}  # fmt: skip
_FROM_LOGICAL = {
    "date": s.date_schema, "time-millis": s.time_schema, "time-micros": s.time_schema,
    "timestamp-millis": s.timestamp_schema, "timestamp-micros": s.timestamp_schema,
}  # fmt: skip


def from_avro(text: str) -> Schema | None:
    """Return the schema of an Avro schema; None if it has unions of several types."""
    try:
        return _connect(json.loads(text), {}, optional=False)
    except (KeyError, TypeError, _NoCounterpart):
        return None


class _NoCounterpart(Exception):
    pass


def _connect(found: Any, named: dict[str, Schema], *, optional: bool) -> Schema:
    if isinstance(found, list):
        others = [each for each in found if each != "null"]
        if len(others) != 1:
            raise _NoCounterpart
        return _connect(others[0], named, optional=len(others) < len(found))
    if isinstance(found, str):
        if found in named:
            return named[found]
        return Schema(_FROM_AVRO[found], optional)
    logical = found.get("logicalType")
    if logical == "decimal":
        return s.decimal(int(found.get("scale", 0)), optional=optional)
    if logical in _FROM_LOGICAL:
        return _FROM_LOGICAL[logical](optional=optional)
    kind = found["type"]
    if kind == "array":
        return Schema(s.ARRAY, optional, items=_connect(found["items"], named, optional=False))
    if kind == "map":
        values = _connect(found["values"], named, optional=False)
        return Schema(s.MAP, optional, keys=Schema(s.STRING), items=values)
    if kind != "record":
        return _connect(kind, named, optional=optional)
    space = found.get("namespace")
    name = f"{space}.{found['name']}" if space and "." not in found["name"] else found["name"]
    fields = {each["name"]: _connect(each["type"], named, optional=False) for each in found["fields"]}
    made = s.struct(fields, name, optional=optional)
    named[name] = named[found["name"]] = made
    return made


_JSON = {
    s.BOOLEAN: "boolean", s.INT8: "integer", s.INT16: "integer", s.INT32: "integer", s.INT64: "integer",
    s.FLOAT32: "number", s.FLOAT64: "number", s.STRING: "string", s.BYTES: "string",
}  # fmt: skip


def to_json_schema(schema: Schema) -> str:
    """Return the JSON Schema of a schema."""
    return json.dumps(_json_schema(schema))


def _json_schema(schema: Schema) -> dict[str, Any]:
    if schema.type == s.STRUCT:
        fields = {each.name: _json_schema(each.schema) for each in schema.fields}
        found: dict[str, Any] = {"type": "object", "properties": fields}
        required = [each.name for each in schema.fields if not each.schema.optional]
        if required:
            found["required"] = required
        if schema.name:
            found["title"] = schema.name
    elif schema.type == s.ARRAY and schema.items is not None:
        found = {"type": "array", "items": _json_schema(schema.items)}
    elif schema.type == s.MAP and schema.items is not None:
        found = {"type": "object", "additionalProperties": _json_schema(schema.items)}
    else:
        found = {"type": _JSON[schema.type], "connect.type": schema.type}
        if schema.name:
            found["title"] = schema.name
    return {"oneOf": [{"type": "null"}, found]} if schema.optional else found


_PROTOBUF = {
    s.BOOLEAN: "bool", s.INT8: "int32", s.INT16: "int32", s.INT32: "int32", s.INT64: "int64",
    s.FLOAT32: "float", s.FLOAT64: "double", s.STRING: "string", s.BYTES: "bytes",
}  # fmt: skip


def to_protobuf(schema: Schema) -> str:
    """Return the .proto text of a struct; fields are numbered in their order."""
    if schema.type != s.STRUCT:
        raise DataError("the Protobuf converter writes structs only")
    name = re.sub(r"\W", "_", (schema.name or "ConnectDefault").rpartition(".")[2])
    return 'syntax = "proto3";\n\n' + _message(name, schema, "")


def _message(name: str, schema: Schema, indent: str) -> str:
    lines = [f"{indent}message {name} {{"]
    for number, each in enumerate(schema.fields, 1):
        kind, label = each.schema, "optional " if each.schema.optional else ""
        if kind.type == s.ARRAY and kind.items is not None:
            kind, label = kind.items, "repeated "
        if kind.type == s.STRUCT:
            inner = f"{name}_{each.name}"
            lines.append(_message(inner, kind, indent + "  ").rstrip())
            lines.append(f"{indent}  {label}{inner} {each.name} = {number};")
        elif kind.type == s.MAP and kind.items is not None:
            lines.append(f"{indent}  map<string, {_PROTOBUF[kind.items.type]}> {each.name} = {number};")
        else:
            lines.append(f"{indent}  {label}{_PROTOBUF[kind.type]} {each.name} = {number};")
    return "\n".join([*lines, f"{indent}}}"]) + "\n"
