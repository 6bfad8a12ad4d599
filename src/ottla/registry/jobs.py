"""What is done with schemas in a process of their own: parse, check, render."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace

from ottla.registry import decoding, formats
from ottla.registry.decoding import Decode
from ottla.registry.formats import Entity, InvalidSchema, ParsedSchema
from ottla.registry.registration import Source
from ottla.registry.sized_cache import SizedCache

__all__ = [
    "ChangeTags",
    "Check",
    "Decode",
    "FindEquivalent",
    "FindTags",
    "InvalidSchema",
    "Job",
    "JobFailed",
    "Parse",
    "PropagateTags",
    "Render",
    "Tags",
    "forget",
    "warm_up",
]


_SAMPLES = {"AVRO": '"string"', "JSON": '{"type":"string"}', "PROTOBUF": 'syntax = "proto3"; message A {}'}


class JobFailed(Exception):
    """A job ended its process, or failed in a way that it should not."""


MAX_KEPT = 500
MAX_KEPT_CHARS = 8 << 20
"""Most text in the schemas that are kept parsed: each takes up to two hundred times its text."""
_kept: SizedCache[tuple[Source, bool, bool], ParsedSchema] = SizedCache(MAX_KEPT, MAX_KEPT_CHARS)
_kept_resolved: SizedCache[Source, str] = SizedCache(MAX_KEPT, MAX_KEPT_CHARS)


def forget() -> None:
    """Forget all schemas that are kept, to have their memory."""
    for cache in (_kept, _kept_resolved, decoding.kept):
        cache.clear()


def _parsed(source: Source, normalize: bool = False, validate: bool = False) -> ParsedSchema:
    def parse() -> ParsedSchema:
        return formats.parse(
            source.schema_type, source.text, dict(source.references), normalize=normalize, validate=validate
        )

    return _kept.get((source, normalize, validate), _size([source]), parse)


def _size(sources: Sequence[Source]) -> int:
    return sum(len(each.text) + sum(len(text) for _, text in each.references) for each in sources)


@dataclass(frozen=True, slots=True)
class Parse:
    """Parse a schema; the result is its canonical text, normalised if that is asked for."""

    source: Source
    normalize: bool = False
    validate: bool = True
    """Whether a client brings it; what is imported is taken as it is."""
    validates_fields: bool = False
    """Whether names of properties may not begin with $$."""

    @property
    def size(self) -> int:
        """How much text it holds."""
        return _size([self.source])

    def run(self) -> str:
        """Return the text to keep."""
        parsed = _parsed(self.source, self.normalize, self.validate)
        if self.validates_fields and parsed.schema_type == "JSON":
            for name in parsed.top_level_fields():
                if name.startswith("$$"):
                    where = f"#/properties/{name[:200]}"
                    raise InvalidSchema(
                        f"Invalid schema of type JSON, details: {where}: "
                        "Field names cannot start with $$ prefix"
                    )
        return parsed.canonical


@dataclass(frozen=True, slots=True)
class Check:
    """Compare a schema with earlier ones; the result is what is wrong with it, in words."""

    level: str
    new: Source
    previous: tuple[tuple[int, Source], ...]
    """Version and source of each, oldest first."""
    lenient: bool = False
    reserved: tuple[str, ...] = ()
    """Names that none of its fields may have."""

    @property
    def size(self) -> int:
        """How much text it holds."""
        return _size([self.new, *(source for _, source in self.previous)])

    def run(self) -> list[str]:
        """Return the messages; none if they are compatible."""
        previous = [_parsed(source) for _, source in self.previous]
        versions = [version for version, _ in self.previous]
        new = _parsed(self.new)
        fields = new.top_level_fields() if self.reserved else ()
        conflicts = [
            f"The new schema has field that conflicts with the reserved field {name}."
            for name in self.reserved
            if name in fields
        ]
        return conflicts + formats.check(self.level, new, previous, versions, lenient=self.lenient)


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


Tags = tuple[tuple[Entity, tuple[str, ...]], ...]


@dataclass(frozen=True, slots=True)
class ChangeTags:
    """Add tags to the records and fields of a schema, and remove some; the result is its text."""

    source: Source
    add: Tags
    remove: Tags

    @property
    def size(self) -> int:
        """How much text it holds."""
        return _size([self.source])

    def run(self) -> str:
        """Return the text; a path that leads nowhere is refused."""
        try:
            return _parsed(self.source).with_tags(dict(self.add), dict(self.remove))
        except (KeyError, ValueError) as error:
            raise InvalidSchema(str(error)) from None


@dataclass(frozen=True, slots=True)
class PropagateTags:
    """Give the records and fields of a schema the tags that they have in an earlier one."""

    source: Source
    earlier: Source

    @property
    def size(self) -> int:
        """How much text it holds."""
        return _size([self.source, self.earlier])

    def run(self) -> str:
        """Return the text; tags of what is not there any more are left out."""
        text = self.source.text
        for entity, tags in _parsed(self.earlier).tagged_entities().items():
            with contextlib.suppress(KeyError, ValueError, InvalidSchema):
                text = _parsed(replace(self.source, text=text)).with_tags({entity: tuple(tags)}, {})
        return text


@dataclass(frozen=True, slots=True)
class FindTags:
    """Find the tags of the records and fields of a schema."""

    source: Source

    @property
    def size(self) -> int:
        """How much text it holds."""
        return _size([self.source])

    def run(self) -> Tags:
        """Return them in the order of the text."""
        found = _parsed(self.source).tagged_entities()
        return tuple((entity, tuple(tags)) for entity, tags in found.items())


@dataclass(frozen=True, slots=True)
class FindEquivalent:
    """Find the schema that is the same as another, but for references that one has and the other holds.

    Avro's serializers send a schema with the types that it refers to written out.
    """

    new: Source
    others: tuple[Source, ...]

    @property
    def size(self) -> int:
        """How much text it holds."""
        return _size([self.new, *self.others])

    def run(self) -> int | None:
        """Return which of the others it is."""
        wanted = _resolved(self.new)
        for number, each in enumerate(self.others):
            with contextlib.suppress(InvalidSchema):  # written by a registry with other rules
                if _resolved(each) == wanted:
                    return number
        return None


def _resolved(source: Source) -> str:
    """Return an Avro schema with all types written out, and its keys in order."""

    def resolve() -> str:
        return json.dumps(json.loads(_parsed(source).formatted("resolved")), sort_keys=True)

    return _kept_resolved.get(source, _size([source]), resolve)


Job = Parse | Check | Render | FindEquivalent | ChangeTags | PropagateTags | FindTags | Decode


def warm_up() -> None:
    """Import the parsers of all formats before the first client waits for them."""
    for schema_type, text in _SAMPLES.items():
        with contextlib.suppress(ImportError):  # not installed: its schemas are refused, the others served
            formats.parse(schema_type, text)
