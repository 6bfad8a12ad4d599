"""Decode records with a schema, for brokers whose topics want records that decode. Runs in a worker process.

A request has the records of one schema: each with its length (4 bytes) in front, and with the message indexes
that Protobuf has, without the name of the schema.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ottla.registry.formats import InvalidSchema
from ottla.registry.registration import Source
from ottla.registry.serdes.codecs import PROTOBUF, Codec, CodecOptions, text_codec
from ottla.registry.serdes.errors import SerdeError
from ottla.registry.serdes.framing import Frame
from ottla.registry.serdes.registry_client import Schema
from ottla.registry.sized_cache import SizedCache

LENGTH_BYTES = 4
MAX_NAMED = 1_000
"""How many records an answer names."""


kept: SizedCache[Source, Codec] = SizedCache(100, 8 << 20)
"""What decodes with a schema."""


def _codec(source: Source) -> Codec:
    size = len(source.text) + sum(len(text) for _, text in source.references)
    return kept.get(source, size, lambda: _make_codec(source))


def _make_codec(source: Source) -> Codec:
    references = dict(source.references)
    if source.schema_type == PROTOBUF:
        from ottla.registry.serdes.protobuf_codec import ProtobufCodec, load_file

        return ProtobufCodec(load_file(source.text, references), CodecOptions())
    return text_codec(Schema(source.text, source.schema_type), references, CodecOptions())


@dataclass(frozen=True, slots=True)
class Decode:
    """Decode records; the result is which of them do not, and why."""

    source: Source
    body: bytes

    @property
    def size(self) -> int:
        """How much text it holds."""
        return len(self.source.text)

    def run(self) -> list[tuple[int, str]]:
        """Return the number of each record that does not decode, with the reason."""
        try:
            codec = _codec(self.source)
        except SerdeError as error:
            raise InvalidSchema(str(error)) from None
        found = []
        for index, data in enumerate(split(self.body)):
            try:
                codec.decode(Frame(0, data, None))
            except SerdeError as error:
                found.append((index, str(error)))
                if len(found) == MAX_NAMED:
                    break
        return found


def split(body: bytes) -> Iterator[bytes]:
    """Yield the records of a request; ValueError if it does not add up."""
    at = 0
    while at < len(body):
        length = int.from_bytes(body[at : at + LENGTH_BYTES], "big")
        at += LENGTH_BYTES + length
        if at > len(body):
            raise ValueError("a record ends behind the end of the body")
        yield body[at - length : at]
