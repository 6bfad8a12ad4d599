"""What is done with schemas in a process of their own: parse, check, render."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass

from ottla.registry import formats
from ottla.registry.formats import InvalidSchema, ParsedSchema
from ottla.registry.registration import Source

__all__ = ["Check", "InvalidSchema", "Job", "JobFailed", "Parse", "Render", "warm_up"]


_SAMPLES = {"AVRO": '"string"', "JSON": '{"type":"string"}', "PROTOBUF": 'syntax = "proto3"; message A {}'}


class JobFailed(Exception):
    """A job ended its process, or failed in a way that it should not."""


@functools.lru_cache(maxsize=500)
def _parsed(source: Source, normalize: bool = False, validate: bool = False) -> ParsedSchema:
    return formats.parse(
        source.schema_type, source.text, dict(source.references), normalize=normalize, validate=validate
    )


def _size(sources: Sequence[Source]) -> int:
    return sum(len(each.text) + sum(len(text) for _, text in each.references) for each in sources)


@dataclass(frozen=True, slots=True)
class Parse:
    """Parse a schema; the result is its canonical text, normalised if that is asked for."""

    source: Source
    normalize: bool = False
    validate: bool = True
    """Whether a client brings it; what is imported is taken as it is."""

    @property
    def size(self) -> int:
        """How much text it holds."""
        return _size([self.source])

    def run(self) -> str:
        """Return the text to keep."""
        return _parsed(self.source, self.normalize, self.validate).canonical


@dataclass(frozen=True, slots=True)
class Check:
    """Compare a schema with earlier ones; the result is what is wrong with it, in words."""

    level: str
    new: Source
    previous: tuple[tuple[int, Source], ...]
    """Version and source of each, oldest first."""

    @property
    def size(self) -> int:
        """How much text it holds."""
        return _size([self.new, *(source for _, source in self.previous)])

    def run(self) -> list[str]:
        """Return the messages; none if they are compatible."""
        previous = [_parsed(source) for _, source in self.previous]
        versions = [version for version, _ in self.previous]
        return formats.check(self.level, _parsed(self.new), previous, versions)


@dataclass(frozen=True, slots=True)
class Render:
    """Write a schema in a format of its kind."""

    source: Source
    format: str

    @property
    def size(self) -> int:
        """How much text it holds."""
        return _size([self.source])

    def run(self) -> str:
        """Return the text; a format that the kind does not know is none."""
        return _parsed(self.source).formatted(self.format)


Job = Parse | Check | Render


def warm_up() -> None:
    """Import the parsers of all formats before the first client waits for them."""
    for schema_type, text in _SAMPLES.items():
        formats.parse(schema_type, text)
