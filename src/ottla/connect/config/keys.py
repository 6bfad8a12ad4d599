"""Declare the config keys of a connector, a converter or a transform once: type, default, check, meaning."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ottla.connect.errors import WrongConfig

STRING, PASSWORD, CLASS, LIST = "STRING", "PASSWORD", "CLASS", "LIST"
BOOLEAN, SHORT, INT, LONG, DOUBLE = "BOOLEAN", "SHORT", "INT", "LONG", "DOUBLE"
HIGH, MEDIUM, LOW = "HIGH", "MEDIUM", "LOW"
HIDDEN = "[hidden]"

_BITS = {SHORT: 16, INT: 32, LONG: 64}
Check = Callable[[str, Any], None]


class _Required:
    """The default of a key that must be set."""

    def __repr__(self) -> str:
        return "REQUIRED"


REQUIRED: Any = _Required()


@dataclass(frozen=True)
class ConfigKey:
    """A config key."""

    name: str
    type: str = STRING
    default: Any = REQUIRED
    doc: str = ""
    importance: str = MEDIUM
    check: Check | None = None
    values: tuple[str, ...] = ()
    """The values that are allowed; also recommended."""
    group: str | None = None
    display: str = ""
    width: str = "NONE"

    @property
    def is_required(self) -> bool:
        """Whether there is no default."""
        return self.default is REQUIRED

    def parse(self, given: Mapping[str, str | None]) -> Any:
        """Return the value that a config has for this key; raise WrongConfig."""
        if given.get(self.name) is None:
            if self.is_required:
                raise MissingConfig(self.name)
            return self.default
        value = parse_value(self.name, self.type, given[self.name])
        if self.values and str(value).lower() not in [each.lower() for each in self.values]:
            raise WrongConfig(self.name, value, f"String must be one of: {', '.join(self.values)}")
        if self.check is not None:
            self.check(self.name, value)
        return value


class MissingConfig(WrongConfig):
    """A key without a default is not set."""

    def __init__(self, key: str) -> None:
        super().__init__(key, None, "")
        self.args = (f'Missing required configuration "{key}" which has no default value.',)


def parse_value(name: str, kind: str, given: Any) -> Any:
    """Return a value of a type from its text."""
    text = given if isinstance(given, str) else str(given)
    trimmed = text.strip()
    if kind == BOOLEAN:
        if trimmed.lower() not in ("true", "false"):
            raise WrongConfig(name, text, "Expected value to be either true or false")
        return trimmed.lower() == "true"
    if kind in _BITS:
        limit = 1 << _BITS[kind] - 1
        if not re.fullmatch(r"[+-]?[0-9]{1,19}", trimmed, re.ASCII) or not -limit <= int(trimmed) < limit:
            raise WrongConfig(name, text, f"Not a number of type {kind}")
        return int(trimmed)
    if kind == DOUBLE:
        try:
            return float(trimmed)
        except ValueError:
            raise WrongConfig(name, text, f"Not a number of type {kind}") from None
    if kind == LIST:
        return [each.strip() for each in trimmed.split(",")] if trimmed else []
    return text if kind == PASSWORD else trimmed


def shown(kind: str, value: Any) -> str | None:
    """Return a value as Connect shows it."""
    if value is None or value is REQUIRED:
        return None
    if kind == PASSWORD:
        return HIDDEN
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list | tuple):
        return ",".join(map(str, value))
    return str(value)


class Settings(dict[str, Any]):
    """The parsed values of a config, with its unparsed text under `given`."""

    def __init__(self, keys: Sequence[ConfigKey], given: Mapping[str, str | None]) -> None:
        super().__init__({each.name: each.parse(given) for each in keys})
        self.given = dict(given)


def at_least(least: int) -> Check:
    """Return a check of numbers."""

    def check(name: str, value: Any) -> None:
        if value < least:
            raise WrongConfig(name, value, f"Value must be at least {least}")

    return check


def non_empty(name: str, value: Any) -> None:
    """Check that a value is not empty."""
    if not value:
        raise WrongConfig(
            name, value, "Empty list" if isinstance(value, list) else "String must be non-empty"
        )


MAX_NAME_BYTES = 1000
"""Of a connector. The group protocol has 16 bits for a length: a longer name would stop all workers."""


def name_check(name: str, value: str) -> None:
    """Check the name of a connector."""
    if len(value.encode()) > MAX_NAME_BYTES:
        raise WrongConfig(name, value[:20] + "...", f"a name has at most {MAX_NAME_BYTES} bytes")
    if not value or any(ord(each) < 32 or ord(each) == 127 for each in value):
        raise WrongConfig(name, value, "String may not contain control sequences and must be non-empty")


def java_regex(text: str) -> re.Pattern[str]:
    """Compile a regular expression with Java's form of named groups; raise re.error."""
    return re.compile(re.sub(r"(?<!\\)\(\?<(?=[A-Za-z])", "(?P<", text))


def is_regex(name: str, value: str) -> None:
    """Check a regular expression."""
    try:
        java_regex(value)
    except re.error as error:
        raise WrongConfig(name, value, f"Invalid regex: {error}") from None


def are_regexes(name: str, value: list[str]) -> None:
    """Check a list of regular expressions."""
    for each in value:
        is_regex(name, each)


def any_of(patterns: Sequence[str]) -> Callable[[str], bool]:
    """Return what says whether a whole text matches one of some regular expressions.

    Each is compiled by itself: flags, names and numbers of groups are its own.
    """
    compiled = [java_regex(each) for each in patterns]
    return lambda text: any(each.fullmatch(text) for each in compiled)


def unique(name: str, value: list[str]) -> None:
    """Check that aliases differ."""
    if len(set(value)) != len(value):
        raise WrongConfig(name, value, "Duplicate alias provided.")
