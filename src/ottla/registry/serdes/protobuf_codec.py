"""Writes and reads Protobuf messages: of generated classes, or of classes made from the schema.

A registry returns a file as a descriptor in base64 (`?format=serialized`), so that reading needs no protoc. A
text is compiled.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from typing import Any, cast

from google.protobuf import descriptor_pb2, json_format, message_factory
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import DecodeError, EncodeError, Message

from ottla.registry.formats import parse
from ottla.registry.serdes.codecs import PROTOBUF, CodecOptions
from ottla.registry.serdes.errors import SerdeError
from ottla.registry.serdes.framing import Frame, index_bytes, read_indexes
from ottla.registry.serdes.registry_client import RegistryClient, Schema
from ottla.registry.serdes.rules.field_walks import walk_message
from ottla.registry.serdes.rules.fields import Visit

SERIALIZED = "serialized"
GOOGLE = "google/protobuf/"
MAIN = "default"
WRAPPERS = "google/protobuf/wrappers.proto"


def file_of(registry: RegistryClient, schema: Schema) -> Any:
    """Return the descriptor of a schema's file."""
    references = registry.referenced(schema, SERIALIZED)
    return load_file(schema.text, {name: each.text for name, each in references.items()})


class ProtobufCodec:
    """Messages of one .proto file."""

    def __init__(self, file: Any, options: CodecOptions) -> None:
        self._file = file
        self._options = options
        self._classes: dict[tuple[int, ...], Any] = {}

    @property
    def record_name(self) -> str | None:
        """Return the name of the message that is written."""
        return cast("str", self._written().full_name)

    def encode(self, data: Any) -> tuple[bytes, bytes]:
        """Write a message, or a dict with the fields of one."""
        return message_bytes(self.message(data))

    def from_json(self, data: Any) -> Any:
        """Return data as it is: a dict with the fields of a message."""
        return data

    def decode(self, frame: Frame) -> Any:
        """Read a message of the class that was asked for, or of the one that it was written as."""
        indexes, end = read_indexes(frame.rest)
        data = frame.rest[end:] if frame.payload is None else frame.payload
        kind = self._classes.get(tuple(indexes)) or self._class_of(indexes)
        found = kind()
        try:
            found.ParseFromString(data)
        except DecodeError as error:
            raise SerdeError(f"it is not a message {found.DESCRIPTOR.full_name}: {error}") from None
        return as_dict(found) if self._options.as_dict else found

    def as_read(self, data: Mapping[str, Any]) -> Any:
        """Return data after a migration, as a record of this schema is read."""
        found = message_of_dict(message_factory.GetMessageClass(self._written()), data)
        return as_dict(found) if self._options.as_dict else found

    def transform(self, data: Any, visit: Visit, by_path: Mapping[str, Iterable[str]]) -> Any:
        """Visit the fields of a message, or of a dict with its fields."""
        return walk_message(self.message(data), visit, by_path)

    def message(self, data: Any) -> Message:
        """Return data as a message of the kind that is written."""
        if isinstance(data, Message):
            return data
        return message_from(message_factory.GetMessageClass(self._written()), data)

    def _class_of(self, indexes: list[int]) -> Any:
        wanted = self._options.message_type
        if wanted is None or isinstance(wanted, str):
            kind = message_factory.GetMessageClass(_message_at(self._file, indexes))
        else:
            kind = wanted
        self._classes[tuple(indexes)] = kind
        return kind

    def _written(self) -> Any:
        wanted = self._options.message_type
        if wanted is not None and not isinstance(wanted, str):
            return wanted.DESCRIPTOR
        if wanted is None:
            return _message_at(self._file, [0])
        try:
            return self._file.pool.FindMessageTypeByName(wanted)
        except KeyError:
            package = f"{self._file.package}." if self._file.package else ""
            try:
                return self._file.pool.FindMessageTypeByName(package + wanted)
            except KeyError:
                raise SerdeError(f"the schema has no message {wanted}") from None


def message_from(kind: Any, data: Any) -> Message:
    """Return data as a message of a class: it is one already, or a dict with the fields of one."""
    if isinstance(data, kind):
        return cast("Message", data)
    found = kind()
    try:
        json_format.ParseDict(data, found)
    except (json_format.ParseError, TypeError, AttributeError) as error:
        raise SerdeError(f"it does not fit the message {found.DESCRIPTOR.full_name}: {error}") from None
    return cast("Message", found)


def message_of_dict(kind: Any, data: Mapping[str, Any]) -> Message:
    """Return a message with the fields of a dict, whose values have the types that `as_dict` gives them."""
    found = kind()
    _fill(found, data)
    return cast("Message", found)


def _fill(message: Any, data: Mapping[str, Any]) -> None:
    for name, value in data.items():
        field = message.DESCRIPTOR.fields_by_name.get(name)
        if field is None:
            raise SerdeError(f"the message {message.DESCRIPTOR.full_name} has no field {name}")
        if value is None:
            continue
        inner = field.message_type
        if inner is not None and inner.GetOptions().map_entry:
            for key, each in value.items():
                _fill_entry(getattr(message, name), inner.fields_by_name["value"], key, each)
        elif field.is_repeated:
            for each in value:
                if inner is None:
                    getattr(message, name).append(_number(field, each))
                else:
                    _fill_message(getattr(message, name).add(), each)
        elif inner is None:
            setattr(message, name, _number(field, value))
        else:
            _fill_message(getattr(message, name), value)


def _fill_entry(entries: Any, field: Any, key: Any, value: Any) -> None:
    if field.message_type is None:
        entries[key] = _number(field, value)
    else:
        _fill_message(entries[key], value)


