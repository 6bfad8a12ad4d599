"""Runs the rules of a schema on a record, and what they say to do afterwards.

Rules run in their order when writing and upgrading, in the reverse order when reading and downgrading. A
CONDITION must be true; a TRANSFORM returns the record to continue with. After each, an action runs: `NONE`
continues, `ERROR` refuses the record, `DLQ` sends it to a topic of dead letters and refuses it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ottla.registry.serdes.errors import SerdeError
from ottla.registry.serdes.rules.dead_letters import DeadLetters, Headers, is_replay
from ottla.registry.serdes.rules.encryption import Encryption
from ottla.registry.serdes.rules.expressions import SKIPPED, cel_on_field, cel_on_record, jsonata
from ottla.registry.serdes.rules.fields import Field, Transform

WRITE, READ, UPGRADE, DOWNGRADE = "WRITE", "READ", "UPGRADE", "DOWNGRADE"
DOMAIN, ENCODING, MIGRATION = "domainRules", "encodingRules", "migrationRules"
CONDITION = "CONDITION"
ENCRYPT, ENCRYPT_PAYLOAD = "ENCRYPT", "ENCRYPT_PAYLOAD"
ERROR, NONE, DLQ = "ERROR", "NONE", "DLQ"
_BOTH = {"WRITEREAD": (WRITE, READ), "UPDOWN": (UPGRADE, DOWNGRADE)}
_BACKWARDS = frozenset({READ, DOWNGRADE})
_CLIENT = frozenset({"ALL", "CLIENT"})

Rule = Mapping[str, Any]
Contract = Mapping[str, Any]
"""A schema's `ruleSet`."""


class RuleFailed(SerdeError):
    """A rule refused a record."""


@dataclass(frozen=True, slots=True)
class Subject:
    """Where a record belongs: what its rules see of it beside the data."""

    topic: str
    field: str
    name: str
    original: Any
    """The record before any rule, for dead letters."""
    headers: Headers = ()


class RuleEngine:
    """Runs rules; without dead letters, the action `DLQ` only refuses."""

    def __init__(self, dead_letters: DeadLetters | None = None, encryption: Encryption | None = None) -> None:
        self._dead_letters = dead_letters
        self._encryption = encryption

    def run(
        self,
        mode: str,
        rule_set: Contract | None,
        subject: Subject,
        data: Any,
        *,
        phase: str = DOMAIN,
        transform: Transform | None = None,
        tags: Mapping[str, Sequence[str]] | None = None,
    ) -> Any:
        """Return the data after all rules of a phase that run in a mode; raise RuleFailed.

        `transform` visits the fields of the data; `tags` are those that the schema's metadata gives to paths.
        """
        rules = list((rule_set or {}).get(phase) or ())
        if not rules or (rule_set or {}).get("enableAt", "ALL") not in _CLIENT:
            return data
        if mode in _BACKWARDS:
            rules.reverse()
        for at, rule in enumerate(rules):
            if rule.get("disabled") or mode not in _BOTH.get(
                rule.get("mode", mode), (rule.get("mode", mode),)
            ):
                continue
            if is_replay(rule.get("name"), subject.headers) or _is_repeated(rules, at, mode):
                continue
            error: Exception | None = None
            try:
                if self._encryption is not None and (rule.get("type") in (ENCRYPT, ENCRYPT_PAYLOAD)):
                    data = _crypt(self._encryption, rule, mode, subject.name, data, transform, tags or {})
                else:
                    data = _apply(rule, data, transform, tags or {})
            except Exception as raised:  # whatever an expression makes of data
                error = raised
            self._act(rule, mode, subject, error)
        return data

    def _act(self, rule: Rule, mode: str, subject: Subject, error: Exception | None) -> None:
        action = _action(rule, mode, error)
        if action == NONE:
            return
        if action == DLQ and self._dead_letters is not None:
            place = (subject.topic, subject.field, subject.name)
            self._dead_letters.send(rule, mode, place, subject.original, subject.headers, error)
        reason = str(error) if isinstance(error, RuleFailed) else f"{type(error).__name__}: {error}"
        if action not in (ERROR, DLQ):
            reason = f"its action {action} is not known; {reason}"
        raise RuleFailed(
            f"the rule {rule.get('name')} ({rule.get('type')}, {mode.lower()}) refuses it: {reason[:500]}"
        ) from error


