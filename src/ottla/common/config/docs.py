"""docs/configuration.md, written from the keys themselves."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ottla.common.config.broker import BrokerConfig
from ottla.common.config.declaration import Key
from ottla.common.config.group_keys import GroupConfig
from ottla.common.config.topic import TopicConfig, TopicKey
from ottla.common.config.types import BOOLEAN, INT, LONG
from ottla.common.config.unimplemented import (
    KAFKA_DEFAULTS,
    UNIMPLEMENTED_BROKER_KEYS,
    UNIMPLEMENTED_PREFIXES,
    UNIMPLEMENTED_TOPIC_KEYS,
)
from ottla.common.units import DAY_MS, GIB, HOUR_MS, KIB, MAX_INT, MAX_LONG, MIB, MINUTE_MS, SECOND_MS

_INTRODUCTION = """\
# Configuration

<!-- Written from the keys in src/ottla/common/config/*_keys.py; change them there. -->

Keys have Kafka's names, types, defaults and ranges. Where a default differs, the table says so. Keys that
begin with `ottla.` are of things that Kafka does not have.

A broker reads its keys from `--config FILE` (Java's `.properties` format) and from `--set key=value`,
which takes precedence. The column `change` says how a key can be changed while brokers run, with
`ottla config alter` or any admin client: `cluster-wide` keys for one broker or for all of them, `per-broker`
keys for one broker, `read-only` keys not at all. A change is in force at once, also on a broker that is
starting. A topic's own settings take precedence over the broker's defaults, and can always be changed.

Unknown keys are refused with the nearest name that is known, and Kafka's keys that Ottla does not
implement yet are refused with that reason. No key is ignored, except where it is given at Kafka's default
(see the end of this page).
"""

_SIZES = ((GIB, "GiB"), (MIB, "MiB"), (KIB, "KiB"))
_TIMES = ((DAY_MS, "day"), (HOUR_MS, "hour"), (MINUTE_MS, "minute"), (SECOND_MS, "second"))


def configuration_page() -> str:
    """Return the whole page."""
    broker_rows = [_broker_row(key) for key in BrokerConfig.KEYS.values()]
    topic_rows = [_topic_row(key) for key in TopicConfig.KEYS.values() if isinstance(key, TopicKey)]
    return "\n".join(
        (
            _INTRODUCTION,
            "## Broker keys\n",
            _table(("key", "type", "default", "values", "importance", "change", "meaning"), broker_rows),
            "## Topic keys\n",
            _table(("key", "type", "default", "values", "broker's default", "meaning"), topic_rows),
            "## Group keys\n",
            "Set with IncrementalAlterConfigs on a resource of type group.\n",
            *(f"- `{key.name}`: {key.doc} Default: {_default(key)}." for key in GroupConfig.KEYS.values()),
            "",
            "## Kafka's keys that are not implemented yet\n",
            f"Broker: {_names(UNIMPLEMENTED_BROKER_KEYS)}.\n",
            f"Broker, whole families: {_names(f'{prefix}*' for prefix in UNIMPLEMENTED_PREFIXES)}.\n",
            f"Topic: {_names(UNIMPLEMENTED_TOPIC_KEYS)}.\n",
            "Some of the broker's are accepted at one value, Kafka's default: "
            + ", ".join(f"`{name}={text}`" for name, text in sorted(KAFKA_DEFAULTS.items()))
            + ".\n",
        )
    )


def _broker_row(key: Key[Any]) -> tuple[str, ...]:
    return (
        f"`{key.name}`",
        key.kind.name,
        _default(key),
        _values(key),
        key.importance.value,
        key.update.value,
        key.doc,
    )


def _topic_row(key: TopicKey[Any]) -> tuple[str, ...]:
    return (
        f"`{key.name}`",
        key.kind.name,
        _default(key),
        _values(key),
        ", ".join(f"`{broker_key.name}`" for broker_key, _ in key.broker_keys),
        key.doc,
    )


def _default(key: Key[Any]) -> str:
    if key.default is None:
        return "unset"
    shown = f"`{key.kind.write(key.default)}`{_in_words(key)}"
    return f"{shown}; Kafka's is `{key.kafka_default}`" if key.kafka_default is not None else shown


def _in_words(key: Key[Any]) -> str:
    """Return a large default once more in a unit that people read."""
    if key.default in (MAX_INT, MAX_LONG):
        return " (no limit)"
    if key.kind not in (INT, LONG):
        return ""
    is_time = key.name.endswith(".ms")
    for size, unit in _TIMES if is_time else _SIZES:
        count, rest = divmod(key.default, size)
        if count > 0 and not rest:
            return f" ({count} {unit}{'s' if is_time and count > 1 else ''})"
    return ""


def _values(key: Key[Any]) -> str:
    if key.check is not None:
        return key.check.wants
    return "true, false" if key.kind is BOOLEAN else "any"


def _table(header: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = (header, ("---",) * len(header), *sorted(rows, key=lambda row: row[0].strip("`")))
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


def _names(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in sorted(names))
