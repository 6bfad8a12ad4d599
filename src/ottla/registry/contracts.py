"""Data contracts: metadata and rule sets as clients send them, checked, and merged with a subject's defaults.

A config may have defaults, which a schema's own entries win over, and overrides, which win over those of the
schema. What a schema does not say at all it takes from the version before it.
"""

from __future__ import annotations

from typing import Any

from ottla.registry.entities import CONFLUENT_VERSION, RULE_KINDS, Json
from ottla.registry.errors import RegistryError, invalid_rule_set

MAX_RULE_NAME = 256
MIGRATION_MODES = frozenset({"UPGRADE", "DOWNGRADE", "UPDOWN"})
DOMAIN_MODES = frozenset({"WRITE", "READ", "WRITEREAD"})
BOTH_WAYS = frozenset({"WRITEREAD", "UPDOWN"})
_TEXTS = ("name", "doc", "kind", "mode", "type")
_ACTIONS = ("expr", "onSuccess", "onFailure")


def malformed(what: str) -> RegistryError:
    """Return the error for a JSON value of the wrong shape."""
    return RegistryError(400, f"Cannot deserialize the request: {what}")


def _text(value: Any, where: str) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return str(value)
    if not isinstance(value, str):
        raise malformed(f"{where} is not a string")
    return value


def _texts(value: Any, where: str) -> list[str]:
    if not isinstance(value, list):
        raise malformed(f"{where} is not an array of strings")
    return sorted({_text(each, where) for each in value})


def _object(value: Any, where: str) -> Json:
    if not isinstance(value, dict):
        raise malformed(f"{where} is not an object")
    return value


def read_metadata(value: Any) -> Json | None:
    """Return metadata in its normal form: tags, properties, sensitive; unknown fields are dropped."""
    if value is None:
        return None
    given = _object(value, "metadata")
    found: Json = {}
    tags = given.get("tags")
    if tags:
        tags = _object(tags, "metadata.tags")
        found["tags"] = {name: _texts(tags[name], "metadata.tags") for name in sorted(tags)}
    properties = given.get("properties")
    if properties:
        properties = _object(properties, "metadata.properties")
        found["properties"] = {
            name: _text(properties[name], "metadata.properties") for name in sorted(properties)
        }
    if given.get("sensitive"):
        found["sensitive"] = _texts(given["sensitive"], "metadata.sensitive")
    return found


def read_rule_set(value: Any) -> Json | None:
    """Return a rule set in its normal form; raise 42210 if its rules are not valid."""
    if value is None:
        return None
    given = _object(value, "ruleSet")
    found: Json = {}
    names: set[str] = set()
    for kind in RULE_KINDS:
        rules = given.get(kind)
        if not rules:
            continue
        if not isinstance(rules, list):
            raise malformed(f"ruleSet.{kind} is not an array")
        found[kind] = [_read_rule(each, kind, names) for each in rules]
    if given.get("enableAt") is not None:
        found["enableAt"] = _text(given["enableAt"], "ruleSet.enableAt")
    return found


def _read_rule(value: Any, kind: str, names: set[str]) -> Json:
    given = _object(value, f"a rule of {kind}")
    rule: Json = {}
    for field in _TEXTS:
        if given.get(field) is not None:
            rule[field] = _text(given[field], f"rule.{field}")
    if given.get("tags"):
        rule["tags"] = _texts(given["tags"], "rule.tags")
    if given.get("params"):
        params = _object(given["params"], "rule.params")
        rule["params"] = {name: _text(params[name], "rule.params") for name in sorted(params)}
    for field in _ACTIONS:
        if given.get(field) is not None:
            rule[field] = _text(given[field], f"rule.{field}")
    rule["disabled"] = bool(given.get("disabled", False))
    _check_rule(rule, kind, names)
    return rule


def _check_rule(rule: Json, kind: str, names: set[str]) -> None:
    name = rule.get("name")
    if name is not None and name in names:
        raise invalid_rule_set(f"Found rule with duplicate name '{name}'")
    names.add(name or "")
    _check_rule_name(name)
    if "type" not in rule:
        raise invalid_rule_set("Missing rule type")
    mode = rule.get("mode")
    if mode not in BOTH_WAYS and any("," in rule.get(each, "") for each in ("onSuccess", "onFailure")):
        raise invalid_rule_set("Multiple actions only valid with WRITEREAD and UPDOWN")
    if kind == "migrationRules" and mode not in MIGRATION_MODES:
        raise invalid_rule_set("Migration rules can only be UPGRADE, DOWNGRADE, UPDOWN")
    if kind != "migrationRules" and mode not in DOMAIN_MODES:
        which = "Domain" if kind == "domainRules" else "Encoding"
        raise invalid_rule_set(f"{which} rules can only be WRITE, READ, WRITEREAD")


def _check_rule_name(name: str | None) -> None:
    if name is None:
        raise invalid_rule_set("Missing rule name")
    if not name:
        raise invalid_rule_set("Empty rule name")
    if len(name) > MAX_RULE_NAME:
        raise invalid_rule_set("Rule name too long")
    if not (name[0].isalpha() or name[0] == "_"):
        raise invalid_rule_set(f"Illegal initial character in rule name: {name}")
    if not all(each.isalnum() or each in "_-" for each in name[1:]):
        raise invalid_rule_set(f"Illegal character in rule name: {name}")


def merge_metadata(old: Json | None, new: Json | None) -> Json | None:
    """Return both together; where both say something, the new one wins."""
    if old is None or new is None:
        return new if old is None else old
    found: Json = {}
    for field in ("tags", "properties"):
        together = {**old.get(field, {}), **new.get(field, {})}
        if together:
            found[field] = {name: together[name] for name in sorted(together)}
    sensitive = sorted({*old.get("sensitive", ()), *new.get("sensitive", ())})
    if sensitive:
        found["sensitive"] = sensitive
    return found


def merge_rule_sets(old: Json | None, new: Json | None) -> Json | None:
    """Return both together; a new rule takes the place of an old one of its name."""
    if old is None or new is None:
        return new if old is None else old
    found: Json = {}
    for kind in RULE_KINDS:
        added = new.get(kind, [])
        names = {each.get("name") for each in added}
        together = [*(each for each in old.get(kind, []) if each.get("name") not in names), *added]
        if together:
            found[kind] = together
    enable_at = new.get("enableAt") or old.get("enableAt")
    if enable_at:
        found["enableAt"] = enable_at
    return found


def set_confluent_version(metadata: Json | None, version: int) -> Json:
    """Return metadata that says which version it belongs to."""
    merged = merge_metadata(metadata or {}, {"properties": {CONFLUENT_VERSION: str(version)}})
    return merged or {}


def has_rule_type(rule_set: Json | None, rule_type: str) -> bool:
    """Return whether a rule set has a rule of this type."""
    return any(
        rule.get("type") == rule_type for kind in RULE_KINDS for rule in (rule_set or {}).get(kind, ())
    )