def _action(rule: Rule, mode: str, error: Exception | None) -> str:
    given = rule.get("onSuccess" if error is None else "onFailure") or ""
    first, comma, second = given.partition(",")
    if comma and rule.get("mode") in _BOTH:
        given = second if mode in _BACKWARDS else first
    return given.strip() or (NONE if error is None else ERROR)


def _is_repeated(rules: Sequence[Rule], at: int, mode: str) -> bool:
    """Return whether another rule transforms the same tagged fields: the first in writing order counts."""
    rule = rules[at]
    if not rule.get("tags") or rule.get("kind") == CONDITION:
        return False
    others = rules[at + 1 :] if mode in _BACKWARDS else rules[:at]
    return any(
        all(each.get(part) == rule.get(part) for part in ("kind", "mode", "type", "tags")) for each in others
    )


def _apply(rule: Rule, data: Any, transform: Transform | None, tags: Mapping[str, Sequence[str]]) -> Any:
    kind = str(rule.get("type", "")).upper()
    expression = rule.get("expr")
    if kind == "CEL_FIELD" and transform is not None and expression:
        return transform(data, _on_field(rule, expression), tags)
    executor = _EXECUTORS.get(kind)
    if executor is None:
        raise RuleFailed(
            f"rules of type {rule.get('type')} are not supported: set ignore_rules=True to continue without"
        )
    if not expression:
        return data
    found = executor(expression, data)
    if found is SKIPPED:
        return data
    if rule.get("kind") == CONDITION:
        if not found:
            raise _violated(rule)
        return data
    if found is None:
        raise RuleFailed("it left nothing of the record")
    return found


def _crypt(
    encryption: Encryption,
    rule: Rule,
    mode: str,
    subject: str,
    data: Any,
    transform: Transform | None,
    tags: Mapping[str, Sequence[str]],
) -> Any:
    """Encrypt (writing) or decrypt (reading) a payload, or the fields with the tags of a rule."""
    if mode not in (WRITE, READ):
        raise RuleFailed(f"rules of type {rule.get('type')} run when records are written and read")
    encryption.check(rule)
    change = encryption.encrypt if mode == WRITE else encryption.decrypt
    if rule.get("type") == ENCRYPT_PAYLOAD:
        return change(rule, subject, data)
    if transform is None:
        raise RuleFailed("only the fields of records can be encrypted: use ENCRYPT_PAYLOAD")
    wanted = frozenset(rule.get("tags") or ())

    def visit(field: Field, value: Any) -> Any:
        if not field.is_primitive or (wanted and not wanted & field.tags):
            return value
        return change(rule, subject, value)

    return transform(data, visit, tags)


def _on_field(rule: Rule, expression: str) -> Callable[[Field, Any], Any]:
    wanted = frozenset(rule.get("tags") or ())

    def visit(field: Field, value: Any) -> Any:
        if not field.is_primitive or (wanted and not wanted & field.tags):
            return value
        found = cel_on_field(expression, field, value)
        if found is SKIPPED:
            return value
        if rule.get("kind") != CONDITION:
            return found
        if not found:
            raise _violated(rule)
        return value

    return visit


def _violated(rule: Rule) -> RuleFailed:
    return RuleFailed(rule.get("doc") or f"{rule.get('expr')} is not true")


def _cel(expression: str, data: Any) -> Any:
    found = cel_on_record(expression, data)
    return _as_message(found, data)


def _jsonata(expression: str, data: Any) -> Any:
    return _as_message(jsonata(expression, data), data)


def _as_message(found: Any, data: Any) -> Any:
    """Return a record in the form that it had: rules see Protobuf messages as dicts."""
    if not isinstance(found, dict) or not hasattr(data, "DESCRIPTOR"):
        return found
    from ottla.registry.serdes.protobuf_codec import message_of_dict

    return message_of_dict(type(data), found)


_EXECUTORS: dict[str, Callable[[str, Any], Any]] = {"CEL": _cel, "JSONATA": _jsonata}
