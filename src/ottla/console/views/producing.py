"""What a person types into bytes: text, JSON, hexadecimal, base64, by a schema, or nothing at all."""

from __future__ import annotations

import asyncio
import base64
import binascii
import json
from functools import lru_cache

from ottla.console.messages.decoding import Decoded
from ottla.console.table import Form, UserError
from ottla.registry.serdes import RegistrySerializer, SerdeError

PRODUCED = ("text", "json", "hex", "base64", "registry", "null")
Headers = list[tuple[str, bytes | None]]


async def encoded(
    form: Form, part: str, topic: str, headers: Headers, registry_url: str | None
) -> bytes | None:
    """Return the bytes of a key or a value; UserError says what is wrong with it."""
    text, how = form.text(part, ""), form.text(f"{part}_format", "text") or "text"
    if how not in PRODUCED:
        raise UserError(f"The format of a {part} is one of {', '.join(PRODUCED)}.")
    if how == "null" or (part == "key" and text == ""):
        return None
    if how == "json":
        _parsed(text, part)
    elif how == "hex":
        try:
            return bytes.fromhex(text)
        except ValueError:
            raise UserError(f"The {part} is not hexadecimal: write 0a1b2c.") from None
    elif how == "base64":
        try:
            return base64.b64decode(text, validate=True)
        except binascii.Error:
            raise UserError(f"The {part} is not base64.") from None
    elif how == "registry":
        if registry_url is None:
            raise UserError("No schema registry is configured.", "Start the console with --registry URL.")
        data = _parsed(text, part)
        try:
            return await asyncio.to_thread(
                _serializer(registry_url).serialize_json, topic, part, data, headers
            )
        except SerdeError as error:
            raise UserError(f"The {part} does not fit its schema: {error}") from None
    return text.encode()


def as_typed(raw: bytes | None, decoded: Decoded) -> tuple[str, str]:
    """Return a key or a value, and its format, as a person would type them."""
    if raw is None:
        return "", "null"
    if decoded.kind == "schema":
        return decoded.pretty(), "registry"
    try:
        text = raw.decode()
    except UnicodeDecodeError:
        return base64.b64encode(raw).decode(), "base64"
    is_plain = text and "\r" not in text and all(each.isprintable() or each in "\n\t" for each in text)
    return (text, "text") if is_plain else (base64.b64encode(raw).decode(), "base64")


def as_line(name: str, value: bytes | None) -> str | None:
    """Return a header as a line of the form; None if a line cannot hold it."""
    try:
        text = (value or b"").decode()
    except UnicodeDecodeError:
        return None
    is_line = all(each.isprintable() and each == each.strip() for each in (name, text))
    return f"{name}: {text}" if is_line and ":" not in name and value is not None else None


def headers_of(form: Form) -> Headers:
    """Return the headers: lines of `name: value`, or an object in JSON."""
    given = form.values.get("headers")
    if isinstance(given, dict):
        return [(str(name), None if value is None else str(value).encode()) for name, value in given.items()]
    found: Headers = []
    for line in form.text("headers", "").splitlines():
        if not line.strip():
            continue
        name, colon, value = line.partition(":")
        if not colon:
            raise UserError(f"{line!r} is not a header: write name: value, one per line.")
        found.append((name.strip(), value.strip().encode()))
    return found


def _parsed(text: str, part: str) -> object:
    try:
        return json.loads(text)
    except ValueError as error:
        raise UserError(f"The {part} is not JSON: {error}.") from None


@lru_cache(16)
def _serializer(url: str) -> RegistrySerializer:
    return RegistrySerializer(url)
