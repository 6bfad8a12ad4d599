"""What a configuration value may be: the kinds of values, and the checks that narrow them.

A `Kind` turns what was given into a value of its type, or raises ValueError with what it wants. There are two
families. Kafka's own (`INT`, `LIST`, ...) are for keys of brokers, topics and groups and for Spark's options:
they read text, write it back the way Kafka's tools expect, and have the code that DescribeConfigs carries.
Python's (`WHOLE`, `WORDS`, `choice(...)`, ...) are for the clients' options: they take Python values as well
as text. A `Check` refuses values and says in words what it wants.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

from ottla.common.units import MAX_INT, MAX_LONG, MAX_SHORT

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

_WHOLE_NUMBER = re.compile(r"[+-]?[0-9]{1,19}")
_DECIMAL_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{1,3})?")


@dataclass(frozen=True)
class Kind(Generic[T_co]):
    """A type of values. `code` is DescribeConfigs's, 0 for kinds that are not Kafka's."""

    name: str
    code: int
    parse: Callable[[Any], T_co]
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


def _stripped(parse: Callable[[str], T]) -> Callable[[Any], T]:
    """Let blanks around a text count for nothing."""
    return lambda text: parse(text.strip())


BOOLEAN: Final = Kind("boolean", 1, _stripped(_parse_boolean), _write_boolean)
STRING: Final = Kind("string", 2, _stripped(str))
INT: Final = Kind("int", 3, _stripped(_whole_number(MAX_INT)))
SHORT: Final = Kind("short", 4, _stripped(_whole_number(MAX_SHORT)))
LONG: Final = Kind("long", 5, _stripped(_whole_number(MAX_LONG)))
DOUBLE: Final = Kind("double", 6, _stripped(_parse_double), _write_double)
LIST: Final = Kind("list", 7, _stripped(_parse_list), _write_list)
PASSWORD: Final = Kind("password", 9, _stripped(str), sensitive=True)

_TRUE, _FALSE = ("true", "yes", "1"), ("false", "no", "0")


def read_text(value: Any) -> str:
    """Return a text as it is."""
    if isinstance(value, str):
        return value
    raise ValueError("must be a text")


def _read_whole(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int | str | float):
        raise ValueError("must be a whole number")
    try:
        number = int(value)
    except (ValueError, OverflowError):
        raise ValueError("must be a whole number") from None
    if isinstance(value, float) and number != value:
        raise ValueError("must be a whole number")
    return number


def _read_number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | str | float):
        raise ValueError("must be a number")
    try:
        return float(value)
    except ValueError:
        raise ValueError("must be a number") from None


def read_boolean(value: Any) -> bool:
    """Return a truth value, given as one or as the word for it."""
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and value.strip().lower() in (*_TRUE, *_FALSE):
        return value.strip().lower() in _TRUE
    raise ValueError("must be True or False")


def read_words(value: Any) -> tuple[str, ...]:
    """Return a list of words, given as a list or as one text with commas."""
    if isinstance(value, str):
        return tuple(part.strip() for part in value.split(",") if part.strip())
    if isinstance(value, Iterable):
        found = tuple(value)
        if all(isinstance(each, str) for each in found):
            return found
    raise ValueError("must be a list of texts, or one text with commas")


def _read_function(value: Any) -> Any:
    if callable(value):
        return value
    raise ValueError("must be a function")


TEXT: Final = Kind("text", 0, read_text)
SECRET: Final = Kind("text", 0, read_text, sensitive=True)
WHOLE: Final = Kind("whole number", 0, _read_whole)
NUMBER: Final = Kind("number", 0, _read_number)
TRUE_OR_FALSE: Final = Kind("True or False", 0, read_boolean)
WORDS: Final = Kind("list of texts", 0, read_words)
FUNCTION: Final = Kind[Any]("function", 0, _read_function)
OBJECT: Final = Kind[Any]("object", 0, lambda value: value)


def choice(*choices: str) -> Kind[str]:
    """Accept one of a few words, in any case; return it as it is written here."""
    spelled = {each.lower(): each for each in choices}

    def read(value: Any) -> str:
        if isinstance(value, str) and value.strip().lower() in spelled:
            return spelled[value.strip().lower()]
        raise ValueError(f"must be one of {', '.join(choices)}")

    return Kind(f"one of {', '.join(choices)}", 0, read)


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
