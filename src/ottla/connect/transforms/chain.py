"""The transforms of a connector, in their order, each with its predicate."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ottla.connect.data.record import Record
from ottla.connect.errors import WrongConfig
from ottla.connect.transforms.base import OWN_PACKAGE, PACKAGE, Transform, both
from ottla.connect.transforms.fields import PART_TRANSFORMS, ValueToKey
from ottla.connect.transforms.headers_topics import (
    PREDICATES,
    DropHeaders,
    Filter,
    HeaderFrom,
    InsertHeader,
    Predicate,
    RegexRouter,
    TimestampRouter,
)
from ottla.connect.transforms.sql import Sql
from ottla.connect.transforms.types import Cast, TimestampConverter


def _all_of(*types: type[Transform]) -> tuple[type[Transform], ...]:
    return types


TRANSFORMS: dict[str, type[Transform]] = {
    each.name: each
    for each in _all_of(
        *(part for one in (*PART_TRANSFORMS, HeaderFrom, Cast, TimestampConverter) for part in both(one)),
        DropHeaders,
        Filter,
        InsertHeader,
        RegexRouter,
        Sql,
        TimestampRouter,
        ValueToKey,
    )
}
"""By name."""
PREDICATE_TYPES: dict[str, type[Predicate]] = {each.name: each for each in PREDICATES}


@dataclass(frozen=True)
class Step:
    """A transform, and when it applies."""

    alias: str
    transform: Transform
    predicate: Predicate | None = None
    negate: bool = False

    def apply(self, record: Record) -> Record | None:
        """Apply it if its predicate holds."""
        if self.predicate is not None and self.predicate.holds(record) == self.negate:
            return record
        return self.transform.apply(record)


def section(config: Mapping[str, str], prefix: str) -> dict[str, str]:
    """Return the keys of a config that begin with a prefix, without it."""
    return {key[len(prefix) :]: value for key, value in config.items() if key.startswith(prefix)}


def chain_of(config: Mapping[str, str]) -> list[Step]:
    """Return the transforms of a connector; raise WrongConfig."""
    predicates = {
        alias: predicate_type(config.get(f"predicates.{alias}.type"), f"predicates.{alias}.type")(
            section(config, f"predicates.{alias}.")
        )
        for alias in aliases(config, "predicates")
    }
    steps = []
    for alias in aliases(config, "transforms"):
        prefix = f"transforms.{alias}."
        made = transform_type(config.get(prefix + "type"), prefix + "type")(section(config, prefix))
        name = config.get(prefix + "predicate")
        if name is not None and name not in predicates:
            raise WrongConfig(prefix + "predicate", name, f"No predicate alias {name}")
        negate = config.get(prefix + "negate", "false").lower() == "true"
        steps.append(Step(alias, made, predicates.get(name or ""), negate))
    return steps


def aliases(config: Mapping[str, str], key: str) -> list[str]:
    """Return the aliases of a list."""
    return [each.strip() for each in (config.get(key) or "").split(",") if each.strip()]


def transform_type(name: str | None, key: str) -> type[Transform]:
    """Return a transform by its name, with or without the package."""
    name = name or ""
    found = next(
        (
            TRANSFORMS[package + name]
            for package in ("", PACKAGE, OWN_PACKAGE)
            if package + name in TRANSFORMS
        ),
        None,
    )
    if found is None:
        raise WrongConfig(key, name, f"Class {name} could not be found.")
    return found


def predicate_type(name: str | None, key: str) -> type[Predicate]:
    """Return a predicate by its name, with or without the package."""
    found = PREDICATE_TYPES.get(name or "") or PREDICATE_TYPES.get(
        "org.apache.kafka.connect.transforms.predicates." + (name or "")
    )
    if found is None:
        raise WrongConfig(key, name, f"Class {name} could not be found.")
    return found


def transformed(steps: list[Step], record: Record) -> Record | None:
    """Return a record after all transforms; None if one drops it."""
    current: Record | None = record
    for step in steps:
        if current is None:
            return None
        current = step.apply(current)
    return current
