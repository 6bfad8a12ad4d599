"""Turns messages that stand for map entries in descriptors into maps: protoc refuses them in .proto text."""

from __future__ import annotations

from dataclasses import replace

from ottla.registry.formats.protobuf.elements import Field, Message, ProtoFile


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
