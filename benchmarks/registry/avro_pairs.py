"""Generates pairs of Avro schemas: an old one, and a new one that differs from it in one to three places."""

from __future__ import annotations

import copy
import json
import random
from typing import Any

PRIMITIVES = ("null", "boolean", "int", "long", "float", "double", "bytes", "string")
NAMES = ("A", "B", "C", "D", "E")


def avro_pair(rng: random.Random) -> tuple[str, str]:
    old = _Generator(rng).schema()
    new = copy.deepcopy(old)
    for _ in range(rng.choice((0, 1, 1, 1, 2, 3))):
        new = _mutated(rng, new)
    if rng.random() < 0.1:
        new = _Generator(rng).schema()
    return json.dumps(old), json.dumps(new)


class _Generator:
    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.names: list[str] = []

    def schema(self) -> Any:
        return self.named("record", 0) if self.rng.random() < 0.8 else self.type(0)

    def type(self, depth: int) -> Any:
        rng = self.rng
        roll = rng.random()
        if depth > 3 or roll < 0.45:
            if self.names and rng.random() < 0.15:
                return rng.choice(self.names)
            return rng.choice(PRIMITIVES)
        if roll < 0.55:
            return {"type": "array", "items": self.type(depth + 1)}
        if roll < 0.65:
            return {"type": "map", "values": self.type(depth + 1)}
        if roll < 0.8:
            return self.union(depth + 1)
        return self.named(rng.choice(("record", "enum", "fixed")), depth + 1)

    def union(self, depth: int) -> list[Any]:
        branches: dict[str, Any] = {}
        for _ in range(self.rng.randint(1, 3)):
            each = self.type(depth)
            if isinstance(each, list):
                continue
            key = each if isinstance(each, str) else str(each.get("name", each["type"]))
            branches.setdefault(key, each)
        return list(branches.values()) or ["null"]

    def named(self, kind: str, depth: int) -> Any:
        rng = self.rng
        name = f"{rng.choice(NAMES)}{len(self.names)}"
        self.names.append(name)
        out: dict[str, Any] = {"type": kind, "name": name}
        if kind == "enum":
            out["symbols"] = rng.sample(("X", "Y", "Z", "W"), rng.randint(1, 4))
            if rng.random() < 0.3:
                out["default"] = rng.choice(out["symbols"])
        elif kind == "fixed":
            out["size"] = rng.randint(1, 3)
        else:
            out["fields"] = [self.field(f"f{number}", depth + 1) for number in range(rng.randint(0, 4))]
        return out

    def field(self, name: str, depth: int) -> Any:
        out: dict[str, Any] = {"name": name, "type": self.type(depth)}
        if self.rng.random() < 0.3:
            default = _default(out["type"])
            if default is not None:
                out["default"] = default[0]
        return out


def _default(kind: Any) -> tuple[Any] | None:
    """Return a default for a type in a tuple, since null is one."""
    simple = {
        "null": None,
        "boolean": True,
        "int": 1,
        "long": 2,
        "float": 1.5,
        "double": 2.5,
        "bytes": "x",
        "string": "s",
    }
    if isinstance(kind, str):
        return (simple[kind],) if kind in simple else None
    if isinstance(kind, list):
        return _default(kind[0]) if kind else None
    return ([],) if kind["type"] == "array" else ({},) if kind["type"] == "map" else None


def _nodes(node: Any) -> list[Any]:
    found = [node]
    if isinstance(node, list):
        for each in node:
            found += _nodes(each)
    elif isinstance(node, dict):
        for key in ("items", "values"):
            if key in node:
                found += _nodes(node[key])
        for each in node.get("fields", ()):
            found += _nodes(each["type"])
    return found


def _mutated(rng: random.Random, root: Any) -> Any:
    nodes = [each for each in _nodes(root) if not isinstance(each, str)]
    if not nodes:
        return rng.choice(PRIMITIVES)
    node = rng.choice(nodes)
    if isinstance(node, list):
        if len(node) > 1 and rng.random() < 0.4:
            node.pop(rng.randrange(len(node)))
        else:
            extra = rng.choice(PRIMITIVES)
            if extra not in node:
                node.append(extra)
    elif node["type"] == "record":
        _mutate_record(rng, node)
    elif node["type"] == "enum":
        _mutate_enum(rng, node)
    elif node["type"] == "fixed":
        node["size"] = rng.randint(1, 3)
    else:
        inner = "items" if node["type"] == "array" else "values"
        if isinstance(node[inner], str):
            node[inner] = rng.choice(PRIMITIVES)
    return root


def _mutate_record(rng: random.Random, node: dict[str, Any]) -> None:
    fields = node["fields"]
    roll = rng.random()
    if roll < 0.3 or not fields:
        added: dict[str, Any] = {"name": f"n{rng.randint(0, 9)}", "type": rng.choice(PRIMITIVES)}
        if rng.random() < 0.5:
            added["default"] = (_default(added["type"]) or (None,))[0]
        if all(each["name"] != added["name"] for each in fields):
            fields.insert(rng.randint(0, len(fields)), added)
    elif roll < 0.5:
        fields.pop(rng.randrange(len(fields)))
    elif roll < 0.7:
        each = rng.choice(fields)
        if isinstance(each["type"], str) and each["type"] in PRIMITIVES:
            each["type"] = rng.choice(
                (*PRIMITIVES, ["null", each["type"]] if each["type"] != "null" else "int")
            )
            each.pop("default", None)
    elif roll < 0.8:
        each = rng.choice(fields)
        each["aliases"] = [each["name"]]
        each["name"] = f"r{rng.randint(0, 99)}"
    elif roll < 0.9:
        rng.choice(fields).pop("default", None)
    else:
        node["aliases"] = [node["name"]]
        node["name"] = f"R{rng.randint(0, 99)}"


def _mutate_enum(rng: random.Random, node: dict[str, Any]) -> None:
    roll = rng.random()
    if roll < 0.4:
        added = [each for each in ("X", "Y", "Z", "W", "V") if each not in node["symbols"]]
        node["symbols"] += added[:1]
    elif roll < 0.7 and len(node["symbols"]) > 1:
        gone = node["symbols"].pop()
        if node.get("default") == gone:
            del node["default"]
    else:
        node["default"] = node["symbols"][0]
