"""Computes the identity of a schema: an MD5 over its text, references, metadata and rules, as Confluent does.

The registry finds a schema that it already has by this MD5, and returns it, written as a UUID, as the
schema's GUID.
"""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ottla.registry.formats.json_text import utf16_key
from ottla.registry.formats.parsed import Reference


def schema_md5(
    text: str,
    references: Sequence[Reference] = (),
    metadata: Mapping[str, Any] | None = None,
    rule_set: Mapping[str, Any] | None = None,
) -> bytes:
    """Return the MD5 of a schema; `metadata` and `rule_set` are the JSON objects of the REST API."""
    parts: list[bytes] = [text.encode()]
    for reference in references:
        parts += [reference.name.encode(), reference.subject.encode()]
        parts.append(reference.version.to_bytes(4, "big", signed=True))
    if metadata is not None:
        parts.append(b"\1")
        parts += _metadata(metadata)
    if rule_set is not None:
        parts.append(b"\1")
        parts += _rule_set(rule_set)
    return hashlib.md5(b"".join(parts), usedforsecurity=False).digest()


def schema_guid(
    text: str,
    references: Sequence[Reference] = (),
    metadata: Mapping[str, Any] | None = None,
    rule_set: Mapping[str, Any] | None = None,
) -> str:
    """Return the GUID of a schema."""
    return str(uuid.UUID(bytes=schema_md5(text, references, metadata, rule_set)))


def _metadata(metadata: Mapping[str, Any]) -> Iterable[bytes]:
    tags: Mapping[str, Sequence[str]] = metadata.get("tags") or {}
    for key in sorted(tags, key=utf16_key):
        yield key.encode()
        yield from (value.encode() for value in sorted(set(tags[key]), key=utf16_key))
    properties: Mapping[str, Any] = metadata.get("properties") or {}
    for key in sorted(properties, key=utf16_key):
        yield key.encode()
        yield str(properties[key]).encode()
    yield from (each.encode() for each in sorted(set(metadata.get("sensitive") or ()), key=utf16_key))


def _rule_set(rule_set: Mapping[str, Any]) -> Iterable[bytes]:
    for kind in ("migrationRules", "domainRules", "encodingRules"):
        for rule in rule_set.get(kind) or ():
            yield from _rule(rule)
    enable_at = rule_set.get("enableAt")
    if enable_at is not None:
        yield str(enable_at).encode()


def _rule(rule: Mapping[str, Any]) -> Iterable[bytes]:
    for key in ("name", "doc", "kind", "mode", "type"):
        if rule.get(key) is not None:
            yield str(rule[key]).encode()
    yield from (tag.encode() for tag in sorted(set(rule.get("tags") or ()), key=utf16_key))
    params: Mapping[str, Any] = rule.get("params") or {}
    for key in sorted(params, key=utf16_key):
        yield key.encode()
        yield str(params[key]).encode()
    for key in ("expr", "onSuccess", "onFailure"):
        if rule.get(key) is not None:
            yield str(rule[key]).encode()
    if rule.get("disabled"):
        yield b"\1"
