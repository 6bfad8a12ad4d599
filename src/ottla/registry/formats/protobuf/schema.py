"""A parsed Protobuf schema: its texts, its descriptor, its tags, and what it can read."""

from __future__ import annotations

import base64
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, cast

from ottla.registry.formats.limits import InvalidSchema
from ottla.registry.formats.parsed import Entity, ParsedSchema, TagChanges, changed_tags
from ottla.registry.formats.protobuf.compatibility import Compared, messages
from ottla.registry.formats.protobuf.compiler import compile_descriptors
from ottla.registry.formats.protobuf.descriptors import parse_base64
from ottla.registry.formats.protobuf.elements import Enum, Field, Message, Option, ProtoFile
from ottla.registry.formats.protobuf.parser import parse_proto
from ottla.registry.formats.protobuf.type_table import TypeTable
from ottla.registry.formats.protobuf.well_known import well_known
from ottla.registry.formats.protobuf.writer import Unresolved, canonical_text, normalized_text


def with_maps(file: ProtoFile) -> ProtoFile:
    """Return the file with `map<key, value>` for fields whose type is a message of map entries."""
    if not any(_has_entry(each) for each in file.types if isinstance(each, Message)):
        return file
    return replace(file, types=[_message(each) if isinstance(each, Message) else each for each in file.types])


def _has_entry(message: Message) -> bool:
    nested = [each for each in message.types if isinstance(each, Message)]
    return message.is_map_entry or any(map(_has_entry, nested))


def _message(message: Message) -> Message:
    entries = {}
    for each in message.types:
        if isinstance(each, Message) and each.is_map_entry:
            inner = {field.name: field.type for field in each.fields}
            entries[each.name] = f"map<{inner.get('key', 'string')}, {inner.get('value', 'string')}>"
    kept = [each for each in message.types if each.name not in entries]
    types = [_message(each) if isinstance(each, Message) else each for each in kept]
    oneofs = [replace(each, fields=[_field(f, entries) for f in each.fields]) for each in message.oneofs]
    return replace(message, fields=[_field(f, entries) for f in message.fields], oneofs=oneofs, types=types)


def _field(field: Field, entries: dict[str, str]) -> Field:
    kind = entries.get(field.type.rpartition(".")[2])
    return field if kind is None or field.label != "repeated" else replace(field, type=kind, label=None)


def _parse(text: str) -> ProtoFile:
    """Parse the text of a file, or a FileDescriptorProto in base64."""
    try:
        return parse_proto(text)
    except InvalidSchema:
        file = parse_base64(text.strip())
        if file is None:
            raise
        return file