def _fill_message(message: Any, value: Any) -> None:
    if message.DESCRIPTOR.full_name == "google.protobuf.Timestamp" and not isinstance(value, str):
        message.FromDatetime(value)
    elif message.DESCRIPTOR.file.name == WRAPPERS:
        message.value = value
    elif message.DESCRIPTOR.full_name.startswith("google.protobuf."):
        json_format.ParseDict(value, message)
    else:
        message.SetInParent()
        _fill(message, value)


def _number(field: Any, value: Any) -> Any:
    """Return the number of an enum's value."""
    if field.enum_type is not None and isinstance(value, str):
        return field.enum_type.values_by_name[value].number
    return value


def message_bytes(message: Message) -> tuple[bytes, bytes]:
    """Return the message indexes and the data of a message."""
    try:
        return index_bytes(_indexes_of(message.DESCRIPTOR)), message.SerializeToString()
    except EncodeError as error:
        raise SerdeError(str(error)) from None


def as_dict(message: Any) -> dict[str, Any]:
    """Return a message as a dict, by the names in the .proto file; fields that are not set have defaults."""
    found: dict[str, Any] = {}
    for field in message.DESCRIPTOR.fields:
        if field.has_presence and not message.HasField(field.name):
            found[field.name] = None
            continue
        value = getattr(message, field.name)
        if field.message_type is not None and field.message_type.GetOptions().map_entry:
            inner = _plain(field.message_type.fields_by_name["value"])
            found[field.name] = {key: inner(value[key]) for key in value}
        elif field.is_repeated:
            found[field.name] = list(map(_plain(field), value))
        else:
            found[field.name] = _plain(field)(value)
    return found


def _plain(field: Any) -> Callable[[Any], Any]:
    """Return what turns the value of a field into plain Python: names of enums, dicts, times."""
    if field.enum_type is not None:
        values = field.enum_type.values_by_number
        return lambda value: values[value].name if value in values else value
    if field.message_type is None:
        return lambda value: value
    name = field.message_type.full_name
    if name == "google.protobuf.Timestamp":
        from datetime import UTC

        return lambda value: value.ToDatetime(tzinfo=UTC)
    if field.message_type.file.name == WRAPPERS:
        return lambda value: value.value
    if name.startswith("google.protobuf."):
        return lambda value: json_format.MessageToDict(value, preserving_proto_field_name=True)
    return as_dict


def schema_of(kind: Any, register: Callable[[str, Schema], int], skip_known: bool = True) -> Schema:
    """Return the schema of a generated class; the files that it imports are registered under their names."""
    return _schema_of_file(kind.DESCRIPTOR.file, register, skip_known)


def _schema_of_file(file: Any, register: Callable[[str, Schema], int], skip_known: bool) -> Schema:
    from ottla.registry.serdes.registry_client import SchemaReference

    references = []
    for imported in file.dependencies:
        if skip_known and imported.name.startswith((GOOGLE, "confluent/", "google/type/")):
            continue
        version = register(imported.name, _schema_of_file(imported, register, skip_known))
        references.append(SchemaReference(imported.name, imported.name, version))
    return Schema(base64.b64encode(file.serialized_pb).decode(), PROTOBUF, tuple(references))


def _indexes_of(descriptor: Any) -> list[int]:
    indexes: list[int] = []
    while descriptor is not None:
        parent = descriptor.containing_type
        siblings = descriptor.file.message_types_by_name.values() if parent is None else parent.nested_types
        indexes.insert(0, [each.full_name for each in siblings].index(descriptor.full_name))
        descriptor = parent
    return indexes


def _message_at(file: Any, indexes: list[int]) -> Any:
    messages = list(file.message_types_by_name.values())
    found = None
    for index in indexes:
        if not 0 <= index < len(messages):
            raise SerdeError(f"the schema has no message at {indexes}: the record names another schema's")
        found = messages[index]
        messages = list(found.nested_types)
    return found


def load_file(text: str, references: Mapping[str, str]) -> Any:
    """Return the file of a schema in a pool of its own, with all that it imports."""
    pool = DescriptorPool()
    files = {name: _descriptor(each, references) for name, each in references.items()}
    _add(pool, MAIN, _descriptor(text, references), files, set())
    return pool.FindFileByName(MAIN)


def _add(pool: Any, name: str, file: Any, files: Mapping[str, Any], added: set[str]) -> None:
    added.add(name)
    for imported in file.dependency:
        if imported not in added:
            found = files.get(imported)
            _add(pool, imported, _known(imported) if found is None else found, files, added)
    file.name = name
    try:
        pool.Add(file)
    except (TypeError, ValueError) as error:
        raise SerdeError(f"the Protobuf schema cannot be used: {error}") from None


def _descriptor(text: str, references: Mapping[str, str]) -> Any:
    """Return the FileDescriptorProto of a schema: in base64, or a text that protoc compiles."""
    try:
        return descriptor_pb2.FileDescriptorProto.FromString(base64.b64decode(text, validate=True))
    except (binascii.Error, ValueError, DecodeError):
        parsed = parse(PROTOBUF, text, references, validate=False)
        return descriptor_pb2.FileDescriptorProto.FromString(base64.b64decode(parsed.formatted(SERIALIZED)))


def _known(name: str) -> Any:
    """Return a file that every schema may import."""
    if name.startswith(GOOGLE):
        try:
            module = import_module(name.removesuffix(".proto").replace("/", ".") + "_pb2")
        except ImportError:
            raise SerdeError(f"the schema imports {name}, which is not known") from None
        return descriptor_pb2.FileDescriptorProto.FromString(module.DESCRIPTOR.serialized_pb)
    from ottla.registry.formats.protobuf.well_known import well_known

    text = well_known(name)
    if text is None:
        raise SerdeError(f"the schema imports {name}, which is neither a reference nor well-known")
    return _descriptor(text, {})
