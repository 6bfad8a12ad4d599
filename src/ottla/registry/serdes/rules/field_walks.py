"""Finds the fields of a record in Avro, JSON and Protobuf data, and lets them be changed.

Data of the user is never changed in place: a walk returns a copy.
"""

from __future__ import annotations

import datetime
import decimal
import json
import uuid
from collections.abc import Iterable, Mapping
from typing import Any

from ottla.registry.serdes.rules.fields import Field, Visit, tags_of

TAGS = "confluent:tags"
FIELD_META, META_TAGS = 1088, 3
"""Numbers of `confluent.field_meta` and of the tags in it."""
ByPath = Mapping[str, Iterable[str]]

_LOGICAL = (datetime.date, datetime.time, datetime.timedelta, decimal.Decimal, uuid.UUID)
_PYTHON: dict[str, tuple[type, ...]] = {
    "boolean": (bool,),
    "int": (int,),
    "long": (int,),
    "float": (float, int),
    "double": (float, int),
    "bytes": (bytes, bytearray),
    "fixed": (bytes, bytearray),
    "string": (str,),
    "enum": (str,),
    "array": (list, tuple),
    "map": (dict,),
    "record": (dict,),
}


class AvroWalk:
    """Fields of Avro data; takes the schema with everything that it refers to within it."""

    def __init__(self, schema: Any) -> None:
        self._schema = schema
        self._named: dict[str, Any] = {}
        self._collect(schema, "")

    def __call__(self, data: Any, visit: Visit, by_path: ByPath) -> Any:
        """Return the data with what `visit` returns for each field."""
        return self._walk(self._schema, data, None, visit, by_path, "")

    def _collect(self, schema: Any, space: str) -> None:
        if isinstance(schema, list):
            for each in schema:
                self._collect(each, space)
        elif isinstance(schema, dict):
            if schema.get("type") in ("record", "error", "enum", "fixed"):
                full = _full_name(schema, space)
                self._named[full] = schema
                space = full.rpartition(".")[0]
                for field in schema.get("fields", ()):
                    self._collect(field["type"], space)
            for part in ("items", "values", "type"):
                if isinstance(schema.get(part), dict | list):
                    self._collect(schema[part], space)

    def _walk(
        self, schema: Any, data: Any, field: Field | None, visit: Visit, by_path: ByPath, space: str
    ) -> Any:
        if isinstance(schema, list):
            schema = next((each for each in schema if self._fits(each, data, space)), None)
            if schema is None:
                return data
        schema = self._resolved(schema, space)
        kind = schema["type"] if isinstance(schema, dict) else schema
        if isinstance(kind, dict | list):
            return self._walk(kind, data, field, visit, by_path, space)
        if kind == "array" and isinstance(data, list | tuple):
            return [self._walk(schema["items"], each, field, visit, by_path, space) for each in data]
        if kind == "map" and isinstance(data, dict):
            inner = schema["values"]
            return {key: self._walk(inner, data[key], field, visit, by_path, space) for key in data}
        if kind in ("record", "error"):
            return self._record(schema, data, visit, by_path, space) if isinstance(data, dict) else data
        if field is None:
            return data
        return visit(Field(field.full_name, field.name, str(kind).upper(), field.tags, field.message), data)

    def _record(self, schema: Any, data: Any, visit: Visit, by_path: ByPath, space: str) -> Any:
        full = _full_name(schema, space)
        found = dict(data)
        for each in schema["fields"]:
            name = each["name"]
            if name in found:
                path = f"{full}.{name}"
                field = Field(path, name, "", tags_of(path, each.get(TAGS) or (), by_path), data)
                inner = full.rpartition(".")[0]
                found[name] = self._walk(each["type"], found[name], field, visit, by_path, inner)
        return found

    def _resolved(self, schema: Any, space: str) -> Any:
        if not isinstance(schema, str):
            return schema
        return self._named.get(f"{space}.{schema}" if space else schema) or self._named.get(schema) or schema

    def _fits(self, schema: Any, data: Any, space: str) -> bool:
        schema = self._resolved(schema, space)
        kind = schema["type"] if isinstance(schema, dict) else schema
        if kind == "null" or data is None:
            return kind == "null" and data is None
        if isinstance(data, _LOGICAL):
            return isinstance(schema, dict) and "logicalType" in schema
        if isinstance(data, bool):
            return bool(kind == "boolean")
        if not isinstance(kind, str) or not isinstance(data, _PYTHON.get(kind, ())):
            return False
        if kind != "record":
            return True
        given = set(data) if isinstance(data, dict) else set()
        wanted = {each["name"] for each in schema["fields"] if "default" not in each}
        return wanted <= given <= {each["name"] for each in schema["fields"]}


def _full_name(schema: Mapping[str, Any], space: str) -> str:
    name = str(schema["name"])
    if "." in name:
        return name
    space = schema.get("namespace", space) or ""
    return f"{space}.{name}" if space else name


_JSON_TYPES = {
    "object": "RECORD",
    "array": "ARRAY",
    "string": "STRING",
    "integer": "INT",
    "number": "DOUBLE",
    "boolean": "BOOLEAN",
    "null": "NULL",
}
_JSON_PYTHON: dict[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list, tuple),
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "null": (type(None),),
}


