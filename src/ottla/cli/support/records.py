r"""How records are written as text, and read back.

Templates, as in kcat:

    %t topic   %p partition   %o offset   %T timestamp in ms   %h headers, name=value,name=value
    %k key     %v value (also %s)     %K %V (also %S) their sizes in bytes, -1 for null     %% a percent sign
    \n \r \t \\ \xHH as in C; nothing is added at the end

JSON, one object per line; what `consume` writes, `produce` reads:

    {"topic": "t", "partition": 0, "offset": 7, "timestamp": 1700000000000,
     "key": "k", "value": "v", "headers": [["name", "value"]]}

Values that were decoded with a schema are JSON of their own. Bytes that are UTF-8 are JSON strings, others
are {"base64": "..."}; null is null.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Callable, Collection
from typing import Any, NamedTuple

from ottla.client.consumer import ConsumerRecord

Piece = Callable[[ConsumerRecord], bytes]
Formatter = Callable[[ConsumerRecord], bytes]

_TOKEN = re.compile(r"%(.?)|\\(x[0-9A-Fa-f]{2}|.?)", re.DOTALL)
_ESCAPES = {"n": b"\n", "r": b"\r", "t": b"\t", "\\": b"\\", "0": b"\0"}


class NewRecord(NamedTuple):
    """A record to be produced, as far as the input says."""

    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    timestamp: int | None = None
    partition: int | None = None


class JsonText(bytes):
    """Bytes that are JSON: a value that was decoded with its schema."""


def _size(data: bytes | None) -> bytes:
    return b"%d" % (-1 if data is None else len(data))


_FIELDS: dict[str, Piece] = {
    "t": lambda record: record.topic.encode(),
    "p": lambda record: b"%d" % record.partition,
    "o": lambda record: b"%d" % record.offset,
    "T": lambda record: b"%d" % record.timestamp,
    "k": lambda record: record.key or b"",
    "v": lambda record: record.value or b"",
    "s": lambda record: record.value or b"",
    "K": lambda record: _size(record.key),
    "V": lambda record: _size(record.value),
    "S": lambda record: _size(record.value),
    "h": lambda record: b",".join(name.encode() + b"=" + (value or b"") for name, value in record.headers),
}


def template(text: str) -> Formatter:
    """Return a function that writes a record by a template; ValueError says what is wrong with it."""
    pieces: list[bytes | Piece] = []
    at = 0
    for token in _TOKEN.finditer(text):
        pieces.append(text[at : token.start()].encode())
        pieces.append(_piece(token))
        at = token.end()
    pieces.append(text[at:].encode())

    def write(record: ConsumerRecord) -> bytes:
        return b"".join(piece if isinstance(piece, bytes) else piece(record) for piece in pieces)

    return write


def _piece(token: re.Match[str]) -> bytes | Piece:
    field, escape = token.groups()
    if field == "%":
        return b"%"
    if field is not None:
        if field not in _FIELDS:
            raise ValueError(f"%{field} stands for nothing; there are %{' %'.join(_FIELDS)} and %%")
        return _FIELDS[field]
    if escape.startswith("x") and len(escape) == 3:
        return bytes([int(escape[1:], 16)])
    if escape not in _ESCAPES:
        raise ValueError(f"\\{escape} stands for nothing; there are \\n \\r \\t \\\\ and \\xHH")
    return _ESCAPES[escape]


def to_json(record: ConsumerRecord) -> bytes:
    """Return a record as one line of JSON."""
    fields = {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp": record.timestamp,
        "key": bytes_as_json(record.key),
        "value": bytes_as_json(record.value),
        "headers": [[name, bytes_as_json(value)] for name, value in record.headers],
    }
    return json.dumps(fields, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"


def bytes_as_json(data: bytes | None) -> Any:
    """Return bytes as JSON: text where they are UTF-8, else base64; what is JSON already, as that."""
    if data is None:
        return None
    if isinstance(data, JsonText):
        return json.loads(data)
    try:
        return data.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode()}


def from_json(line: bytes, decoded: Collection[str] = ()) -> NewRecord:
    """Return the record that a line of JSON describes; ValueError says what is wrong with it.

    `decoded` names the fields, key or value, that are data rather than bytes: they stay JSON.
    """
    try:
        fields = json.loads(line)
    except ValueError as error:
        raise ValueError(f"not JSON: {error}") from None
    if not isinstance(fields, dict):
        raise ValueError("not a JSON object")
    headers = fields.get("headers") or []
    if not isinstance(headers, list) or not all(_is_header(each) for each in headers):
        raise ValueError('"headers" must be a list of ["name", "value"] pairs')
    key, value = (
        _to_json(fields.get(name)) if name in decoded else _to_bytes(fields.get(name), name)
        for name in ("key", "value")
    )
    return NewRecord(
        key,
        value,
        tuple((name, _to_bytes(value, f"header {name}")) for name, value in headers),
        _to_int(fields.get("timestamp"), "timestamp"),
        _to_int(fields.get("partition"), "partition"),
    )


def _is_header(value: Any) -> bool:
    return isinstance(value, list) and len(value) == 2 and isinstance(value[0], str)


def _to_bytes(value: Any, name: str) -> bytes | None:
    if value is None:
        return None
    try:
        if isinstance(value, str):
            return value.encode()
        if isinstance(value, dict) and value.keys() == {"base64"}:
            return base64.b64decode(value["base64"], validate=True)
    except (TypeError, UnicodeEncodeError, binascii.Error) as error:
        raise ValueError(f'"{name}" cannot be turned into bytes: {error}') from None
    raise ValueError(f'"{name}" must be text, null or {{"base64": "..."}}')


def _to_json(value: Any) -> bytes | None:
    return None if value is None else JsonText(json.dumps(value).encode())


def _to_int(value: Any, name: str) -> int | None:
    if value is None or (isinstance(value, int) and not isinstance(value, bool) and value >= 0):
        return value
    raise ValueError(f'"{name}" must be a whole number')
