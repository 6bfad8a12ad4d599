"""Turns a serialized FileDescriptorProto into elements: clients may register one, in base64, as a schema."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable
from functools import cache
from typing import Any

from ottla.registry.formats.limits import MAX_DEPTH, InvalidSchema
from ottla.registry.formats.protobuf.compiler import compile_descriptors
from ottla.registry.formats.protobuf.elements import (
    Enum,
    EnumValue,
    Extend,
    Field,
    Message,
    OneOf,
    Option,
    ProtoFile,
    Ranges,
    Rpc,
    Service,
    Word,
)
from ottla.registry.formats.protobuf.well_known import well_known

_META = {
    "FileOptions": "confluent.file_meta",
    "MessageOptions": "confluent.message_meta",
    "FieldOptions": "confluent.field_meta",
    "EnumOptions": "confluent.enum_meta",
    "EnumValueOptions": "confluent.enum_value_meta",
}
_SKIPPED = frozenset({"uninterpreted_option", "features"})
_LABELS = {1: "optional", 2: "required", 3: "repeated"}


@cache
def _file_class() -> Any:
    """Return a FileDescriptorProto that knows Confluent's options, in a pool of its own."""
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(descriptor_pb2.DESCRIPTOR.serialized_pb)
    imports = {"google/protobuf/descriptor.proto": well_known("google/protobuf/descriptor.proto") or ""}
    pool.AddSerializedFile(compile_descriptors(well_known("confluent/meta.proto") or "", imports))
    found = message_factory.GetMessageClass(pool.FindMessageTypeByName("google.protobuf.FileDescriptorProto"))
    for name in _META.values():
        pool.FindExtensionByName(name)
    return found


def parse_base64(text: str) -> ProtoFile | None:
    """Parse a FileDescriptorProto in base64; return None if the text is none."""
    from google.protobuf.message import DecodeError

    try:
        serialized = base64.b64decode(text, validate=True)
        descriptor = _file_class().FromString(serialized)
    except (binascii.Error, ValueError, DecodeError, RecursionError):
        return None
    return _file(descriptor)


def _file(descriptor: Any) -> ProtoFile:
    out = ProtoFile(package=descriptor.package or None)
    if descriptor.syntax in ("proto2", "proto3"):
        out.syntax = descriptor.syntax
    elif descriptor.syntax == "editions":
        name = type(descriptor).DESCRIPTOR.fields_by_name["edition"].enum_type.values_by_number
        value = name.get(descriptor.edition)
        out.edition = value.name.removeprefix("EDITION_") if value is not None else None
    for index, name in enumerate(descriptor.dependency):
        if index in descriptor.public_dependency:
            out.public_imports.append(name)
        elif index in descriptor.weak_dependency:
            out.weak_imports.append(name)
        else:
            out.imports.append(name)
    proto3 = out.syntax == "proto3"
    out.types = [_message(each, proto3, 0) for each in descriptor.message_type]
    out.types += [_enum(each) for each in descriptor.enum_type]
    out.services = [_service(each) for each in descriptor.service]
    out.extends = _extends(descriptor.extension, proto3)
    out.options = _options(descriptor.options)
    return out


def _message(descriptor: Any, proto3: bool, depth: int) -> Message:
    if depth > MAX_DEPTH:
        raise InvalidSchema(f"messages are nested deeper than {MAX_DEPTH} levels")
    out = Message(descriptor.name, options=_options(descriptor.options))
    oneofs = [OneOf(each.name) for each in descriptor.oneof_decl]
    for each in descriptor.field:
        in_oneof = each.HasField("oneof_index") and not each.proto3_optional
        if in_oneof and each.oneof_index < len(oneofs):
            oneofs[each.oneof_index].fields.append(_field(each, proto3, in_oneof=True))
        else:
            out.fields.append(_field(each, proto3, in_oneof=False))
    out.oneofs = [each for each in oneofs if each.fields]
    out.types = [_message(each, proto3, depth + 1) for each in descriptor.nested_type]
    out.types += [_enum(each) for each in descriptor.enum_type]
    out.reserved = [Ranges([_range(each.start, each.end - 1)]) for each in descriptor.reserved_range]
    out.reserved += [Ranges([name]) for name in descriptor.reserved_name]
    out.extensions = [Ranges([_range(each.start, each.end - 1)]) for each in descriptor.extension_range]
    out.extends = _extends(descriptor.extension, proto3)
    return out


