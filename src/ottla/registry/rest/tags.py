"""POST .../tags: a version registered again, with other metadata and rules.

Tags inside a schema's text (`tagsToAdd`, `tagsToRemove`) are refused: keep them in `metadata.tags`.
"""

from __future__ import annotations

from typing import Any

from ottla.registry import errors
from ottla.registry.contracts import merge_rule_sets, read_metadata, read_rule_set, set_confluent_version
from ottla.registry.entities import RULE_KINDS, Json, StoredSchema
from ottla.registry.registration import RegisterRequest
from ottla.registry.rest.requests import integer
from ottla.registry.state import RegistryState


def tagged(state: RegistryState, found: StoredSchema, body: Json) -> RegisterRequest:
    """Return what to register so that a version gets the metadata and rules that a request names."""
    if body.get("tagsToAdd") or body.get("tagsToRemove"):
        raise errors.invalid_schema(
            "Tags inside a schema are not supported: put them into the metadata (metadata.tags)"
        )
    merges = body.get("rulesToMerge") is not None or body.get("rulesToRemove") is not None
    if merges and body.get("ruleSet") is not None:
        raise errors.invalid_rule_set("ruleSet should be omitted if specifying rulesToMerge or rulesToRemove")
    new_version = integer(body.get("newVersion"), "newVersion", 0)
    metadata = read_metadata(body.get("metadata"))
    if metadata is None:
        metadata = found.definition.metadata
    rule_set = _merged(state, found, new_version, body) if merges else read_rule_set(body.get("ruleSet"))
    return RegisterRequest(
        found.schema,
        found.definition.schema_type,
        found.definition.references,
        set_confluent_version(metadata, new_version),
        rule_set,
        new_version,
    )


def _merged(state: RegistryState, found: StoredSchema, new_version: int, body: Json) -> Json | None:
    before = state.get(found.subject, new_version - 1 if new_version > 1 else -1)
    rule_set = merge_rule_sets(
        before.definition.rule_set if before is not None else None, read_rule_set(body.get("rulesToMerge"))
    )
    removed: Any = body.get("rulesToRemove") or []
    if rule_set is None or not removed:
        return rule_set
    kept = {
        kind: [each for each in rule_set[kind] if each.get("name") not in removed]
        for kind in RULE_KINDS
        if kind in rule_set
    }
    return {**{name: rule_set[name] for name in rule_set if name == "enableAt"}, **kept}
