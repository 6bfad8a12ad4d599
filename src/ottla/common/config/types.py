"""What a configuration value may be: Kafka's types, and the checks that narrow them.

A `Kind` knows how to read a value from text and how to write it back the way Kafka's tools expect;
its code is the one DescribeConfigs carries. A `Check` refuses values and says in words what it wants.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

from ottla.common.units import MAX_INT, MAX_LONG, MAX_SHORT

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

_WHOLE_NUMBER = re.compile(r"[+-]?[0-9]{1,19}")
_DECIMAL_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{1,3})?")


@dataclass(frozen=True)
class Kind(Generic[T_co]):
    """One of Kafka's configuration types."""

    name: str
    code: int
    parse: Callable[[str], T_co]
    write: Callable[[Any], str] = str
    sensitive: bool = False


@dataclass(frozen=True)
class Check:
    """A condition on a value, and the words for it: `must be <wants>`."""

    wants: str
    accepts: Callable[[Any], bool]


def _parse_boolean(text: str) -> bool:
    match text.lower():
        case "true":
            return True
        case "false":
            return False
    raise ValueError("must be true or false")


def _write_boolean(value: bool) -> str:
    return "true" if value else "false"


def _whole_number(largest: int) -> Callable[[str], int]:
    def parse(text: str) -> int:
        if not _WHOLE_NUMBER.fullmatch(text):
            raise ValueError("must be a whole number")
        value = int(text)
        if not -largest - 1 <= value <= largest:
            raise ValueError(f"must be a whole number between {-largest - 1} and {largest}")
        return value

    return parse


def _parse_double(text: str) -> float:
    value = float(text) if _DECIMAL_NUMBER.fullmatch(text) else math.nan
    if not math.isfinite(value):
        raise ValueError("must be a number")
    return value


def _write_double(value: float) -> str:
    return repr(value).replace("e+", "E").replace("e-", "E-")


def _parse_list(text: str) -> tuple[str, ...]:
    return tuple(item.strip() for item in text.split(",")) if text else ()


def _write_list(value: tuple[str, ...]) -> str:
    return ",".join(value)


BOOLEAN: Final = Kind("boolean", 1, _parse_boolean, _write_boolean)
STRING: Final = Kind("string", 2, str)
INT: Final = Kind("int", 3, _whole_number(MAX_INT))
SHORT: Final = Kind("short", 4, _whole_number(MAX_SHORT))
LONG: Final = Kind("long", 5, _whole_number(MAX_LONG))
DOUBLE: Final = Kind("double", 6, _parse_double, _write_double)
LIST: Final = Kind("list", 7, _parse_list, _write_list)
PASSWORD: Final = Kind("password", 9, str, sensitive=True)


def at_least(smallest: int) -> Check:
    """Accept numbers from `smallest` on."""
    return Check(f"at least {smallest}", lambda value: value >= smallest)


def between(smallest: float, largest: float) -> Check:
    """Accept numbers from `smallest` to `largest`, both included."""
    return Check(f"between {smallest} and {largest}", lambda value: smallest <= value <= largest)


def one_of(*choices: str) -> Check:
    """Accept one of a few words, spelled exactly."""
    return Check(f"one of {', '.join(choices)}", lambda value: value in choices)


def list_of(*choices: str) -> Check:
    """Accept a list of any of a few words."""
    return Check(f"a comma-separated list of {', '.join(choices)}", lambda value: set(value) <= set(choices))


def only(value: object, because: str) -> Check:
    """Accept one value only, of a key that is there so that Kafka's default can be given."""
    shown = _write_boolean(value) if isinstance(value, bool) else str(value)
    return Check(f"{shown} ({because})", lambda given: given == value)


NOT_ZERO: Final = Check("negative (no limit) or at least 1", lambda value: value != 0)
"""For retention times, where Kafka reads every negative number as "no limit"."""
