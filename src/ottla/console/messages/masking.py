"""Hides parts of messages before they are shown, searched or exported.

orders*:$.card.number      a value in the JSON of the topics that match
orders*:key, orders*:value, orders*:header.token     the whole of it

What cannot be decoded as JSON, and so cannot be looked into, is hidden as a whole.
"""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from ottla.console.messages.decoding import Headers
from ottla.console.messages.json_path import JsonPath

HIDDEN = "••••••"
ORIGIN_HEADERS = (
    "ottla.source.topic",
    "__connect.errors.topic",
    "__streams.errors.topic",
    "kafka_dlt-original-topic",
)
"""Headers of dead letters that name the topic they come from, whose rules hold for them too: of pipelines on
Spark, of Kafka Connect, of Kafka Streams, of Spring.
"""
KEY, VALUE, HEADER = "key", "value", "header"


@dataclass(frozen=True, slots=True)
class Mask:
    """One rule: which topics, and what of them is hidden."""

    topics: str
    part: str
    header: str = ""
    path: JsonPath | None = None

    @classmethod
    def parse(cls, text: str) -> Mask:
        """Return the rule of a text; ValueError says what a rule looks like."""
        topics, colon, what = text.partition(":")
        if not colon or not topics or not what:
            raise ValueError(f"{text!r} is not TOPIC:WHAT, such as orders:$.card or orders:key")
        if what in (KEY, VALUE):
            return cls(topics, what)
        if what.startswith("header."):
            return cls(topics, HEADER, header=what.removeprefix("header."))
        return cls(topics, VALUE, path=JsonPath.parse(what))

    def fits(self, topic: str) -> bool:
        """Return whether it is about a topic."""
        return fnmatchcase(topic, self.topics)


@dataclass(frozen=True, slots=True)
class Masking:
    """The rules of one topic."""

    masks: tuple[Mask, ...] = ()

    @classmethod
    def of(cls, masks: tuple[Mask, ...], topic: str) -> Masking:
        """Return the rules for a topic."""
        return cls(tuple(each for each in masks if each.fits(topic)))

    def with_origins(self, masks: tuple[Mask, ...], headers: Headers) -> Masking:
        """Return these rules, and those of the topics that the headers of a dead letter name."""
        origins = {
            (value or b"").decode(errors="replace") for name, value in headers if name in ORIGIN_HEADERS
        }
        more = tuple(each for each in masks if each not in self.masks and any(map(each.fits, origins)))
        return Masking((*self.masks, *more)) if more else self

    def __bool__(self) -> bool:
        return bool(self.masks)

    def hides(self, part: str) -> bool:
        """Return whether all of a part (key or value) is hidden."""
        return any(each.part == part and each.path is None for each in self.masks)

    def hides_header(self, name: str) -> bool:
        """Return whether a header is hidden."""
        return any(each.part == HEADER and each.header == name for each in self.masks)

    def paths(self) -> list[JsonPath]:
        """Return the paths that are hidden in values."""
        return [each.path for each in self.masks if each.path is not None]

    def masked(self, data: Any) -> Any:
        """Return the data of a value with its hidden parts replaced."""
        for path in self.paths():
            data = path.replace(data, lambda _: HIDDEN)
        return data
