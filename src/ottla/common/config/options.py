"""Options of a client: a frozen dataclass whose fields are declared keys.

An options class is a frozen dataclass whose fields are made by `option(...)`. It is read with
`Options.of(...)`, which takes names as kafka-python spells them (`linger_ms`) and as Kafka and
librdkafka do (`linger.ms`, `sasl.username`); values may be text, as they are in a properties file.

    ProducerOptions.of("localhost:9092", linger_ms=5)
    ProducerOptions.of(**{"bootstrap.servers": "localhost:9092", "linger.ms": "5"})

An unknown name is refused with the nearest known one, a value that does not fit with what would.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, fields, replace
from functools import cache
from typing import Any, ClassVar, Self, TypeVar, cast

from ottla.common.config.declaration import ConfigError, Key
from ottla.common.config.types import Check, Kind
from ottla.common.near_names import unknown

T = TypeVar("T")


def option(
    default: T, kind: Kind[Any], doc: str, *, check: Check | None = None, aliases: tuple[str, ...] = ()
) -> T:
    """Declare an option of an `Options` class; None as a default means that it may be left out."""
    key = Key("", kind, default, doc, check=check, aliases=aliases)
    return field(default=default, repr=not kind.sensitive, metadata={"key": key})


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
        names = {other: name for name, key in known.items() for other in (name, *key.aliases)}
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
    def declared(cls) -> Mapping[str, Key[Any]]:
        """Return the keys, by name."""
        return _declared(cast("Any", cls))

    def __post_init__(self) -> None:
        for name, key in self.declared().items():
            value = getattr(self, name)
            if value is not None or key.default is not None:
                object.__setattr__(self, name, key.parse(value))

    @classmethod
    def _why_refused(cls, given: str, known: Mapping[str, Key[Any]]) -> str:
        reason = cls.REFUSED.get(given.replace(".", "_"))
        if reason is not None:
            return reason
        spelled = [name.replace("_", ".") for name in known] if "." in given else list(known)
        return unknown("option", given, spelled)


@cache
def _declared(options: Any) -> Mapping[str, Key[Any]]:
    """Return the keys of an options class, which learn their names here, in the order of its fields."""
    return {each.name: replace(each.metadata["key"], name=each.name) for each in fields(options)}
