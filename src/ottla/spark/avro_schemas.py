"""The columns that an Avro record has, in the types of SQL."""

from __future__ import annotations

from typing import Any

from ottla.spark.errors import WrongOption

SIMPLE = {
    "null": "void",
    "boolean": "boolean",
    "int": "int",
    "long": "bigint",
    "float": "float",
    "double": "double",
    "bytes": "binary",
    "string": "string",
    "enum": "string",
    "fixed": "binary",
}
LOGICAL = {
    "date": "date",
    "timestamp-millis": "timestamp",
    "timestamp-micros": "timestamp",
    "uuid": "string",
}


def columns_of_avro(schema: Any) -> dict[str, str]:
    """Return the fields of an Avro record with their SQL types; raise WrongOption if it is something else."""
    if not isinstance(schema, dict) or schema.get("type") != "record":
        raise WrongOption("valueSchema", "must be an Avro record: its fields become columns")
    named: dict[str, Any] = {}
    return {field["name"]: _type(field["type"], named) for field in schema.get("fields", ())}


def _type(schema: Any, named: dict[str, Any]) -> str:
    if isinstance(schema, list):
        kinds = [each for each in schema if each != "null"]
        if len(kinds) != 1:
            raise WrongOption("valueSchema", f"a union may be of one type and null, not {schema}")
        return _type(kinds[0], named)
    if isinstance(schema, str):
        if schema in SIMPLE:
            return SIMPLE[schema]
        if schema in named:
            return _type(named[schema], named)
        raise WrongOption("valueSchema", f"does not say what {schema} is")
    kind = schema["type"]
    if "name" in schema:
        named[schema["name"]] = schema
    logical = schema.get("logicalType")
    if logical == "decimal":
        return f"decimal({schema['precision']},{schema.get('scale', 0)})"
    if logical in LOGICAL:
        return LOGICAL[logical]
    if kind == "record":
        inner = ",".join(f"`{each['name']}`:{_type(each['type'], named)}" for each in schema["fields"])
        return f"struct<{inner}>"
    if kind == "array":
        return f"array<{_type(schema['items'], named)}>"
    if kind == "map":
        return f"map<string,{_type(schema['values'], named)}>"
    return _type(kind, named)
