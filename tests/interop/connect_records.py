"""Random records and transforms, for Kafka Connect's classes and for ours."""

from __future__ import annotations

import base64
import json
import random
from typing import Any

NAMES = ("id", "name", "at", "nested", "more", "a.b")
WHOLE_NUMBERS = {"int8": 8, "int16": 16, "int32": 32, "int64": 64}
LOGICAL = {
    "Decimal": ("bytes", {"scale": "2"}),
    "Date": ("int32", None),
    "Time": ("int32", None),
    "Timestamp": ("int64", None),
}
LEAVES = (*WHOLE_NUMBERS, "float", "double", "boolean", "string", "bytes", *LOGICAL)
TEXTS = ("", "x", "12", "-7", "true", "1.5", "2020-01-02", "2020-01-02T03:04:05.678Z", 'quote " and é', "1e3")
DAY_MS = 86_400_000


class RandomRecords:
    """Makes records, with or without schemas, and configs of transforms that fit them more or less."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def case(self) -> dict[str, Any]:
        """Return a record and its transforms."""
        chance = self.random
        has_schemas = chance.random() < 0.7
        value = self._enveloped(has_schemas, self._top)
        key = self._enveloped(has_schemas, self._leaf if chance.random() < 0.6 else self._top)
        timestamp = chance.choice([None, 0, 1_577_934_245_678])
        headers = [
            [name, chance.choice(["1", "x", "true", "1.5", '{"a":1}', "[1,2]", None, "2020-01-02", '"q"'])]
            for name in chance.sample(["h", "i", "j"], chance.randrange(3))
        ]
        return {
            "schemas": has_schemas,
            "nulls": chance.random() < 0.3,
            "topic": chance.choice(["orders", "shop.public.items"]),
            "partition": 3,
            "offset": 11,
            "timestamp": timestamp,
            "key": None if key is None else json.dumps(key),
            "value": None if value is None else json.dumps(value),
            "headers": headers,
            "steps": [self._step() for _ in range(chance.choice([0, 1, 1, 1, 1, 2, 3]))],
        }

    def _enveloped(self, has_schemas: bool, made: Any) -> Any:
        schema = made(2)
        if self.random.random() < 0.06:
            return None
        if not has_schemas:
            return self._value({**schema, "optional": False}, plain=True)
        value = self._value(schema)
        return {"schema": schema, "payload": value}

    def _top(self, depth: int) -> dict[str, Any]:
        return self._struct(depth) if self.random.random() < 0.9 else self._leaf(depth)

    def _schema(self, depth: int) -> dict[str, Any]:
        kind = self.random.random()
        if depth > 0 and kind < 0.2:
            return self._struct(depth - 1)
        if depth > 0 and kind < 0.27:
            return {"type": "array", "items": self._schema(depth - 1), "optional": self._is_optional()}
        if depth > 0 and kind < 0.34:
            keys = {"type": self.random.choice(["string", "string", "int32"]), "optional": False}
            items = self._schema(depth - 1)
            return {"type": "map", "keys": keys, "values": items, "optional": self._is_optional()}
        return self._leaf(depth)

    def _is_optional(self) -> bool:
        return self.random.random() < 0.5

    def _struct(self, depth: int) -> dict[str, Any]:
        names = self.random.sample(NAMES, self.random.randrange(1, 5))
        fields = [{**self._schema(depth), "field": name} for name in names]
        found: dict[str, Any] = {"type": "struct", "fields": fields, "optional": self._is_optional()}
        if self.random.random() < 0.3:
            found |= {"name": "com.example.Order", "version": 3, "doc": "an order"}
        return found

    def _leaf(self, _: int) -> dict[str, Any]:
        kind = self.random.choice(LEAVES)
        found: dict[str, Any] = {"type": kind, "optional": self._is_optional()}
        if kind in LOGICAL:
            word, parameters = LOGICAL[kind]
            found |= {"type": word, "name": f"org.apache.kafka.connect.data.{kind}", "version": 1}
            if parameters:
                found["parameters"] = parameters
        if self.random.random() < 0.15:
            found["default"] = self._value({**found, "optional": False})
        if self.random.random() < 0.05:
            found["doc"] = "a field"
        return found

    def _value(self, schema: dict[str, Any], *, plain: bool = False) -> Any:
        chance, kind = self.random, schema["type"]
        if schema["optional"] and chance.random() < 0.25:
            return None
        if kind == "struct":
            return {each["field"]: self._value(each, plain=plain) for each in schema["fields"]}
        if kind == "array":
            return [self._value(schema["items"], plain=plain) for _ in range(chance.randrange(3))]
        if kind == "map":
            values = [self._value(schema["values"], plain=plain) for _ in range(chance.randrange(3))]
            if plain or schema["keys"]["type"] == "string":
                return {f"k{number}": each for number, each in enumerate(values)}
            return [[number, each] for number, each in enumerate(values)]
        return self._leaf_value(schema, kind, plain=plain)

    def _leaf_value(self, schema: dict[str, Any], kind: str, *, plain: bool) -> Any:
        chance, name = self.random, schema.get("name", "").rpartition(".")[2]
        if name == "Decimal" and not plain:
            number = chance.choice([0, 1, -1, 250, 12345, -99999])
            return base64.b64encode(number.to_bytes(8, "big", signed=True)).decode()
        if name == "Date":
            return chance.choice([18_263, 19_000])
        if name == "Time":
            return chance.randrange(DAY_MS)
        if name == "Timestamp":
            return chance.choice([1_577_934_245_678, 1_577_934_245_000])
        if kind in WHOLE_NUMBERS:
            limit = 1 << WHOLE_NUMBERS[kind] - 1
            return chance.choice([0, 1, -1, 7, limit - 1, -limit])
        if kind in ("float", "double"):
            return chance.choice([0.0, 1.5, -2.25, 1e6, 3.0e9 if kind == "double" else 9.5, -129.5])
        if kind == "boolean":
            return chance.random() < 0.5
        if kind == "bytes" and not plain:
            return base64.b64encode(chance.choice([b"", b"x", b"\x00\xff"])).decode()
        return chance.choice(TEXTS)

    def _name(self) -> str:
        return self.random.choice((*NAMES[:5], "missing"))

    def _names(self) -> str:
        return ",".join(self.random.sample((*NAMES[:5], "missing"), self.random.choice([1, 1, 2, 3])))

    def _step(self) -> dict[str, str]:
        kinds = [name for name in dir(self) if name.startswith("_make_")]
        found: dict[str, str] = getattr(self, self.random.choice(kinds))()
        if not found["type"].endswith("!"):
            found["type"] += self.random.choice(["$Value", "$Value", "$Value", "$Key"])
        found["type"] = found["type"].rstrip("!")
        return found

    def _null(self) -> dict[str, str]:
        given = self.random.choice([None, None, "true", "false"])
        return {} if given is None else {"replace.null.with.default": given}

    def _make_extract(self) -> dict[str, str]:
        if self.random.random() < 0.5:
            return {"type": "ExtractField", "field": self._name(), **self._null()}
        path = self.random.choice([f"{self._name()}.{self._name()}", "`a.b`", "nested.`a.b`", self._name()])
        return {"type": "ExtractField", "field": path, "field.syntax.version": "V2", **self._null()}

    def _make_hoist(self) -> dict[str, str]:
        return {"type": "HoistField", "field": "all"}

    def _make_replace(self) -> dict[str, str]:
        found = {"type": "ReplaceField", **self._null()}
        for key in self.random.sample(["include", "exclude"], self.random.randrange(3)):
            found[key] = self._names()
        if self.random.random() < 0.4:
            found["renames"] = f"{self._name()}:renamed"
        return found

    def _make_flatten(self) -> dict[str, str]:
        return {"type": "Flatten", "delimiter": self.random.choice([".", "_"])}

    def _make_insert(self) -> dict[str, str]:
        kinds = self.random.sample(["topic", "partition", "offset", "timestamp"], self.random.randrange(3))
        found = {f"{each}.field": f"its_{each}" + self.random.choice(["", "!", "?"]) for each in kinds}
        if not found or self.random.random() < 0.3:
            found |= {"static.field": self.random.choice(["fixed", "id"]), "static.value": "v"}
        return {"type": "InsertField", **found, **self._null()}

    def _make_mask(self) -> dict[str, str]:
        found = {"type": "MaskField", "fields": self._names(), **self._null()}
        if self.random.random() < 0.5:
            found["replacement"] = self.random.choice(["9", "x", "1.5", "***"])
        return found

    def _make_metadata(self) -> dict[str, str]:
        found = {"type": "SetSchemaMetadata", **self._null()}
        if self.random.random() < 0.7:
            found["schema.name"] = "org.example.Other"
        if self.random.random() < 0.7:
            found["schema.version"] = "7"
        return found

    def _make_cast(self) -> dict[str, str]:
        kinds = [*WHOLE_NUMBERS, "float64", "boolean", "string"]
        if self.random.random() < 0.2:
            return {"type": "Cast", "spec": self.random.choice(kinds), **self._null()}
        pairs = {each: self.random.choice(kinds) for each in self._names().split(",")}
        spec = ",".join(f"{name}:{kind}" for name, kind in pairs.items())
        return {"type": "Cast", "spec": spec, **self._null()}

    def _make_times(self) -> dict[str, str]:
        target = self.random.choice(["string", "unix", "Date", "Time", "Timestamp"])
        found = {"type": "TimestampConverter", "target.type": target, **self._null()}
        if self.random.random() < 0.8:
            found["field"] = self._name()
        if target == "string" or self.random.random() < 0.5:
            found["format"] = self.random.choice(["yyyy-MM-dd", "yyyy-MM-dd'T'HH:mm:ss.SSSX"])
        if self.random.random() < 0.3:
            found["unix.precision"] = self.random.choice(
                ["seconds", "milliseconds", "microseconds", "nanoseconds"]
            )
        return found

    def _make_headers(self) -> dict[str, str]:
        names = self._names()
        headers = ",".join(f"from_{each}" for each in names.split(","))
        operation = self.random.choice(["move", "copy"])
        return {
            "type": "HeaderFrom",
            "fields": names,
            "headers": headers,
            "operation": operation,
            **self._null(),
        }

    def _make_insert_header(self) -> dict[str, str]:
        literal = self.random.choice(
            ["1", "x", "true", "1.5", "2020-01-02", "[1]", '{"a":1}', "300", "70000"]
        )
        return {"type": "InsertHeader!", "header": "added", "value.literal": literal}

    def _make_drop_headers(self) -> dict[str, str]:
        return {"type": "DropHeaders!", "headers": "h,i"}

    def _make_router(self) -> dict[str, str]:
        regex, replacement = self.random.choice(
            [
                ("(.*)\\.(.*)", "$2"),
                ("orders", "other"),
                ("ord", "x"),
                ("(?<a>o.*)", "${a}-x"),
                (".*", "a\\$b"),
            ]
        )
        return {"type": "RegexRouter!", "regex": regex, "replacement": replacement}

    def _make_time_router(self) -> dict[str, str]:
        return {
            "type": "TimestampRouter!",
            "timestamp.format": self.random.choice(["yyyyMMdd", "yyyy-MM-dd-HH"]),
        }

    def _make_value_to_key(self) -> dict[str, str]:
        return {"type": "ValueToKey!", "fields": self._names(), **self._null()}
