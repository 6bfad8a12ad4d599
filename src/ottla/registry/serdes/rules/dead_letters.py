"""Sends records that a rule refused to a topic, with headers that say why.

What is written is sent as JSON, what is read as the bytes that it was. The headers are those of Confluent's
serializers: a record that is read again is not refused again by the rule that its header names.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from typing import Any, Protocol

log = logging.getLogger(__name__)

RULE_NAME = "__rule.name"
RULE_MODE = "__rule.mode"
RULE_SUBJECT = "__rule.subject"
RULE_TOPIC = "__rule.topic"
RULE_EXCEPTION = "__rule.exception"
TOPIC = "dlq.topic"

Headers = Sequence[tuple[str, bytes | None]]


class RecordSender(Protocol):
    """A producer; `ottla.client.Producer` is one."""

    def send(self, topic: str, value: Any = ..., key: Any = ..., *, headers: Any = ...) -> Any:
        """Send a record."""


class DeadLetters:
    """A producer, and the topic for rules that name none (`dlq.topic` in their params)."""

    def __init__(self, producer: RecordSender, topic: str | None = None) -> None:
        self._producer = producer
        self._topic = topic

    def send(
        self,
        rule: Any,
        mode: str,
        place: tuple[str, str, str],
        data: Any,
        headers: Headers,
        error: Exception | None,
    ) -> None:
        """Send a record; `place` is its topic, `key` or `value`, and the subject."""
        topic, field, subject = place
        target = self._topic or (rule.get("params") or {}).get(TOPIC)
        if not target:
            log.error("the rule %s sends records of %s to no topic: set %s", rule.get("name"), topic, TOPIC)
            return
        said = [
            (RULE_NAME, rule.get("name")),
            (RULE_MODE, mode),
            (RULE_SUBJECT, subject),
            (RULE_TOPIC, topic),
            (RULE_EXCEPTION, None if error is None else str(error)),
        ]
        added = [(name, text.encode()) for name, text in said if text is not None]
        record = {field: _bytes(data)}
        self._producer.send(target, record.get("value"), record.get("key"), headers=[*headers, *added])


def _bytes(data: Any) -> bytes:
    if isinstance(data, bytes):
        return data
    if hasattr(data, "DESCRIPTOR"):
        from google.protobuf import json_format

        return str(json_format.MessageToJson(data)).encode()
    return json.dumps(data, default=_shown).encode()


def _shown(value: Any) -> str:
    return value.decode("latin-1") if isinstance(value, bytes) else str(value)


def is_replay(rule_name: str | None, headers: Headers) -> bool:
    """Return whether a record comes from a topic of dead letters, because of this rule."""
    named = [value for name, value in headers if name == RULE_NAME]
    return bool(named) and named[-1] == (rule_name or "").encode()
