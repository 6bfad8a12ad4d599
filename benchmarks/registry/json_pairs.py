"""Generates pairs of JSON Schemas: an old one, and a new one that differs from it in one to three places."""

from __future__ import annotations

import copy
import json
import random
from typing import Any

TYPES = ("string", "integer", "number", "boolean", "null", "array", "object")
NAMES = ("a", "b", "c", "x1", "x2")
DRAFTS = (
    "http://json-schema.org/draft-07/schema#",
    "http://json-schema.org/draft-04/schema#",
    "https://json-schema.org/draft/2020-12/schema",
)


def json_pair(rng: random.Random, draft: str | None = None) -> tuple[str, str]:
    generator = _Generator(rng, draft or rng.choice(DRAFTS))
    old = generator.root()
    new = copy.deepcopy(old)
    for _ in range(rng.choice((0, 1, 1, 1, 2, 3))):
        generator.mutate(new)
    if rng.random() < 0.1:
        new = generator.root()
    return json.dumps(old), json.dumps(new)


class _Generator:
    def __init__(self, rng: random.Random, draft: str) -> None:
        self.rng = rng
        self.draft = draft
        self.modern = "2020-12" in draft

    def root(self) -> dict[str, Any]:
        body = self.schema(0)
        while not isinstance(body, dict):
            body = self.schema(0)
        out: dict[str, Any] = {"$schema": self.draft, **body}
        if self.rng.random() < 0.4:
            definitions = "$defs" if self.modern else "definitions"
            out[definitions] = {name: self.schema(1, references=True) for name in ("p", "q")}
        else:
            out = _without_references(out)
        return out

    def schema(self, depth: int, *, references: bool = True) -> Any:
        rng = self.rng
        roll = rng.random()
        if roll < 0.04 and "draft-04" not in self.draft:
            return rng.choice((True, False))
        if roll < 0.08:
            return {}
        if roll < 0.14 and references and depth:
            where = "$defs" if self.modern else "definitions"
            return {"$ref": f"#/{where}/{rng.choice('pq')}"}
        if roll < 0.2:
            return {"enum": rng.sample((1, 2, "a", "b", None), rng.randint(1, 3))}
        if roll < 0.24 and "draft-04" not in self.draft:
            return {"const": rng.choice((1, "a", True))}
        if depth < 3 and roll < 0.4:
            criterion = rng.choice(("allOf", "anyOf", "oneOf"))
            members = [self.schema(depth + 1) for _ in range(rng.randint(1, 3))]
            out: dict[str, Any] = {criterion: members}
            if rng.random() < 0.2:
                out["type"] = rng.choice(TYPES)
            return out
        if depth < 3 and roll < 0.45:
            return {"not": self.schema(depth + 1)}
        if roll < 0.5:
            kinds = rng.sample(TYPES, rng.randint(1, 3))
            out = {"type": kinds}
            for kind in kinds:
                self.keywords(out, kind, depth)
            return out
        kind = rng.choice((*TYPES, "object", "object", "object"))
        out = {"type": kind} if rng.random() < 0.9 else {}
        self.keywords(out, kind, depth)
        if rng.random() < 0.1:
            out["title"] = "t"
        if rng.random() < 0.15:
            out["default"] = rng.choice((1, "a", False))
        if rng.random() < 0.05:
            out["format"] = "email"
        return out

    def keywords(self, out: dict[str, Any], kind: str, depth: int) -> None:
        rng = self.rng
        if kind == "string":
            self.maybe(out, "minLength", lambda: rng.randint(0, 3))
            self.maybe(out, "maxLength", lambda: rng.randint(3, 6))
            self.maybe(out, "pattern", lambda: rng.choice(("^a", "b$")))
        elif kind in ("integer", "number"):
            self.maybe(out, "minimum", lambda: rng.randint(0, 3))
            self.maybe(out, "maximum", lambda: rng.randint(3, 6))
            if "draft-04" not in self.draft:
                self.maybe(out, "exclusiveMinimum", lambda: rng.randint(0, 3), 0.15)
                self.maybe(out, "exclusiveMaximum", lambda: rng.randint(5, 9), 0.15)
            self.maybe(out, "multipleOf", lambda: rng.choice((1, 2, 3, 4, 0.5)), 0.2)
        elif kind == "array":
            self.array(out, depth)
        elif kind == "object":
            self.object(out, depth)

    def maybe(self, out: dict[str, Any], keyword: str, value: Any, chance: float = 0.3) -> None:
        if self.rng.random() < chance:
            out[keyword] = value()

    def array(self, out: dict[str, Any], depth: int) -> None:
        rng = self.rng
        self.maybe(out, "minItems", lambda: rng.randint(0, 2))
        self.maybe(out, "maxItems", lambda: rng.randint(2, 4))
        self.maybe(out, "uniqueItems", lambda: rng.random() < 0.7, 0.2)
        if depth >= 3:
            return
        if rng.random() < 0.5:
            out["items"] = self.schema(depth + 1)
        elif rng.random() < 0.5:
            out["prefixItems" if self.modern else "items"] = [
                self.schema(depth + 1) for _ in range(rng.randint(1, 2))
            ]
            more = "items" if self.modern else "additionalItems"
            self.maybe(out, more, lambda: rng.choice((True, False, self.schema(depth + 1))))
        if self.modern:
            self.maybe(out, "contains", lambda: self.schema(depth + 1), 0.1)
            if "contains" in out:
                self.maybe(out, "minContains", lambda: rng.randint(0, 2), 0.4)
            self.maybe(out, "unevaluatedItems", lambda: rng.choice((True, False, {"type": "string"})), 0.1)

    def object(self, out: dict[str, Any], depth: int) -> None:
        rng = self.rng
        names = rng.sample(NAMES, rng.randint(0, 3)) if depth < 3 else []
        if names:
            out["properties"] = {name: self.schema(depth + 1) for name in names}
            required = [name for name in names if rng.random() < 0.4]
            if required:
                out["required"] = required
        self.maybe(out, "additionalProperties", lambda: rng.choice((True, False, self.leaf())), 0.5)
        self.maybe(out, "patternProperties", lambda: {"^x": self.leaf()}, 0.15)
        self.maybe(out, "minProperties", lambda: rng.randint(0, 2), 0.15)
        self.maybe(out, "maxProperties", lambda: rng.randint(2, 4), 0.15)
        if self.modern:
            self.maybe(out, "unevaluatedProperties", lambda: rng.choice((True, False, self.leaf())), 0.15)
            self.maybe(out, "dependentRequired", lambda: {"a": rng.sample(NAMES, rng.randint(1, 2))}, 0.1)
            self.maybe(out, "dependentSchemas", lambda: {"b": self.leaf()}, 0.1)
        else:
            dependency = lambda: {"a": rng.sample(NAMES, rng.randint(1, 2)), "b": self.leaf()}  # noqa: E731
            self.maybe(out, "dependencies", dependency, 0.1)

    def leaf(self) -> Any:
        return {"type": self.rng.choice(("string", "integer", "number", "boolean"))}

    def mutate(self, root: dict[str, Any]) -> None:
        rng = self.rng
        places = _schemas(root)
        node = rng.choice(places)
        roll = rng.random()
        if roll < 0.25 and len(node) > 0:
            key = rng.choice(list(node))
            if key not in ("$schema", "$defs", "definitions"):
                del node[key]
                if key == "prefixItems":
                    node.pop("items", None)
        elif roll < 0.55:
            kind = node.get("type")
            kinds = kind if isinstance(kind, list) else [kind]
            self.keywords(node, rng.choice(kinds), 2)
        elif roll < 0.7 and "type" in node:
            node["type"] = rng.choice(TYPES)
        elif roll < 0.85 and isinstance(node.get("properties"), dict):
            node["properties"][rng.choice(NAMES)] = self.schema(2, references=False)
        else:
            for criterion in ("allOf", "anyOf", "oneOf"):
                if criterion in node:
                    self.mutate_members(node, criterion)
                    break
            else:
                if "enum" in node:
                    node["enum"] = rng.sample((1, 2, "a", "b", None), rng.randint(1, 4))

    def mutate_members(self, node: dict[str, Any], criterion: str) -> None:
        rng = self.rng
        roll = rng.random()
        if roll < 0.4:
            node[criterion].append(self.schema(2, references=False))
        elif roll < 0.7 and len(node[criterion]) > 1:
            node[criterion].pop(rng.randrange(len(node[criterion])))
        else:
            node[rng.choice(("allOf", "anyOf", "oneOf"))] = node.pop(criterion)


def _schemas(node: Any) -> list[dict[str, Any]]:
    """Return every subschema that is an object."""
    found: list[dict[str, Any]] = []
    if isinstance(node, dict):
        found.append(node)
        for key, value in node.items():
            if key in ("properties", "patternProperties", "definitions", "$defs", "dependentSchemas"):
                for each in value.values():
                    found += _schemas(each)
            elif key in ("allOf", "anyOf", "oneOf", "prefixItems") or (
                key == "items" and isinstance(value, list)
            ):
                for each in value:
                    found += _schemas(each)
            elif key in ("items", "additionalItems", "additionalProperties", "not", "contains"):
                found += _schemas(value)
    return found


def _without_references(node: Any) -> Any:
    if isinstance(node, dict):
        return {} if "$ref" in node else {key: _without_references(value) for key, value in node.items()}
    return [_without_references(each) for each in node] if isinstance(node, list) else node
