"""The seven levels of compatibility: against which versions a schema is checked, and in which direction.

| level | the new schema | against |
|---|---|---|
| BACKWARD | reads data of the old one | the latest version |
| FORWARD | wrote data that the old one reads | the latest version |
| FULL | both | the latest version |
| ..._TRANSITIVE | the same | all versions, the newest first |
| NONE | anything | nothing |
"""

from __future__ import annotations

from collections.abc import Sequence

from ottla.registry.formats.limits import MAX_MESSAGES_CHARS, InvalidSchema
from ottla.registry.formats.parsed import ParsedSchema

LEVELS = (
    "BACKWARD",
    "BACKWARD_TRANSITIVE",
    "FORWARD",
    "FORWARD_TRANSITIVE",
    "FULL",
    "FULL_TRANSITIVE",
    "NONE",
)
_SHOWN = 10 * 1024
"""Longest part of the old schema that a message repeats."""
_NEW, _OLD = "new", "old"


def check(
    level: str,
    new: ParsedSchema,
    previous: Sequence[ParsedSchema],
    versions: Sequence[int] | None = None,
    *,
    lenient: bool = False,
) -> list[str]:
    """Return Confluent's messages for the first earlier schema that does not fit; nothing, if all do.

    `previous` is ordered by age, the oldest first. `versions`, if given, are the numbers of these schemas.
    `lenient` is Confluent's policy LENIENT, which lets JSON Schemas add and remove properties.
    """
    if level not in LEVELS:
        raise ValueError(f"{level} is no compatibility level; there are {', '.join(LEVELS)}")
    if level == "NONE":
        return []
    direction, _, transitive = level.partition("_")
    count = len(previous) if transitive else min(len(previous), 1)
    for index in range(len(previous) - 1, len(previous) - 1 - count, -1):
        version = None if versions is None else versions[index]
        if found := _check_pair(direction, new, previous[index], version, lenient):
            return _bounded(found)
    return []


def _bounded(messages: list[str]) -> list[str]:
    """Return messages up to a total length: each may repeat a name that is nearly as long as a schema."""
    kept, left = [], MAX_MESSAGES_CHARS
    for each in messages:
        if len(each) > left:
            kept.append(each[:left] + "...")
            break
        kept.append(each)
        left -= len(each)
    return kept


def _check_pair(
    direction: str, new: ParsedSchema, old: ParsedSchema, version: int | None, lenient: bool
) -> list[str]:
    if new.schema_type != old.schema_type:
        return ["Incompatible because of different schema type"]
    try:
        return _compare_pair(direction, new, old, version, lenient)
    except InvalidSchema as error:  # a stored schema that only laxer rules let in
        return [f"Unexpected exception during compatibility check: {error}"]


def _compare_pair(
    direction: str, new: ParsedSchema, old: ParsedSchema, version: int | None, lenient: bool
) -> list[str]:
    if direction == "BACKWARD":
        return _with_old(new.incompatibilities(old, (_NEW, _OLD), lenient=lenient), old, version)
    if direction == "FORWARD":
        return _with_old(old.incompatibilities(new, (_OLD, _NEW), lenient=lenient), old, version)
    forward = old.incompatibilities(new, (_OLD, _NEW), lenient=lenient)
    return forward + _with_old(new.incompatibilities(old, (_NEW, _OLD), lenient=lenient), old, version)


def _with_old(found: list[str], old: ParsedSchema, version: int | None) -> list[str]:
    if not found:
        return found
    if version is not None:
        found.append(f"{{oldSchemaVersion: {version}}}")
    text = old.canonical
    if len(text) <= _SHOWN:
        found.append(f"{{oldSchema: '{text}'}}")
    else:
        found.append(f"{{oldSchema: <truncated> '{text[:_SHOWN]}...'}}")
    return found
