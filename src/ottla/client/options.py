"""How options of the clients are declared and read: each option once, with its type, default and meaning.

An options class is a frozen dataclass whose fields are made by `option(...)`. It is read with
`Options.of(...)`, which takes names as kafka-python spells them (`linger_ms`) and as Kafka and
librdkafka do (`linger.ms`, `sasl.username`); values may be text, as they are in a properties file.

    ProducerOptions.of("localhost:9092", linger_ms=5)
    ProducerOptions.of(**{"bootstrap.servers": "localhost:9092", "linger.ms": "5"})

An unknown name is refused with the nearest known one, a value that does not fit with what would.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, dataclass, field, fields
from typing import Any, ClassVar, Self, TypeVar, cast

from ottla.common.config.declaration import ConfigError, did_you_mean
from ottla.common.config.types import Check

# The kinds of values that options have: each turns what was given into its type, or says what it wants.

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


T = TypeVar("T")

__all__ = ["ConfigError", "Declared", "Options", "option"]


@dataclass(frozen=True, slots=True)
class Declared:
    """What is said of an option beside its type and default."""

    kind: Callable[[Any], Any]
    """Returns the value in its proper type, or raises ValueError with what would fit."""
    doc: str
    check: Check | None = None
    also: tuple[str, ...] = ()
    """Other names for it, written with underscores; a dot in a name counts as one."""
    is_secret: bool = False


def option(
    default: T,
    kind: Callable[[Any], Any],
    doc: str,
    *,
    check: Check | None = None,
    also: tuple[str, ...] = (),
    is_secret: bool = False,
) -> T:
    """Declare an option; None as a default means that it may be left out."""
    declared = Declared(kind, doc, check, also, is_secret)
    return field(default=default, repr=not is_secret, metadata={"option": declared})


class Options:
    """Base of the options classes."""

    REFUSED: ClassVar[Mapping[str, str]] = {}
    """Options of other clients that we do not have, and what to write instead."""

    @classmethod
    def of(cls, *positional: Any, **named: Any) -> Self:
        """Return the options that these names and values stand for; raise ConfigError if they do not fit."""
        if positional and isinstance(positional[0], Mapping):
            positional, named = positional[1:], {**positional[0], **named}
        known = cls.declared()
        names = {other: name for name, declared in known.items() for other in (name, *declared.also)}
        first = next(iter(known))
        if len(positional) > 1:
            raise ConfigError(first, f"is the only one that needs no name: name the rest, {positional[1:]!r}")
        values: dict[str, Any] = {first: positional[0]} if positional else {}
        for given, value in named.items():
            name = names.get(given.replace(".", "_"))
            if name is None:
                raise ConfigError(given, cls._why_refused(given, known))
            if positional and name == first:
                raise ConfigError(given, f"is given twice: {positional[0]!r}, which has no name, is this one")
            if name in values:
                raise ConfigError(given, f"is given twice: it is the same option as {name}")
            values[name] = value
        return cls(**values)

    @classmethod
    def declared(cls) -> dict[str, Declared]:
        """Return what is declared, by name."""
        return {each.name: each.metadata["option"] for each in fields(cast("Any", cls))}

    @classmethod
    def default_of(cls, name: str) -> Any:
        """Return the value of an option that is not given."""
        (found,) = (each for each in fields(cast("Any", cls)) if each.name == name)
        return None if found.default is MISSING else found.default

    def __post_init__(self) -> None:
        for name, declared in self.declared().items():
            value = getattr(self, name)
            if value is None and self.default_of(name) is None:
                continue
            object.__setattr__(self, name, _fitted(name, declared, value))

    @classmethod
    def _why_refused(cls, given: str, known: Mapping[str, Declared]) -> str:
        reason = cls.REFUSED.get(given.replace(".", "_"))
        if reason is not None:
            return reason
        spelled = [name.replace("_", ".") for name in known] if "." in given else list(known)
        return f"unknown option{did_you_mean(given, spelled)}"


def _fitted(name: str, declared: Declared, value: Any) -> Any:
    shown = "" if declared.is_secret else f", not {value!r}"
    try:
        fitted = declared.kind(value)
    except ValueError as error:
        raise ConfigError(name, f"{error}{shown}") from None
    if declared.check is not None and not declared.check.accepts(fitted):
        raise ConfigError(name, f"must be {declared.check.wants}{shown}")
    return fitted
