"""The kinds of values that options have: each turns what was given into its type, or says what it wants."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

_TRUE, _FALSE = ("true", "yes", "1"), ("false", "no", "0")


def text(value: Any) -> str:
    """Return a text as it is."""
    if isinstance(value, str):
        return value
    raise ValueError("must be a text")


def whole(value: Any) -> int:
    """Return a whole number, given as one or as text."""
    if isinstance(value, bool) or not isinstance(value, int | str | float):
        raise ValueError("must be a whole number")
    try:
        number = int(value)
    except (ValueError, OverflowError):
        raise ValueError("must be a whole number") from None
    if isinstance(value, float) and number != value:
        raise ValueError("must be a whole number")
    return number


def number(value: Any) -> float:
    """Return a number, given as one or as text."""
    if isinstance(value, bool) or not isinstance(value, int | str | float):
        raise ValueError("must be a number")
    try:
        return float(value)
    except ValueError:
        raise ValueError("must be a number") from None


def yes_or_no(value: Any) -> bool:
    """Return a truth value, given as one or as the word for it."""
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and value.strip().lower() in (*_TRUE, *_FALSE):
        return value.strip().lower() in _TRUE
    raise ValueError("must be True or False")


def words(value: Any) -> tuple[str, ...]:
    """Return a list of words, given as a list or as one text with commas."""
    if isinstance(value, str):
        return tuple(part.strip() for part in value.split(",") if part.strip())
    if isinstance(value, Iterable):
        found = tuple(value)
        if all(isinstance(each, str) for each in found):
            return found
    raise ValueError("must be a list of texts, or one text with commas")


def one_of(*choices: str) -> Callable[[Any], str]:
    """Accept one of a few words, in any case; return it as it is written here."""
    spelled = {each.lower(): each for each in choices}

    def read(value: Any) -> str:
        if isinstance(value, str) and value.strip().lower() in spelled:
            return spelled[value.strip().lower()]
        raise ValueError(f"must be one of {', '.join(choices)}")

    return read


def function(value: Any) -> Any:
    """Accept anything that can be called."""
    if callable(value):
        return value
    raise ValueError("must be a function")


def thing(value: Any) -> Any:
    """Accept any object."""
    return value