class JsonWalk:
    """Fields of JSON data; takes the schema and those that it refers to, as texts."""

    def __init__(self, text: str, references: Mapping[str, str]) -> None:
        self._schema = json.loads(text)
        self._references = {name: json.loads(each) for name, each in references.items()}

    def __call__(self, data: Any, visit: Visit, by_path: ByPath) -> Any:
        """Return the data with what `visit` returns for each field."""
        return self._walk(self._schema, self._schema, "$", data, None, visit, by_path)

    def _walk(
        self, root: Any, schema: Any, path: str, data: Any, field: Field | None, visit: Visit, by_path: ByPath
    ) -> Any:
        if not isinstance(schema, dict) or data is None:
            return data
        if "$ref" in schema:
            root, schema = self._resolved(root, str(schema["$ref"]))
            return self._walk(root, schema, path, data, field, visit, by_path)
        parts = list(schema.get("allOf") or ())
        for kind in ("oneOf", "anyOf"):
            parts += [each for each in schema.get(kind) or () if self._fits(root, each, data)][:1]
        for part in parts:
            data = self._walk(root, part, path, data, field, visit, by_path)
        if isinstance(data, list) and isinstance(schema.get("items"), dict):
            return [self._walk(root, schema["items"], path, each, field, visit, by_path) for each in data]
        if isinstance(data, dict):
            return self._object(root, schema, path, data, visit, by_path)
        if field is None or parts or isinstance(data, list):
            return data
        kind = _json_type(schema, data)
        return visit(Field(field.full_name, field.name, kind, field.tags, field.message), data)

    def _object(
        self, root: Any, schema: Any, path: str, data: dict[str, Any], visit: Visit, by_path: ByPath
    ) -> dict[str, Any]:
        found = dict(data)
        for name, inner in (schema.get("properties") or {}).items():
            if name in found and isinstance(inner, dict):
                full = f"{path}.{name}"
                field = Field(full, name, "", tags_of(full, inner.get(TAGS) or (), by_path), data)
                found[name] = self._walk(root, inner, full, found[name], field, visit, by_path)
        return found

    def _resolved(self, root: Any, ref: str) -> tuple[Any, Any]:
        name, _, pointer = ref.partition("#")
        if name:
            root = self._references.get(name, self._references.get(name.removeprefix("./"), {}))
        found = root
        for part in pointer.split("/")[1:]:
            key = part.replace("~1", "/").replace("~0", "~")
            found = found.get(key, {}) if isinstance(found, dict) else {}
        return root, found

    def _fits(self, root: Any, schema: Any, data: Any) -> bool:
        if not isinstance(schema, dict):
            return bool(schema)
        if "$ref" in schema:
            return self._fits(*self._resolved(root, str(schema["$ref"])), data)
        kinds = schema.get("type")
        kinds = [kinds] if isinstance(kinds, str) else kinds
        if kinds and not any(_is_of(data, each) for each in kinds):
            return False
        if "const" in schema and data != schema["const"]:
            return False
        if "enum" in schema and data not in schema["enum"]:
            return False
        return not isinstance(data, dict) or set(schema.get("required") or ()) <= set(data)


def _is_of(data: Any, kind: str) -> bool:
    if isinstance(data, bool):
        return kind == "boolean"
    return isinstance(data, _JSON_PYTHON.get(kind, ()))


def _json_type(schema: Mapping[str, Any], data: Any) -> str:
    kinds = schema.get("type")
    kinds = [kinds] if isinstance(kinds, str) else kinds or list(_JSON_TYPES)
    return next((_JSON_TYPES[each] for each in kinds if each in _JSON_TYPES and _is_of(data, each)), "STRING")


_PROTOBUF_TYPES = {
    1: "DOUBLE", 2: "FLOAT", 3: "LONG", 4: "LONG", 5: "INT", 6: "LONG", 7: "INT", 8: "BOOLEAN", 9: "STRING",
    12: "BYTES", 13: "INT", 14: "ENUM", 15: "INT", 16: "LONG", 17: "INT", 18: "LONG",
}  # fmt: skip
"""By the number that a descriptor has for it."""


def walk_message(message: Any, visit: Visit, by_path: ByPath) -> Any:
    """Return a copy of a Protobuf message with what `visit` returns for each field that is set."""
    found = type(message)()
    found.CopyFrom(message)
    _walk_fields(found, visit, by_path)
    return found


def _walk_fields(message: Any, visit: Visit, by_path: ByPath) -> None:
    for descriptor in message.DESCRIPTOR.fields:
        if descriptor.has_presence and not message.HasField(descriptor.name):
            continue
        value = getattr(message, descriptor.name)
        inner = descriptor.message_type
        is_map = inner is not None and inner.GetOptions().map_entry
        element = inner.fields_by_name["value"] if is_map else descriptor
        kind = _PROTOBUF_TYPES.get(element.type, "RECORD")
        tags = tags_of(descriptor.full_name, protobuf_tags(descriptor), by_path)
        field = Field(descriptor.full_name, descriptor.name, kind, tags, message)
        if element.message_type is not None:
            several = [value[key] for key in value] if is_map else value
            for each in several if is_map or descriptor.is_repeated else [value]:
                _walk_fields(each, visit, by_path)
        elif is_map:
            for key in list(value):
                value[key] = visit(field, value[key])
        elif descriptor.is_repeated:
            value[:] = [visit(field, each) for each in value]
        else:
            setattr(message, descriptor.name, visit(field, value))


def protobuf_tags(descriptor: Any) -> list[str]:
    """Return the tags in the options of a field: `[(confluent.field_meta).tags = "PII"]`."""
    options = descriptor.GetOptions()
    for option, value in options.ListFields():
        if option.full_name == "confluent.field_meta":  # its file is imported somewhere in this program
            return list(value.tags)
    from google.protobuf.empty_pb2 import Empty
    from google.protobuf.unknown_fields import UnknownFieldSet

    return [
        bytes(inner.data).decode()
        for option in UnknownFieldSet(options)
        if option.field_number == FIELD_META
        for inner in UnknownFieldSet(Empty.FromString(option.data))
        if inner.field_number == META_TAGS
    ]
