"""Writes elements as .proto text: the form that Confluent stores, and the normalised one.

Both put things in a fixed order (fields before oneofs, messages before enums) without comments. The
normalised form also sorts by number, resolves every name of a type and merges options.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ottla.registry.formats.protobuf.elements import (
    MAX_TAG,
    SCALARS,
    Enum,
    EnumValue,
    Extend,
    Field,
    Group,
    Message,
    OneOf,
    Option,
    ProtoFile,
    Ranges,
    Rpc,
    Service,
    Word,
)
from ottla.registry.formats.protobuf.option_writer import OptionWriter, write_bracketed, write_statement
from ottla.registry.formats.protobuf.type_table import Scope, TypeTable

_NUMBERS = SCALARS - {"bool", "string"}


def canonical_text(file: ProtoFile, *, ignore_extensions: bool = False) -> str:
    """Write the file as Confluent does."""
    return _Writer(None, Scope(""), ignore_extensions).file(file)


def normalized_text(file: ProtoFile, types: TypeTable) -> str:
    """Write the file in the form that does not depend on order and spelling."""
    return _Writer(types, Scope(file.package or ""), False).file(file)


class Unresolved(Exception):
    """Raised for the name of a type that nothing declares."""


class _Writer:
    def __init__(self, types: TypeTable | None, scope: Scope, ignore_extensions: bool) -> None:
        self._types = types  # None: do not normalise
        self._scope = scope
        self._ignore_extensions = ignore_extensions
        self._options = OptionWriter(types, scope, ignore_extensions)

    def _within(self, name: str) -> _Writer:
        return _Writer(self._types, self._scope.within(name), self._ignore_extensions)

    @property
    def _normalizes(self) -> bool:
        return self._types is not None

    def file(self, file: ProtoFile) -> str:
        out = []
        if file.syntax is not None and not (self._normalizes and file.syntax == "proto2"):
            out.append(f'syntax = "{file.syntax}";\n')
        if file.edition is not None:
            out.append(f'edition = "{file.edition}";\n')
        if file.package is not None:
            out.append(f"package {file.package};\n")
        if file.imports or file.public_imports:
            out.append("\n")
            out += [f'import "{name}";\n' for name in self._sorted_names(file.imports)]
            out += [f'import public "{name}";\n' for name in self._sorted_names(file.public_imports)]
        options = self._options.prepare(file.options)
        if options:
            out.append("\n")
            out += [write_statement(each, normalize=self._normalizes) for each in options]
        types = self._shown(file.types)
        if types:
            out.append("\n")
            out += self._type_texts(types)
        if file.extends and not self._ignore_extensions:
            out.append("\n")
            out += [self._extend(each) for each in self._grouped(file.extends)]
        if file.services:
            out.append("\n")
            out += [self._service(each) for each in file.services]
        return "".join(out)

    def _sorted_names(self, names: list[str]) -> list[str]:
        return sorted(set(names)) if self._normalizes else names

    def _shown(self, types: list[Message | Enum]) -> list[Message | Enum]:
        if not self._normalizes:
            return types
        return [each for each in types if not (isinstance(each, Message) and each.is_map_entry)]

    def _type_texts(self, types: list[Message | Enum]) -> list[str]:
        out = [self._within(each.name)._message(each) for each in types if isinstance(each, Message)]
        return out + [self._within(each.name)._enum(each) for each in types if isinstance(each, Enum)]

    def _message(self, message: Message) -> str:
        sections = [
            [self._ranges("reserved", each) for each in self._split(message.reserved)],
            [write_statement(e, normalize=self._normalizes) for e in self._options.prepare(message.options)],
            [self._field(each) for each in self._by_tag(message.fields)],
            [self._oneof(each) for each in self._sorted_oneofs(message.oneofs)],
            [self._group(each) for each in self._by_tag(message.groups)],
        ]
        if not self._ignore_extensions:
            sections.append([self._ranges("extensions", each) for each in self._split(message.extensions)])
            sections.append([self._extend(each) for each in self._grouped(message.extends)])
        sections.append(self._type_texts(self._shown(message.types)))
        return _block(f"message {message.name}", sections)

    def _enum(self, enum: Enum) -> str:
        values = enum.values
        if self._normalizes:
            values = sorted(values, key=lambda each: (each.tag, each.name))
        lines = [self._ranges("reserved", each) for each in self._split(enum.reserved)]
        lines += [write_statement(e, normalize=self._normalizes) for e in self._options.prepare(enum.options)]
        lines += [self._enum_value(each) for each in values]
        return _block(f"enum {enum.name}", [lines])

    def _enum_value(self, value: EnumValue) -> str:
        return f"{value.name} = {value.tag}{self._bracketed(value.options)};\n"

    def _bracketed(self, options: list[Option]) -> str:
        prepared = self._options.prepare(options)
        return " " + write_bracketed(prepared, normalize=self._normalizes) if prepared else ""

    def _field(self, each: Field) -> str:
        label, kind = each.label, each.type
        if self._normalizes:
            kind = self._resolved_type(kind)
            label = None if kind.startswith("map<") else label
        options = list(each.options)
        if each.default is not None:
            options.append(Option("default", _default(each.default, each.type)))
        if each.json_name is not None:
            options.append(Option("json_name", each.json_name))
        start = f"{label} " if label else ""
        return f"{start}{kind} {each.name} = {each.tag}{self._bracketed(options)};\n"

    def _resolved_type(self, name: str) -> str:
        assert self._types is not None
        if name not in SCALARS and not name.startswith("map<"):
            info = self._types.find(name, self._scope)
            if info is None:
                raise Unresolved(f"Could not resolve type: {name}")
            name = info.map_type or "." + info.full_name
        if name.startswith("map<"):
            key, _, value = name.removeprefix("map<").removesuffix(">").partition(", ")
            info = self._types.find(value, self._scope)
            name = f"map<{key}, {'.' + info.full_name if info is not None else value}>"
        return name

    def _oneof(self, oneof: OneOf) -> str:
        sections = [
            [write_statement(e, normalize=self._normalizes) for e in self._options.prepare(oneof.options)],
            [self._field(each) for each in oneof.fields],
            [self._group(each) for each in self._by_tag(oneof.groups)],
        ]
        return _block(f"oneof {oneof.name}", sections)

    def _sorted_oneofs(self, oneofs: list[OneOf]) -> list[OneOf]:
        if not self._normalizes:
            return oneofs
        kept = [
            OneOf(each.name, sorted(each.fields, key=_tag), each.groups, each.options)
            for each in oneofs
            if each.fields
        ]
        return sorted(kept, key=lambda each: each.fields[0].tag)

    def _group(self, group: Group) -> str:
        start = f"{group.label} " if group.label else ""
        fields = [self._field(each) for each in self._by_tag(group.fields)]
        return _block(f"{start}group {group.name} = {group.tag}", [fields])

    def _extend(self, extend: Extend) -> str:
        return _block(f"extend {extend.name}", [[self._field(each) for each in self._by_tag(extend.fields)]])

    def _grouped(self, extends: list[Extend]) -> list[Extend]:
        """Return one declaration for each message that is extended."""
        if self._types is None:
            return extends
        by_name: dict[str, Extend] = {}
        for each in extends:
            info = self._types.find(each.name, self._scope)
            if info is None:
                raise Unresolved(f"Could not resolve type: {each.name}")
            name = "." + info.full_name
            by_name.setdefault(name, Extend(name)).fields.extend(each.fields)
        return list(by_name.values())

    def _by_tag(self, elements: list[Any]) -> list[Any]:
        return sorted(elements, key=_tag) if self._normalizes else elements

    def _split(self, ranges: list[Ranges]) -> list[Ranges]:
        """Return one declaration for each range, in order, if the text is normalised."""
        if not self._normalizes:
            return ranges
        single = [Ranges([value], each.options) for each in ranges for value in each.values]
        return sorted(single, key=lambda each: _range_key(each.values[0]))

    def _ranges(self, keyword: str, ranges: Ranges) -> str:
        values = ", ".join(self._range(value) for value in ranges.values)
        return f"{keyword} {values}{self._bracketed(ranges.options)};\n"

    def _range(self, value: int | tuple[int, int] | str) -> str:
        if isinstance(value, str):
            return f'"{value}"'
        if isinstance(value, int):
            return str(value)
        first, last = value
        if self._normalizes and first == last:
            return str(first)
        return f"{first} to {last if last < MAX_TAG else 'max'}"

    def _service(self, service: Service) -> str:
        options = [
            write_statement(e, normalize=self._normalizes) for e in self._options.prepare(service.options)
        ]
        return _block(f"service {service.name}", [options, [self._rpc(each) for each in service.rpcs]])

    def _rpc(self, rpc: Rpc) -> str:
        request, response = rpc.request, rpc.response
        if self._normalizes:
            request, response = self._resolved_type(request), self._resolved_type(response)
        text = f"rpc {rpc.name} ({'stream ' * rpc.request_streaming}{request}) returns "
        text += f"({'stream ' * rpc.response_streaming}{response})"
        options = self._options.prepare(rpc.options)
        if options:
            lines = [indented(write_statement(e, normalize=self._normalizes)) for e in options]
            text += " {\n" + "".join(lines) + "}"
        return text + ";\n"


def _tag(element: Any) -> int:
    tag: int = element.tag
    return tag


def _range_key(value: int | tuple[int, int] | str) -> tuple[int, str]:
    if isinstance(value, tuple):
        return value[0], f"{value[0]}..{value[1]}"
    return (value, str(value)) if isinstance(value, int) else ((1 << 31) - 1, value)


def _default(value: str, kind: str) -> str | Word:
    if kind == "string":
        return value
    if kind == "bool":
        return Word("BOOLEAN", value)
    return Word("NUMBER" if kind in _NUMBERS else "ENUM", value)


def indented(text: str) -> str:
    """Return the lines of a text, two spaces to the right."""
    return "".join(f"  {line}\n" for line in text.rstrip("\n").split("\n"))


def _block(head: str, sections: Iterable[list[str]]) -> str:
    """Write a declaration with its sections, each after an empty line but the first."""
    body = "".join("\n" + "".join(map(indented, lines)) for lines in sections if lines)
    return f"{head} {{{body}}}\n"
