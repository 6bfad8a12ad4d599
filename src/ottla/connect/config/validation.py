"""Validate a config, with the answer that Connect gives: each key with its value and its errors."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from ottla.connect.config.common_keys import SINK_KEYS, SOURCE_KEYS, TRANSFORM_KEYS
from ottla.connect.config.keys import CLASS, HIGH, PASSWORD, REQUIRED, ConfigKey, MissingConfig, shown
from ottla.connect.config.providers import ANYTHING, Providers, has_reference, resolve_text, without_values
from ottla.connect.errors import ConnectError, WrongConfig
from ottla.connect.plugins import CONVERTERS, HEADERS, Plugins
from ottla.connect.sdk import SOURCE, Connector
from ottla.connect.transforms.chain import (
    PREDICATE_TYPES,
    TRANSFORMS,
    aliases,
    predicate_type,
    section,
    transform_type,
)


def definition(key: ConfigKey, order: int = -1) -> dict[str, Any]:
    """Return a key as Connect describes it."""
    return {
        "name": key.name,
        "type": key.type,
        "required": key.is_required,
        "default_value": "" if key.default == [] else shown(key.type, key.default),
        "importance": key.importance,
        "documentation": key.doc,
        "group": key.group,
        "width": key.width,
        "display_name": key.display or key.name,
        "dependents": [],
        "order": order,  # the name before Kafka 4.3
        "order_in_group": order,
    }


@dataclass
class Validated:
    """The result for one key."""

    key: ConfigKey
    order: int
    value: str | None
    errors: list[str] = field(default_factory=list)
    recommended: list[str] = field(default_factory=list)

    def as_json(self) -> dict[str, Any]:
        """Return definition and value."""
        return {
            "definition": definition(self.key, self.order),
            "value": {
                "name": self.key.name,
                "value": self.value,
                "recommended_values": self.recommended,
                "errors": self.errors,
                "visible": True,
            },
        }


class Validation:
    """The results for a config."""

    def __init__(self, name: str, config: Mapping[str, str | None], providers: Providers = ANYTHING) -> None:
        self.name = name
        self.config = config
        self.providers = providers
        self.results: dict[str, Validated] = {}
        self._orders: dict[str | None, int] = {}

    def check(self, keys: Iterable[ConfigKey]) -> None:
        """Validate keys one by one."""
        for key in keys:
            order = self._orders[key.group] = self._orders.get(key.group, 0) + 1
            given = self.config.get(key.name)
            result = Validated(
                key, order if key.group else -1, shown(key.type, given), recommended=list(key.values)
            )
            if given is None and not key.is_required:
                result.value = shown(key.type, key.default)
            try:
                if key.name in self.config and given is None:
                    raise WrongConfig(
                        key.name, None, "Null value can not be supplied as the configuration value."
                    )
                known = {key.name: resolve_text(given, self.providers)} if given is not None else {}
                parsed = key.parse(known)
                if given is not None and not has_reference(given):
                    result.value = shown(key.type, parsed)
            except ConnectError as error:
                result.errors.append(_harmless(error, key, given))
            self.results[key.name] = result

    def error(self, key: str, text: str, kind: str = "STRING") -> None:
        """Add an error."""
        if key not in self.results:
            self.results[key] = Validated(ConfigKey(key, kind), -1, shown(kind, self.config.get(key)))
        self.results[key].errors.append(text)

    @property
    def error_count(self) -> int:
        """How many errors there are."""
        return sum(len(each.errors) for each in self.results.values())

    def hide_references(self) -> None:
        """Put references in place of their values, in errors and in the names that were made of them."""

        def hidden(text: str) -> str:
            return without_values(text, self.config, self.providers)

        for name, each in list(self.results.items()):
            each.errors = [hidden(text) for text in each.errors]
            if (shown_name := hidden(name)) != name:
                each.key = replace(each.key, name=shown_name, group=hidden(each.key.group or ""))
                del self.results[name]
                self.results[shown_name] = each

    def as_json(self) -> dict[str, Any]:
        """Return the body of the answer."""
        groups = dict.fromkeys(each.key.group for each in self.results.values() if each.key.group)
        return {
            "name": self.name,
            "error_count": self.error_count,
            "groups": list(groups),
            "configs": [each.as_json() for each in self.results.values()],
        }

    def text(self) -> str:
        """Return the errors as the message of 400."""
        lines = [f"\n{error}" for each in self.results.values() for error in each.errors]
        return (
            f"Connector configuration is invalid and contains the following {self.error_count} error(s):"
            + "".join(lines)
            + "\nYou can also find the above list of errors at the endpoint "
            "`/connector-plugins/{connectorType}/config/validate`"
        )


def _harmless(error: ConnectError, key: ConfigKey, given: str | None) -> str:
    """Return an error without what must not be shown: a password, or the value of a reference."""
    is_hidden = given is not None and (key.type == PASSWORD or has_reference(given))
    if not is_hidden or not isinstance(error, WrongConfig) or isinstance(error, MissingConfig):
        return str(error)
    return str(WrongConfig(key.name, shown(key.type, given), "the value is not valid"))


def validate(
    plugins: Plugins, config: Mapping[str, str | None], providers: Providers = ANYTHING
) -> Validation:
    """Validate a config; raise WrongConfig if it names no connector that there is."""
    kind = plugins.connector(config.get("connector.class"))
    found = Validation(kind.class_name(), config, providers)
    found.check(SOURCE_KEYS if kind.kind == SOURCE else SINK_KEYS)
    given = {key: resolved(value, providers) for key, value in config.items() if value is not None}
    _check_converters(found, given)
    _check_transforms(found, given)
    if kind.kind != SOURCE:
        _check_topics(found, given)
    group = kind.__name__
    found.check(replace(each, group=each.group or group) for each in kind.keys)
    for key in kind.keys:
        found.results[key.name].recommended += kind.recommended(key.name, given)
    if not found.error_count:
        _check_whole(found, kind, given)
    found.hide_references()
    return found


def resolved(value: str, providers: Providers) -> str:
    """Return a value without references where that is possible now."""
    try:
        return resolve_text(value, providers)
    except ConnectError:
        return value


def _check_whole(found: Validation, kind: type[Connector], given: Mapping[str, str]) -> None:
    try:
        for key, text in kind.check(given).items():
            found.error(key, text)
    except WrongConfig as error:
        found.error(error.key, str(error))


def _check_topics(found: Validation, given: Mapping[str, str]) -> None:
    topics, regex = given.get("topics", "").strip(), given.get("topics.regex", "").strip()
    if topics and regex:
        text = "topics and topics.regex are mutually exclusive options, but both are set."
        found.error("topics", text)
        found.error("topics.regex", text)
    elif not topics and not regex:
        text = "Must configure one of topics or topics.regex"
        found.error("topics", text)
        found.error("topics.regex", text)
    dead_letters = given.get("errors.deadletterqueue.topic.name", "").strip()
    if dead_letters and dead_letters in [each.strip() for each in topics.split(",")]:
        found.error(
            "topics",
            f"The DLQ topic '{dead_letters}' may not be included in the list of topics ('{topics}') consumed "
            "by the connector",
        )


def _check_converters(found: Validation, given: Mapping[str, str]) -> None:
    for which, known in (("key", CONVERTERS), ("value", CONVERTERS), ("header", HEADERS)):
        key = f"{which}.converter"
        result = found.results[key]
        result.recommended = sorted(known)
        name = given.get(key)
        if not name:
            continue
        kind = known.get(name) or next(
            (each for full, each in known.items() if full.endswith(f".{name}")), None
        )
        if kind is None:
            result.errors.append(
                f"Invalid value {name} for configuration {key}: Class {name} could not be found."
            )
            continue
        found.check(_prefixed(kind.keys, f"{key}.", f"{which.capitalize()} Converter"))


def _prefixed(keys: Iterable[ConfigKey], prefix: str, group: str) -> list[ConfigKey]:
    return [replace(each, name=prefix + each.name, group=group) for each in keys]


def _check_transforms(found: Validation, given: Mapping[str, str]) -> None:
    for what, types, look_up in (
        ("transforms", TRANSFORMS, transform_type),
        ("predicates", PREDICATE_TYPES, predicate_type),
    ):
        for alias in aliases(given, what):
            prefix, group = f"{what}.{alias}.", f"{what.capitalize()}: {alias}"
            found.check([ConfigKey(prefix + "type", CLASS, REQUIRED, "Its class.", HIGH, group=group)])
            found.results[prefix + "type"].recommended = sorted(types)
            if not given.get(prefix + "type"):
                continue
            try:
                kind: Any = look_up(given[prefix + "type"], prefix + "type")
            except WrongConfig as error:
                found.results[prefix + "type"].errors.append(str(error))
                continue
            before = found.error_count
            found.check(_prefixed(kind.keys, prefix, group))
            if what == "transforms":
                found.check(_prefixed(TRANSFORM_KEYS, prefix, group))
                _check_predicate(found, given, prefix)
            if found.error_count == before:
                _construct(found, kind, given, prefix)


def _check_predicate(found: Validation, given: Mapping[str, str], prefix: str) -> None:
    name = given.get(prefix + "predicate")
    if name is not None and name not in aliases(given, "predicates"):
        found.error(
            prefix + "predicate",
            f"Invalid value {name} for configuration {prefix}predicate: 'predicate' must be one of "
            f"{aliases(given, 'predicates')}",
        )


def _construct(found: Validation, kind: Any, given: Mapping[str, str], prefix: str) -> None:
    """Check what one key alone does not show."""
    try:
        kind(section(given, prefix))
    except WrongConfig as error:
        key = prefix + error.key
        found.error(key, str(error).replace(f"configuration {error.key}", f"configuration {key}"))
