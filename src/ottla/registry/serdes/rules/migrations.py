"""Finds the rules between the version that a record was written with and the one that it is read as."""

from __future__ import annotations

from typing import Any, NamedTuple

from ottla.registry.serdes.errors import RegistryRefused
from ottla.registry.serdes.registry_client import Registered, RegistryClient, Schema
from ottla.registry.serdes.rules.engine import DOWNGRADE, MIGRATION, UPGRADE, Contract

MAX_VERSIONS = 1_000
DELETED = (404, 40402)


class Migration(NamedTuple):
    """One step: the rules of the newer version, in one direction."""

    mode: str
    rule_set: Contract


def migrations(
    registry: RegistryClient, subject: str, written: Schema, target: Registered
) -> list[Migration]:
    """Return the steps from the writer's version to the target, in the order in which they run."""
    source = registry.lookup(subject, written, deleted=True)
    if source.version is None or target.version is None or source.version == target.version:
        return []
    mode = UPGRADE if source.version < target.version else DOWNGRADE
    first, last = sorted((source.version, target.version))
    steps = []
    for version in range(max(first + 1, last - MAX_VERSIONS), last + 1):
        try:
            rule_set: Any = registry.version(subject, version).schema.rule_set
        except RegistryRefused as error:
            if error.code not in DELETED:
                raise
            continue
        if any(each.get("mode") in (mode, "UPDOWN") for each in (rule_set or {}).get(MIGRATION) or ()):
            steps.append(Migration(mode, rule_set))
    return steps if mode == UPGRADE else steps[::-1]
