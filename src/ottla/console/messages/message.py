"""A record with its decoded parts, which are decoded when they are looked at, and masked."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from ottla.client.consumer import ConsumerRecord
from ottla.console.messages.decoding import PARSED_BYTES, Decoded, MessageDecoder, hex_row, json_text
from ottla.console.messages.json_path import JsonPath
from ottla.console.messages.masking import HIDDEN, KEY, VALUE, Mask, Masking

PREVIEW_CHARACTERS = 240


@dataclass(frozen=True, slots=True)
class Reading:
    """How the messages of a topic are read: decoder, formats, masking."""

    topic: str
    decoder: MessageDecoder = field(default_factory=MessageDecoder)
    key_format: str = "auto"
    value_format: str = "auto"
    masking: Masking = field(default_factory=Masking)
    limit: int = PARSED_BYTES
    masks: tuple[Mask, ...] = ()
    """The rules of all topics: dead letters are masked as in the topic that they come from."""


class Message:
    """One record as the console sees it."""

    __slots__ = ("_key", "_value", "masking", "reading", "record")

    def __init__(self, record: ConsumerRecord, reading: Reading) -> None:
        self.record = record
        self.reading = reading
        self.masking = reading.masking
        if reading.masks and record.headers:
            self.masking = self.masking.with_origins(reading.masks, record.headers)
        self._key: Decoded | None = None
        self._value: Decoded | None = None

    @property
    def key(self) -> Decoded:
        """The key, decoded and masked."""
        if self._key is None:
            found = self._decoded(self.record.key, self.reading.key_format, KEY)
            self._key = _hidden(found) if self.masking.hides(KEY) else found
        return self._key

    @property
    def value(self) -> Decoded:
        """The value, decoded and masked."""
        if self._value is None:
            found = self._decoded(self.record.value, self.reading.value_format, VALUE)
            self._value = self._masked(found)
        return self._value

    def headers(self) -> list[tuple[str, str | None]]:
        """Return the headers as text; a header's value that is not text is written in hexadecimal."""
        masking = self.masking
        return [
            (_readable(name), HIDDEN if masking.hides_header(name) else _header_text(value))
            for name, value in self.record.headers
        ]

    def header(self, name: str) -> str | None:
        """Return the last header of a name; None if there is none."""
        found = None
        for key, value in self.headers():
            if key == name:
                found = value
        return found

    def preview_of(self, path: JsonPath) -> str:
        """Return what a path finds in the value, as a short text; empty if there is nothing."""
        found = path.find(self.value.data) if self.value.is_structured else ()
        try:
            texts = [each if isinstance(each, str) else json_text(each) for each in found]
        except RecursionError:
            return "…"
        text = ", ".join(texts).encode(errors="replace").decode()
        return text if len(text) <= PREVIEW_CHARACTERS else text[:PREVIEW_CHARACTERS] + "…"

    def without_decoded(self) -> Message:
        """Drop what was decoded, if it is large; it is decoded again when it is looked at."""
        if len(self.record.value or b"") > PARSED_BYTES // 16:
            self._key = self._value = None
        return self

    def as_json(self, *, preview: bool = False) -> dict[str, Any]:
        """Return it as JSON; with `preview`, long texts are cut."""
        record = self.record
        return {
            "topic": record.topic,
            "partition": record.partition,
            "offset": record.offset,
            "timestamp": record.timestamp,
            "timestamp_type": "append" if record.timestamp_type else "create",
            "key": _part(self.key, preview),
            "value": _part(self.value, preview),
            "headers": [{"name": name, "value": value} for name, value in self.headers()],
        }

    def _decoded(self, raw: bytes | None, how: str, part: str) -> Decoded:
        reading, record = self.reading, self.record
        return reading.decoder.decode(
            raw, how, field=part, topic=record.topic, headers=record.headers, limit=reading.limit
        )

    def _masked(self, found: Decoded) -> Decoded:
        masking = self.masking
        if not masking or self.record.value is None:
            return found
        if masking.hides(VALUE):
            return _hidden(found)
        if not masking.paths():
            return found
        if not isinstance(found.data, dict | list):
            return _hidden(found)  # it cannot be looked into, or is a text that may hold JSON itself
        data = masking.masked(found.data)
        try:
            problem = found.problem and "it does not fit its schema"  # the whole message quotes the value
            return Decoded(found.kind, json_text(data), found.size, data, problem)
        except RecursionError:
            return _hidden(found)


def _hidden(found: Decoded) -> Decoded:
    return Decoded("masked", HIDDEN, found.size)


def _part(part: Decoded, preview: bool) -> dict[str, Any]:
    text = part.text
    is_cut = part.is_cut
    if preview and part.kind.endswith("hex"):
        text = hex_row(text)
    if preview and len(text) > PREVIEW_CHARACTERS:
        text, is_cut = text[:PREVIEW_CHARACTERS], True
    return {"kind": part.kind, "text": text, "size": part.size, "cut": is_cut, "problem": part.problem}


def _readable(name: str) -> str:
    """Return a header's name without the halves of characters that stand for bytes that are no text."""
    return name if name.isascii() else name.encode(errors="surrogateescape").decode(errors="replace")


def _header_text(value: bytes | None) -> str | None:
    if value is None:
        return None
    try:
        text = value.decode()
    except UnicodeDecodeError:
        return "0x" + value.hex()
    return text if all(each.isprintable() for each in text) else "0x" + value.hex()
