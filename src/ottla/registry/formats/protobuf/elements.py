"""The declarations of a .proto file, in the order and with the spelling of its text."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

MAX_TAG = (1 << 29) - 1
SCALARS = frozenset(
    [
        "double",
        "float",
        "int32",
        "int64",
        "uint32",
        "uint64",
        "sint32",
        "sint64",
        "fixed32",
        "fixed64",
        "sfixed32",
        "sfixed64",
        "bool",
        "string",
        "bytes",
    ]
)


@dataclass(frozen=True, slots=True)
class Word:
    """A value of an option without quotes: a number, a boolean or the name of an enum's value."""

    kind: str  # "NUMBER", "BOOLEAN", "ENUM"
    text: str


@dataclass(slots=True)
class Option:
    """An option. Its value is a str, Word, dict (a message), list, or an Option (`(name).inner = ...`)."""

    name: str
    value: Any
    parenthesized: bool = False


@dataclass(slots=True)
class Field:
    """A field, also one of a oneof or of an extension."""

    label: str | None
    type: str
    name: str
    tag: int
    default: str | None = None
    json_name: str | None = None
    options: list[Option] = field(default_factory=list)


@dataclass(slots=True)
class Group:
    """A field of proto2 whose message is declared in place."""

    label: str | None
    name: str
    tag: int
    fields: list[Field] = field(default_factory=list)
    types: list[Message | Enum] = field(default_factory=list)


@dataclass(slots=True)
class OneOf:
    """Fields of which at most one is set."""

    name: str
    fields: list[Field] = field(default_factory=list)
    groups: list[Group] = field(default_factory=list)
    options: list[Option] = field(default_factory=list)


@dataclass(slots=True)
class Ranges:
    """Reserved numbers and names, or numbers for extensions: an int, a pair (first, last) or a str each."""

    values: list[int | tuple[int, int] | str]
    options: list[Option] = field(default_factory=list)


@dataclass(slots=True)
class Extend:
    """Fields that are added to a message of another declaration."""

    name: str
    fields: list[Field] = field(default_factory=list)


@dataclass(slots=True)
class EnumValue:
    """One value of an enum."""

    name: str
    tag: int
    options: list[Option] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class Enum:
    """An enum."""

    name: str
    values: list[EnumValue] = field(default_factory=list)
    options: list[Option] = field(default_factory=list)
    reserved: list[Ranges] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class Message:
    """A message."""

    name: str
    fields: list[Field] = field(default_factory=list)
    oneofs: list[OneOf] = field(default_factory=list)
    groups: list[Group] = field(default_factory=list)
    types: list[Message | Enum] = field(default_factory=list)
    options: list[Option] = field(default_factory=list)
    reserved: list[Ranges] = field(default_factory=list)
    extensions: list[Ranges] = field(default_factory=list)
    extends: list[Extend] = field(default_factory=list)

    def all_fields(self) -> Iterator[tuple[Field, OneOf | None]]:
        """Yield every field, with the oneof that it belongs to."""
        for each in self.fields:
            yield each, None
        for oneof in self.oneofs:
            for each in oneof.fields:
                yield each, oneof

    @property
    def is_map_entry(self) -> bool:
        """Return whether the message stands for the entries of a map, as descriptors have it."""
        return any(o.name == "map_entry" and o.value == Word("BOOLEAN", "true") for o in self.options)


@dataclass(slots=True)
class Rpc:
    """A method of a service."""

    name: str
    request: str
    response: str
    request_streaming: bool = False
    response_streaming: bool = False
    options: list[Option] = field(default_factory=list)


@dataclass(slots=True)
class Service:
    """A service; it does not count for compatibility."""

    name: str
    rpcs: list[Rpc] = field(default_factory=list)
    options: list[Option] = field(default_factory=list)


@dataclass(slots=True)
class ProtoFile:
    """A whole file."""

    syntax: str | None = None
    edition: str | None = None
    package: str | None = None
    imports: list[str] = field(default_factory=list)
    public_imports: list[str] = field(default_factory=list)
    weak_imports: list[str] = field(default_factory=list)
    types: list[Message | Enum] = field(default_factory=list)
    services: list[Service] = field(default_factory=list)
    extends: list[Extend] = field(default_factory=list)
    options: list[Option] = field(default_factory=list)

    @property
    def all_imports(self) -> list[str]:
        """Return what the file imports, in whatever way."""
        return self.imports + self.public_imports + self.weak_imports
