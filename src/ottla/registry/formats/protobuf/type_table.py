"""Resolves the names of messages, enums and extension fields in a file and what it imports."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeVar

from ottla.registry.formats.protobuf.elements import Enum, Extend, Field, Message, ProtoFile

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class TypeInfo:
    """A message or an enum, with the package that declares it."""

    full_name: str
    package: str
    type: Message | Enum

    @property
    def local_name(self) -> str:
        """Return the name without the package."""
        return self.full_name.removeprefix(self.package + ".") if self.package else self.full_name

    @property
    def map_type(self) -> str | None:
        """Return `map<key, value>` if the message stands for the entries of a map."""
        if not isinstance(self.type, Message) or not self.type.is_map_entry:
            return None
        types = {each.name: each.type for each in self.type.fields}
        return f"map<{types.get('key', 'string')}, {types.get('value', 'string')}>"


@dataclass(frozen=True, slots=True)
class Scope:
    """Where a name is used: in a package, within messages."""

    package: str
    messages: tuple[str, ...] = ()

    def within(self, name: str) -> Scope:
        """Return the scope of what is declared within a message."""
        return Scope(self.package, (*self.messages, name))


class TypeTable:
    """Every type and every extension field of some files, by full name."""

    def __init__(self, files: Iterable[ProtoFile]) -> None:
        self.types: dict[str, TypeInfo] = {}
        self.extension_fields: dict[str, Field] = {}
        for file in files:
            package = file.package or ""
            self._add_extends(file.extends, package)
            self._add_types(file.types, package, package)

    def _add_types(self, types: Iterable[Message | Enum], package: str, prefix: str) -> None:
        for each in types:
            full_name = f"{prefix}.{each.name}" if prefix else each.name
            self.types[full_name] = TypeInfo(full_name, package, each)
            if isinstance(each, Message):
                self._add_extends(each.extends, full_name)
                self._add_types(each.types, package, full_name)

    def _add_extends(self, extends: Iterable[Extend], prefix: str) -> None:
        for extend in extends:
            for each in extend.fields:
                self.extension_fields[f"{prefix}.{each.name}" if prefix else each.name] = each

    def find(self, name: str, scope: Scope) -> TypeInfo | None:
        """Return the type that a name stands for."""
        full_name = _resolve(name, scope, self.types.__contains__)
        return self.types[full_name] if full_name is not None else None

    def find_extension(self, name: str, scope: Scope) -> str | None:
        """Return the full name of the extension field that a name stands for."""
        return _resolve(name, scope, self.extension_fields.__contains__)


def _resolve(name: str, scope: Scope, exists: Callable[[str], bool]) -> str | None:
    if name.startswith("."):
        return name[1:] if exists(name[1:]) else None
    prefix = [*(scope.package.split(".") if scope.package else ()), *scope.messages]
    while prefix:
        candidate = ".".join(prefix) + "." + name
        if exists(candidate):
            return candidate
        prefix.pop()
    return name if exists(name) else None