def _range(first: int, last: int) -> int | tuple[int, int]:
    return first if first == last else (first, last)


def _enum(descriptor: Any) -> Enum:
    out = Enum(descriptor.name, options=_options(descriptor.options))
    out.values = [EnumValue(each.name, each.number, _options(each.options)) for each in descriptor.value]
    out.reserved = [Ranges([_range(each.start, each.end)]) for each in descriptor.reserved_range]
    out.reserved += [Ranges([name]) for name in descriptor.reserved_name]
    return out


def _field(descriptor: Any, proto3: bool, *, in_oneof: bool) -> Field:
    out = Field(None, _type_name(descriptor), descriptor.name, descriptor.number)
    if not in_oneof:
        label = _LABELS.get(descriptor.label)
        if descriptor.proto3_optional or label == "repeated" or not proto3:
            out.label = label
    if descriptor.HasField("default_value") and not proto3:
        out.default = descriptor.default_value
    if descriptor.HasField("json_name"):
        out.json_name = descriptor.json_name
    out.options = _options(descriptor.options)
    return out


def _type_name(descriptor: Any) -> str:
    if descriptor.type_name:
        return str(descriptor.type_name)
    names = type(descriptor).DESCRIPTOR.fields_by_name["type"].enum_type.values_by_number
    value = names.get(descriptor.type)
    return value.name.removeprefix("TYPE_").lower() if value is not None else "bytes"


def _extends(descriptors: Iterable[Any], proto3: bool) -> list[Extend]:
    by_name: dict[str, Extend] = {}
    for each in descriptors:
        extend = by_name.setdefault(each.extendee, Extend(each.extendee))
        extend.fields.append(_field(each, proto3, in_oneof=False))
    return list(by_name.values())


def _service(descriptor: Any) -> Service:
    out = Service(descriptor.name, options=_options(descriptor.options))
    for each in descriptor.method:
        rpc = Rpc(each.name, each.input_type, each.output_type, each.client_streaming, each.server_streaming)
        rpc.options = _options(each.options)
        out.rpcs.append(rpc)
    return out


def _options(options: Any) -> list[Option]:
    """Return the options that are set; of the extensions, only Confluent's are known."""
    out: list[Option] = []
    meta = None
    for field, value in options.ListFields():
        if field.is_extension:
            meta = value
        elif field.name not in _SKIPPED:
            values = value if field.is_repeated else [value]
            if field.message_type is None:
                out += [Option(field.name, _plain(field, each)) for each in values]
    if meta is not None:
        content = _meta(meta)
        if content:
            out.append(Option(_META[type(options).DESCRIPTOR.name], content, True))
    return out


def _plain(field: Any, value: Any) -> str | Word:
    if isinstance(value, bool):
        return Word("BOOLEAN", "true" if value else "false")
    if isinstance(value, str):
        return value
    if field.enum_type is not None:
        named = field.enum_type.values_by_number.get(value)
        return Word("ENUM", named.name if named is not None else str(value))
    return Word("NUMBER", str(value))


def _meta(meta: Any) -> dict[str, Any]:
    out: dict[str, Any] = {}
    if meta.doc:
        out["doc"] = meta.doc
    if meta.params:
        out["params"] = [
            {"value": meta.params[key], "key": key}
            if key in ("precision", "scale")
            else {"key": key, "value": meta.params[key]}
            for key in sorted(meta.params)
        ]
    if meta.tags:
        out["tags"] = list(meta.tags)
    if meta.rules:
        rules = [{f.name: value for f, value in rule.ListFields()} for rule in meta.rules]
        out["rules"] = [rule for rule in rules if rule]
    return out
