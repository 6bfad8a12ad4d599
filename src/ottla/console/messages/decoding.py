"""Bytes into something to read: by registry, as JSON, as text, unpacked, or in hexadecimal.

`auto` takes the first that fits. Large values are not parsed in lists of messages: their beginning is shown.
"""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ottla.registry.serdes import RegistryClient, RegistryDeserializer, SerdeError
from ottla.registry.serdes.plain_json import to_json_text

FORMATS = ("auto", "json", "text", "hex", "base64", "registry")
PARSED_BYTES = 1024 * 1024
"""Larger values are not parsed unless that is asked for."""
UNPACKED_BYTES = 32 * 1024 * 1024
MAX_UNPACKINGS = 2
"""Values are unpacked so often at most: some gzip files unpack to themselves."""
GZIP = b"\x1f\x8b"
_JSON_STARTS = frozenset(bytes((each,)) for each in b'{["-0123456789tfn')
_ROW = 16
Headers = Sequence[tuple[str, bytes | None]]


class TruncatedBytes(bytes):
    """The first bytes of a key or a value, in place of all of it."""

    whole: int
    """How many bytes there are."""

    @classmethod
    def of(cls, raw: bytes, keep: int) -> TruncatedBytes:
        """Return the beginning of some bytes."""
        found = cls(raw[:keep])
        found.whole = len(raw)
        return found


class NoData:
    """What a value has that is not structured."""


@dataclass(slots=True)
class Decoded:
    """A key or a value as it is shown."""

    kind: str
    """What it was taken for: json, text, hex, avro, gzip json, null."""
    text: str
    size: int
    data: Any = NoData
    """The JSON data; NoData if it is not structured."""
    problem: str | None = None
    is_cut: bool = False

    @property
    def is_structured(self) -> bool:
        """Whether it has data that paths can look into."""
        return self.data is not NoData

    def pretty(self) -> str:
        """Return its text on several lines, if it is JSON."""
        if self.is_structured and isinstance(self.data, dict | list):
            try:
                return json_text(self.data, indent=2)
            except RecursionError:  # its writer takes more of the stack for each level than its reader
                return self.text
        return self.text


NULL = Decoded("null", "null", 0, None)


class MessageDecoder:
    """Decodes keys and values; safe for threads."""

    def __init__(self, registry: RegistryClient | None = None) -> None:
        self._registry = None if registry is None else RegistryDeserializer(registry, as_dict=True)

    @property
    def has_registry(self) -> bool:
        """Whether values may be decoded by schemas."""
        return self._registry is not None

    def decode(
        self,
        raw: bytes | None,
        how: str = "auto",
        *,
        field: str = "value",
        topic: str = "",
        headers: Headers = (),
        limit: int = PARSED_BYTES,
        unpackings: int = MAX_UNPACKINGS,
    ) -> Decoded:
        """Return bytes as something to read; what is larger than `limit` is cut, and not parsed."""
        if raw is None:
            return NULL
        if len(raw) > limit or isinstance(raw, TruncatedBytes):
            found = self._plain(bytes(raw[:limit]), how if how in ("hex", "base64") else "text")
            found.size, found.is_cut = raw.whole if isinstance(raw, TruncatedBytes) else len(raw), True
            return found
        problem = None
        if how == "registry" or (how == "auto" and self._is_framed(raw, field, headers)):
            found, problem = self._by_schema(raw, field, topic, headers)
            if problem is None:
                return found
        if how in ("auto", "json") and raw[:2] == GZIP and unpackings:
            unpacked = _unpacked(raw)
            if unpacked is not None:
                inner = self.decode(
                    unpacked,
                    how,
                    field=field,
                    topic=topic,
                    headers=headers,
                    limit=limit,
                    unpackings=unpackings - 1,
                )
                inner.kind, inner.size = f"gzip {inner.kind}", len(raw)
                return inner
        found = self._plain(raw, how)
        found.problem = problem
        return found

    def _is_framed(self, raw: bytes, field: str, headers: Headers) -> bool:
        if self._registry is None:
            return False
        is_named = any(name == f"__{field}_schema_id" for name, _ in headers)
        return is_named or (len(raw) >= 5 and raw[0] == 0)

    def _by_schema(self, raw: bytes, field: str, topic: str, headers: Headers) -> tuple[Decoded, str | None]:
        if self._registry is None:
            return NULL, "no schema registry is configured: --registry URL"
        try:
            found = self._registry.deserialize_record(topic, field, raw, headers)
            text = to_json_text(found).decode()
        except SerdeError as error:
            return NULL, str(error)
        except (ValueError, TypeError, RecursionError) as error:
            return NULL, f"it does not fit its schema: {error}"
        return Decoded("schema", text, len(raw), json.loads(text)), None

    def _plain(self, raw: bytes, how: str) -> Decoded:
        size = len(raw)
        if how == "hex":
            return Decoded("hex", hex_dump(raw), size)
        if how == "base64":
            return Decoded("base64", base64.b64encode(raw).decode(), size)
        if how in ("auto", "json") and (raw[:1] in _JSON_STARTS or raw.lstrip()[:1] in _JSON_STARTS):
            try:
                text = raw.decode()
                return Decoded("json", text, size, json.loads(text))
            except (ValueError, RecursionError):
                pass
        try:
            text = raw.decode() if how != "text" else raw.decode(errors="replace")
        except UnicodeDecodeError:
            return Decoded("hex", hex_dump(raw), size)
        if how != "text" and not _is_readable(text):
            return Decoded("hex", hex_dump(raw), size)
        return Decoded("text", text, size)


def json_text(data: Any, indent: int | None = None, *, allows_nan: bool = True) -> str:
    """Return data as JSON that can be encoded: halves of characters are written as escapes."""
    text = json.dumps(data, indent=indent, ensure_ascii=False, allow_nan=allows_nan)
    try:
        text.encode()
    except UnicodeEncodeError:
        return json.dumps(data, indent=indent)
    return text


def hex_dump(raw: bytes, most: int = 64 * 1024) -> str:
    """Return rows of offset, bytes in hexadecimal, and characters."""
    rows = []
    for at in range(0, min(len(raw), most), _ROW):
        part = raw[at : at + _ROW]
        shown = "".join(chr(each) if 32 <= each < 127 else "." for each in part)
        rows.append(f"{at:08x}  {part.hex(' '):<{_ROW * 3}} {shown}")
    return "\n".join(rows)


def hex_row(dump: str) -> str:
    """Return the first bytes of a dump in one row, without offsets and characters."""
    return " ".join(row[10 : 10 + _ROW * 3].strip() for row in dump.splitlines()[:8])


def _is_readable(text: str) -> bool:
    return all(each.isprintable() or each in "\n\r\t" for each in text[:2000])


def _unpacked(raw: bytes) -> bytes | None:
    """Return what a gzip value holds, up to a limit; None if it is none after all."""
    try:
        return zlib.decompressobj(wbits=31).decompress(raw, UNPACKED_BYTES)
    except zlib.error:
        return None
