"""Which topic names are allowed, which of them collide, and which topics are the broker's own."""

from __future__ import annotations

import re
from typing import Final

MAX_TOPIC_NAME_LENGTH: Final = 249
"""With `-` and a partition number it is still a file name."""

CONSUMER_OFFSETS_TOPIC: Final = "__consumer_offsets"
TRANSACTION_STATE_TOPIC: Final = "__transaction_state"
SHARE_GROUP_STATE_TOPIC: Final = "__share_group_state"
SPARK_DECISIONS_TOPIC: Final = "__ottla_spark_decisions"
"""Which batches of Spark queries are written (ottla.spark.sink); its records come from clients."""
AUDIT_TOPIC: Final = "__audit"
"""The audit log; its records come from brokers only."""
INTERNAL_TOPICS: Final = frozenset({CONSUMER_OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC, SHARE_GROUP_STATE_TOPIC})

PROTECTED_TOPICS: Final = INTERNAL_TOPICS | {AUDIT_TOPIC}
"""Topics that clients cannot produce to; brokers produce to `__audit`."""

_LEGAL_NAME = re.compile(r"[a-zA-Z0-9._-]+")


def why_illegal(name: str) -> str | None:
    """Return why `name` cannot be a topic's name, or None if it can."""
    if not name:
        return "a topic name cannot be empty"
    if name in (".", ".."):
        return f"a topic name cannot be '{name}'"
    if len(name) > MAX_TOPIC_NAME_LENGTH:
        return f"a topic name has at most {MAX_TOPIC_NAME_LENGTH} characters, not {len(name)}"
    if not _LEGAL_NAME.fullmatch(name):
        return f"topic name {name!r} has characters other than ASCII letters, digits, '.', '_' and '-'"
    return None


def is_legal(name: str) -> bool:
    """Return whether `name` can be a topic's name."""
    return why_illegal(name) is None


def is_internal(name: str) -> bool:
    """Return whether the topic belongs to Ottla itself, and not to a user."""
    return name in INTERNAL_TOPICS or name in (SPARK_DECISIONS_TOPIC, AUDIT_TOPIC)


def collision_key(name: str) -> str:
    """Return what two colliding names have in common: `.` and `_` count as one in metric names."""
    return name.replace(".", "_")
