"""Tags: POST .../tags registers a version again, with other tags, metadata, rules; `findTags` shows tags."""

from __future__ import annotations

from typing import Any

from ottla.http.app import Request
from ottla.registry import errors
from ottla.registry.contracts import (
    malformed,
    merge_rule_sets,
    read_metadata,
    read_rule_set,
    set_confluent_version,
)
from ottla.registry.entities import RULE_KINDS, Json, StoredSchema
from ottla.registry.formats import Entity
from ottla.registry.jobs import Tags
from ottla.registry.registration import RegisterRequest
from ottla.registry.rest.requests import integer
from ottla.registry.service import Registry
from ottla.registry.state import RegistryState


async def tagged(
    registry: Registry, state: RegistryState, found: StoredSchema, body: Json
) -> RegisterRequest:
    """Return what to register so that a version gets the tags, metadata and rules that a request names."""
    merges = body.get("rulesToMerge") is not None or body.get("rulesToRemove") is not None
    if merges and body.get("ruleSet") is not None:
        raise errors.invalid_rule_set("ruleSet should be omitted if specifying rulesToMerge or rulesToRemove")
    new_version = integer(body.get("newVersion"), "newVersion", 0)
    metadata = read_metadata(body.get("metadata"))
    if metadata is None:
        metadata = found.definition.metadata
    rule_set = _merged(state, found, new_version, body) if merges else read_rule_set(body.get("ruleSet"))
    add, remove = read_tags(body.get("tagsToAdd")), read_tags(body.get("tagsToRemove"))
    changes_tags = bool(add or remove)
    text = await registry.change_tags(state, found, add, remove) if changes_tags else found.schema
    return RegisterRequest(
        text,
        found.definition.schema_type,
        found.definition.references,
        set_confluent_version(metadata, new_version),
        rule_set,
        new_version,
    )


def read_tags(value: Any) -> Tags:
    """Return which tags a request names for which records and fields."""
    if value is None:
        return ()
    if not isinstance(value, list):
        raise malformed("tags are not an array")
    found = []
    for each in value:
        entity = each.get("schemaEntity") if isinstance(each, dict) else None
        tags = each.get("tags") if isinstance(each, dict) else None
        if not isinstance(entity, dict) or not isinstance(tags, list):
            raise malformed("tags have no schemaEntity, or are none")
        path, kind = str(entity.get("entityPath", "")), str(entity.get("entityType", ""))
        found.append((Entity(path, kind), tuple(map(str, tags))))
    return tuple(found)


async def shown_tags(registry: Registry, state: RegistryState, found: StoredSchema, request: Request) -> Json:
    """Return the tags that `findTags` asks for, all with `*`; nothing if there are none."""
    wanted = set(request.query.getlist("findTags"))
    tags = await registry.find_tags(state, found)
    found_tags = [
        {"schemaEntity": {"entityPath": entity.path, "entityType": entity.kind}, "tags": list(names)}
        for entity, names in tags
        if "*" in wanted or wanted & set(names)
    ]
    return {"schemaTags": found_tags} if found_tags else {}


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