class ProtobufSchema:
    """A .proto file with the files that it imports."""

    schema_type = "PROTOBUF"

    def __init__(self, text: str, references: Mapping[str, str], *, validate: bool) -> None:
        self.file = _parse(text)
        self._texts = dict(references)
        self.canonical: str = canonical_text(self.file)
        if validate:
            self._check_imports()
            _ = self.descriptor
            _ = self.normalized

    def _check_imports(self) -> None:
        for name in self.file.all_imports:
            if name not in self._texts and well_known(name) is None:
                raise InvalidSchema(f'Import "{name[:200]}" is neither a reference nor a well-known file')

    @cached_property
    def _imports(self) -> dict[str, ProtoFile]:
        """Return the files of the closure that are needed, parsed."""
        found: dict[str, ProtoFile] = {}
        waiting = list(self.file.all_imports)
        if _uses_confluent(self.canonical):
            waiting.append("confluent/meta.proto")
        while waiting:
            name = waiting.pop()
            text = self._texts.get(name) or well_known(name)
            if name not in found and text is not None:
                found[name] = _parse(text)
                waiting.extend(found[name].all_imports)
        return found

    @cached_property
    def types(self) -> TypeTable:
        """Return the types that the file can name."""
        return TypeTable([*self._imports.values(), self.file])

    @cached_property
    def descriptor(self) -> bytes:
        """Return the serialized FileDescriptorProto, as protoc compiles it."""
        imports = {}
        for name, file in self._imports.items():
            text = self._texts.get(name)
            imports[name] = (well_known(name) or "") if text is None else _compilable(file)
        return compile_descriptors(_compilable(self.file), imports)

    @property
    def name(self) -> str | None:
        """Return the full name of the first message, or of the first enum."""
        for kind in (Message, Enum):
            for each in self._main.types:
                if isinstance(each, kind):
                    return _qualified(self._main, [each.name])
        return None

    @property
    def _main(self) -> ProtoFile:
        """Return the file whose messages count: the publicly imported one, if this one declares nothing."""
        file = self.file
        if file.types or file.imports or file.services or file.extends or len(file.public_imports) != 1:
            return file
        imported = self._imports.get(file.public_imports[0])
        return imported if imported is not None and imported.types else file

    @cached_property
    def normalized(self) -> str:
        """Return the text with everything sorted, and the names of types resolved."""
        try:
            return normalized_text(self.file, self.types)
        except Unresolved as error:
            raise InvalidSchema(str(error)) from None

    def formatted(self, format_name: str) -> str:
        """Return the canonical text, or `ignore_extensions`, or the descriptor in base64 (`serialized`)."""
        if format_name.lower() == "serialized":
            return base64.b64encode(self.descriptor).decode()
        if format_name.lower() == "ignore_extensions":
            return canonical_text(self.file, ignore_extensions=True)
        return self.canonical

    def incompatibilities(
        self, previous: ParsedSchema, words: tuple[str, str], *, lenient: bool = False
    ) -> list[str]:
        """Return why this schema cannot read what `previous` wrote."""
        other = cast("ProtobufSchema", previous)
        return messages(Compared(other.file, other.types), Compared(self.file, self.types), words)

    def top_level_fields(self) -> Collection[str]:
        """Return the fields of the messages that are not within others."""
        messages = [each for each in self._main.types if isinstance(each, Message)]
        return [field.name for each in messages for field in each.fields]

    def message_indexes(self, name: str) -> list[int]:
        """Return the positions, level by level, of the message with this name."""
        package = self._main.package
        parts = name.removeprefix(f"{package}.") if package else name
        indexes = []
        types = self._main.types
        for part in parts.split("."):
            found = [each for each in types if isinstance(each, Message)]
            index = next((number for number, each in enumerate(found) if each.name == part), None)
            if index is None:
                raise InvalidSchema(f"the schema has no message {name}")
            indexes.append(index)
            types = found[index].types
        return indexes

    def message_name(self, indexes: Sequence[int]) -> str:
        """Return the full name of the message at these positions; the first one, if there are none."""
        names = []
        types = self._main.types
        for index in indexes or [0]:
            found = [each for each in types if isinstance(each, Message)]
            if not 0 <= index < len(found):
                raise InvalidSchema(f"Invalid message indexes: {list(indexes)}")
            names.append(found[index].name)
            types = found[index].types
        return _qualified(self._main, names)

    def tagged_entities(self) -> dict[Entity, list[str]]:
        """Return the tags of messages and fields, by their names without the package."""
        found = {}
        for entity, element in _entities(self.file.types, ""):
            meta = "message_meta" if isinstance(element, Message) else "field_meta"
            tags = _tags(element.options, meta)
            if tags:
                found[entity] = tags
        return found

    def with_tags(self, add: TagChanges, remove: TagChanges) -> str:
        """Return the text with tags added and removed."""
        file = _parse(self.canonical)
        elements = dict(_entities(file.types, ""))
        for entity in dict.fromkeys([*add, *remove]):
            if entity not in elements:
                raise InvalidSchema(f"No matching path '{entity.path}' found in the schema")
            element = elements[entity]
            meta = "message_meta" if isinstance(element, Message) else "field_meta"
            tags = changed_tags(_tags(element.options, meta), add.get(entity, ()), remove.get(entity, ()))
            element.options = _with_tags(element.options, f"confluent.{meta}", tags)
        if _uses_confluent(canonical_text(file)) and "confluent/meta.proto" not in file.all_imports:
            file.imports.append("confluent/meta.proto")
        return canonical_text(file)


def _compilable(file: ProtoFile) -> str:
    """Return the text for protoc: Confluent's options must be imported, and maps have no entry messages."""
    file = with_maps(file)
    if file.syntax is None and file.edition is None:
        file = replace(file, syntax="proto2")  # protoc would warn on stderr
    text = canonical_text(file)
    imported = "confluent/meta.proto" in file.all_imports or file.package == "confluent"
    if _uses_confluent(text) and not imported:
        text = canonical_text(replace(file, imports=[*file.imports, "confluent/meta.proto"]))
    return text


def _uses_confluent(text: str) -> bool:
    return "(confluent." in text


def _qualified(file: ProtoFile, names: Iterable[str]) -> str:
    name = ".".join(names)
    return f"{file.package}.{name}" if file.package else name


def _entities(types: Iterable[Message | Enum], scope: str) -> Iterable[tuple[Entity, Message | Field]]:
    for each in types:
        if isinstance(each, Message):
            path = scope + each.name
            yield Entity(path, "sr_record"), each
            for field, _ in each.all_fields():
                yield Entity(f"{path}.{field.name}", "sr_field"), field
            yield from _entities(each.types, path + ".")


def _tags(options: Iterable[Option], meta: str) -> list[str]:
    """Return the tags in Confluent's option, however it is spelled."""
    found: list[str] = []
    for option in options:
        if not option.parenthesized or option.name.removeprefix(".") != f"confluent.{meta}":
            continue
        value: Any = option.value
        if isinstance(value, Option) and value.name == "tags":
            value = {"tags": value.value}
        tags = value.get("tags", []) if isinstance(value, dict) else []
        found += [tag for tag in (tags if isinstance(tags, list) else [tags]) if isinstance(tag, str)]
    return list(dict.fromkeys(found))


def _with_tags(options: list[Option], name: str, tags: list[str]) -> list[Option]:
    """Return the options with Confluent's option last, holding all it held and these tags."""
    content: dict[str, Any] = {}
    others = []
    for option in options:
        if not option.parenthesized or option.name.removeprefix(".") != name:
            others.append(option)
        elif isinstance(option.value, dict):
            content.update(option.value)
        elif isinstance(option.value, Option):
            content[option.value.name] = option.value.value
    content.pop("tags", None)
    if tags:
        content["tags"] = tags
    return [*others, Option(name, content, True)] if content else others
