"""Codecs of stored records, compiled from the dataclasses that declare them.

A record of an internal topic has a key (int16 record type, then its fields) and a value (int16 version, then
its fields). Each is declared once, as a frozen dataclass whose fields are in wire order:

    field(metadata=INT32)                        a field of every version
    field(metadata=STRING | since(3))            a field from version 3 on
    field(metadata=INT64 | only(1), default=-1)  a field of version 1 alone
    field(metadata=INT64 | tag(0), default=0)    a tagged field: written if it is not the default

Arrays are tuples, structs are dataclasses of the same kind, and `X | None` is nullable. A version that lacks
a field reads it as its default. Flexible versions have varint lengths plus one and end every struct with
tagged fields; the others have int16 and int32 lengths (protocol/schema compiles both).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, fields, is_dataclass, make_dataclass
from functools import cached_property
from struct import Struct, error
from types import NoneType, UnionType
from typing import Any, Generic, TypeVar, get_args, get_origin

from ottla.protocol.errors import InvalidRequest
from ottla.protocol.primitives import truncated
from ottla.protocol.schema.decoding import compile_decoder
from ottla.protocol.schema.encoding import compile_encoder
from ottla.protocol.schema.messages import Decoder, Encoder

T = TypeVar("T")
Metadata = dict[str, object]

INT8: Metadata = {"kafka_type": "int8"}
INT16: Metadata = {"kafka_type": "int16"}
INT32: Metadata = {"kafka_type": "int32"}
INT64: Metadata = {"kafka_type": "int64"}
STRING: Metadata = {"kafka_type": "string"}
BYTES: Metadata = {"kafka_type": "bytes"}
ID: Metadata = {"kafka_type": "uuid"}

MAX_ELEMENTS = 2**31
"""No limit of its own: a record has as many elements as fit into its bytes, which the log limits."""

_INT16 = Struct(">h")


def since(version: int) -> Metadata:
    """Declare a field that earlier versions do not have."""
    return {"since": version}


def only(version: int) -> Metadata:
    """Declare a field that one version has."""
    return {"since": version, "until": version}


def tag(number: int) -> Metadata:
    """Declare a tagged field."""
    return {"tag": number}


def read_int16(raw: bytes) -> int:
    """Return the record type of a key, or the version of a value; raise InvalidRequest if it is torn."""
    try:
        return int(_INT16.unpack_from(raw)[0])
    except error:
        raise truncated() from None


class KeyCodec(Generic[T]):
    """Encodes and decodes the keys of one record type; they have no versions and are never flexible.

    Like those of values, both functions are compiled when they are first used: no start waits for them.
    """

    def __init__(self, record_type: int, entity: type[T]) -> None:
        self._prefix = _INT16.pack(record_type)
        self._entity = entity

    def encode(self, key: T) -> bytes:
        """Return the bytes of a key."""
        return self._prefix + self._encode(key)

    def decode(self, raw: bytes) -> T:
        """Return a key; raise InvalidRequest if it is torn."""
        key: T = self._decode(raw, 2)
        return key

    @cached_property
    def _encode(self) -> Encoder:
        return compile_encoder(_wire_class(self._entity, 0, flexible=False), self._entity)

    @cached_property
    def _decode(self) -> Decoder:
        return compile_decoder(_wire_class(self._entity, 0, flexible=False), self._entity, MAX_ELEMENTS)


class ValueCodec(Generic[T]):
    """Encodes values in one version, and decodes all versions up to the newest."""

    def __init__(self, entity: type[T], *, newest: int, flexible_since: int, written: int) -> None:
        self._entity = entity
        self._newest = newest
        self._flexible_since = flexible_since
        self._written = written
        self._prefix = _INT16.pack(written)
        self._decoders: dict[int, Decoder] = {}

    def encode(self, value: T) -> bytes:
        """Return the bytes of a value."""
        return self._prefix + self._encode(value)

    def decode(self, raw: bytes) -> T:
        """Return a value; raise InvalidRequest if it is torn, or of a version that is not known."""
        version = read_int16(raw)
        decode = self._decoders.get(version) or self._compile_decoder(version)
        value: T = decode(raw, 2)
        return value

    @cached_property
    def _encode(self) -> Encoder:
        return compile_encoder(self._wire_class(self._written), self._entity)

    def _compile_decoder(self, version: int) -> Decoder:
        if not 0 <= version <= self._newest:
            raise InvalidRequest(f"version {version} of the value is not known")
        decode = compile_decoder(self._wire_class(version), self._entity, MAX_ELEMENTS)
        self._decoders[version] = decode
        return decode

    def _wire_class(self, version: int) -> type[Any]:
        return _wire_class(self._entity, version, flexible=version >= self._flexible_since)


def _wire_class(entity: type[Any], version: int, *, flexible: bool) -> type[Any]:
    """Return the fields that one version of `entity` has on the wire, as a dataclass for the schema codec."""
    present = []
    for each in fields(entity):
        metadata: Mapping[str, Any] = each.metadata
        if metadata.get("since", 0) <= version <= metadata.get("until", version):
            layout = field(default=each.default, metadata=metadata)
            present.append((each.name, _of_version(each.type, version, flexible=flexible), layout))
    namespace = {"__flexible__": flexible, "__tagged__": getattr(entity, "__tagged__", True)}
    name = f"{entity.__name__}V{version}"
    return make_dataclass(name, present, namespace=namespace, frozen=True, slots=True, kw_only=True)


def _of_version(annotation: Any, version: int, *, flexible: bool) -> Any:
    """Return the type of a field, with the structs in it as they are in one version."""
    if is_dataclass(annotation):
        return _wire_class(annotation, version, flexible=flexible)  # type: ignore[arg-type]
    if get_origin(annotation) is tuple:
        return tuple[_of_version(get_args(annotation)[0], version, flexible=flexible), ...]  # type: ignore[misc]
    if get_origin(annotation) is UnionType:
        (inner,) = (each for each in get_args(annotation) if each is not NoneType)
        return _of_version(inner, version, flexible=flexible) | None
    return annotation
